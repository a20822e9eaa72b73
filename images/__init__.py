"""The project's container images, assembled without an engine; ``python -m images.build``."""
