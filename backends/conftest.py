"""The template is no installed backend: a test of its own copies it and runs its tests there."""

collect_ignore = ["_template"]
