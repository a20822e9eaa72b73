"""Acme neural processors for HAMi."""
