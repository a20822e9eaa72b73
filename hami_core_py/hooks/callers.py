"""Who is called when one backend is asked one question, worked out once at start."""

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import unwrap
from types import CodeType
from typing import Any, Protocol

from pluggy import PluginManager

from hami_core_py.hooks import specs
from hami_core_py.hooks.manager import Backends, LoadedBackend

AT_START = frozenset({"hami_backend", "hami_families"})


class Caller(Protocol):
    """Puts a question to the plugins it was made for."""

    def __call__(self, **arguments: Any) -> Any:
        """The first answer of an owner hook, or the list of answers."""


@dataclass(frozen=True, slots=True)
class Callers:
    """A caller for each backend and question that somebody answers.

    :ivar of: (backend, hook) → caller: the backend alone, around it the policies that wrap the hook, and behind it, for
        owner hooks, the core's defaults.
    :ivar answered: (backend, hook) that the backend or a policy answers, defaults left aside.
    """

    of: dict[tuple[str, str], Caller]
    answered: frozenset[tuple[str, str]]


def make_callers(backends: Backends) -> Callers:
    """Prepare every caller.

    A raising implementation ends the whole call, so that each backend is asked alone; what a policy wraps must still take
    effect, so that wrappers come along.
    """
    manager = backends.manager
    everyone = manager.get_plugins()
    defaults = everyone - {b.plugin for b in backends.loaded}
    of: dict[tuple[str, str], Caller] = {}
    answered = set()
    for hook, is_owner_hook in questions():
        policies = {b.plugin for b in backends.loaded if not b.families and wraps(manager, b.plugin, hook)}
        for backend in backends.loaded:
            if backend.plugin in policies:
                continue
            asked = {backend.plugin} | policies | (defaults if is_owner_hook else set())
            caller = manager.subset_hook_caller(hook, everyone - asked)
            if not caller.get_hookimpls():
                continue
            of[backend.info.name, hook] = caller
            if policies or hook in backend.hooks:
                answered.add((backend.info.name, hook))
    return Callers(of, frozenset(answered))


def questions() -> Iterator[tuple[str, bool]]:
    """Every question that is asked after start, and whether it is an owner hook."""
    for name, spec in vars(specs).items():
        options = getattr(spec, f"{specs.GROUP}_spec", None)
        if options is not None and name not in AT_START:
            yield name, bool(options["firstresult"])


def wraps(manager: PluginManager, plugin: object, hook: str) -> bool:
    """Whether a plugin's implementation of a hook is a wrapper."""
    implementations = getattr(manager.hook, hook).get_hookimpls()
    return any(i.plugin is plugin and (i.wrapper or i.hookwrapper) for i in implementations)


def code_of_hooks(backends: Backends) -> dict[CodeType, list[LoadedBackend]]:
    """The code of every hook implementation → its plugins, so that a traceback tells who raised."""
    found: dict[CodeType, list[LoadedBackend]] = {}
    for backend in backends.loaded:
        for hook in backend.hooks:
            code = getattr(unwrap(getattr(backend.plugin, hook)), "__code__", None)
            if code is not None:
                found.setdefault(code, []).append(backend)
    return found
