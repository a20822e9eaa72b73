"""The parts of ``BackendContract``, by what they look at."""
