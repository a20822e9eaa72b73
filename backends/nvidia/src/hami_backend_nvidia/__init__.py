"""NVIDIA GPUs for HAMi. Importing this package touches no driver; start reading at ``plugin``."""
