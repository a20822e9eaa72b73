"""Protocols over services; thin."""
