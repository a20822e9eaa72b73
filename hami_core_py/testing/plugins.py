"""Plugins made on the spot, for tests of what the core does with them."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from hami_core_py.hooks import API, hookimpl
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.families import Family


def make_plugin(
    name: str,
    families: Sequence[Family] = (),
    *,
    wrappers: Sequence[Callable[..., Any]] = (),
    hooks: Sequence[Callable[..., Any]] = (),
    **info: Any,
) -> tuple[str, ModuleType]:
    """A plugin as ``load_backends(plugins=[...])`` takes it.

    :param families: of the plugin; a policy has none.
    :param hooks: functions named like the hooks they answer; ``wrappers`` likewise, for generators that wrap.
    :param info: further fields of its ``BackendInfo``.
    """
    plugin = ModuleType(f"plugin_{name.replace('-', '_')}")

    def hami_backend() -> BackendInfo:
        return BackendInfo(**{"name": name, "api": API, **info})

    def hami_families() -> Sequence[Family]:
        return tuple(families)

    for function in (hami_backend, hami_families, *hooks):
        setattr(plugin, function.__name__, hookimpl(function))
    for function in wrappers:
        setattr(plugin, function.__name__, hookimpl(wrapper=True)(function))
    return name, plugin
