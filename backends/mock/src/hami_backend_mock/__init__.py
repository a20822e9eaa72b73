"""Devices from a YAML file for HAMi. Start reading at ``plugin``."""
