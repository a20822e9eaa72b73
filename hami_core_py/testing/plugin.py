"""Pytest plugin of the kit; imports the rest of it lazily."""
