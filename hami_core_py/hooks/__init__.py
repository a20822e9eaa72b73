"""The contract with plugins: what the core asks, how plugins are found, and how one failing plugin stays alone.

A plugin module imports ``hookimpl`` and ``BackendSettings`` from here and the models it answers with.
"""

from hami_core_py.hooks.base import BackendSettings
from hami_core_py.hooks.specs import API, GROUP, hookimpl, hookspec

__all__ = ["API", "GROUP", "BackendSettings", "hookimpl", "hookspec"]
