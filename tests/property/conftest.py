"""Property tests have no time limit per example: the machines that run them are shared."""

from hypothesis import settings

settings.register_profile("patient", deadline=None, print_blob=True)
settings.load_profile("patient")
