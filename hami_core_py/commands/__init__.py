"""The sub-commands of ``hami``, one module each; they read settings, build services and servers, and own exit codes."""
