"""Finding, ordering, blocking and validating plugins."""

import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import pluggy
from pydantic import ValidationError

from hami_core_py.errors import BackendError, BadInputError, SettingsError
from hami_core_py.hooks import specs
from hami_core_py.hooks.base import BackendSettings
from hami_core_py.hooks.finding import BLOCKED, IMPORT_SECONDS, NOT_ENABLED, Found, find
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.families import Family

log = logging.getLogger(__name__)

MISSPELT = 0.8
"""Likeness from which an unknown name counts as a misspelling of a known one."""


@dataclass(frozen=True, kw_only=True)
class LoadedBackend:
    """One plugin that answered who it is.

    :ivar distribution: name and version of what was installed, such as ``hami-backend-acme 1.2``; for people.
    :ivar settings: its filled-in section of the device configuration; ``None`` when it has none.
    :ivar hooks: names of the hooks it implements, sorted.
    """

    info: BackendInfo
    plugin: object
    distribution: str
    hooks: tuple[str, ...]
    families: tuple[Family, ...] = ()
    settings: Any = None


@dataclass(frozen=True, kw_only=True)
class Backends:
    """All plugins of one process, validated together.

    :ivar manager: the pluggy manager, with the core's defaults registered last.
    :ivar left_out: name → why it is not here (blocked, broken, other contract).
    """

    manager: pluggy.PluginManager
    loaded: tuple[LoadedBackend, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def broken(self) -> dict[str, str]:
        """Those that should be here and are not: name → why."""
        return {name: why for name, why in self.left_out.items() if why not in (BLOCKED, NOT_ENABLED)}

    @property
    def families(self) -> dict[str, Family]:
        """All families by name, sorted."""
        return {f.name: f for f in sorted((f for b in self.loaded for f in b.families), key=lambda f: f.name)}

    def owner(self, family: str) -> LoadedBackend:
        """The backend that owns a family. :raises KeyError: nobody does."""
        return next(b for b in self.loaded for f in b.families if f.name == family)


def load_backends(
    *,
    sections: Mapping[str, Any] | None = None,
    enabled: Iterable[str] | None = None,
    blocked: Iterable[str] = (),
    defaults: object | None = None,
    plugins: Sequence[tuple[str, object]] | None = None,
    import_seconds: float = IMPORT_SECONDS,
) -> Backends:
    """Load every installed plugin and ask each for its identity and families.

    :param sections: sections of the device configuration by name.
    :param enabled: names allowed to load; ``None``: all that are installed.
    :param blocked: names that are skipped before they are imported.
    :param defaults: the core's table-driven answers, registered to be asked last.
    :param plugins: name and module of each plugin, in place of the installed entry points; for tests.
    :param import_seconds: time after which an import that hangs is given up.
    :raises BackendError: two backends claim one name, one family or one resource, or an enabled one is not installed.
    :raises SettingsError: a section is wrong, or its name is a misspelling of a backend's.
    """
    manager = pluggy.PluginManager(specs.GROUP)
    manager.add_hookspecs(specs)
    if plugins is None:
        found, left_out = find(set(enabled) if enabled is not None else None, set(blocked), import_seconds)
    else:
        found, left_out = [Found(name, "given", plugin) for name, plugin in plugins if name not in set(blocked)], {}
    loaded = []
    # pluggy calls the last registered first: registering in reverse makes the call order alphabetical everywhere.
    for one in sorted(found, key=lambda f: f.name, reverse=True):
        try:
            loaded.append(_load(manager, one, sections or {}))
        except (BackendError, pluggy.PluginValidationError) as problem:
            left_out[one.name] = str(problem)
            log.error("backend left out", extra={"backend": one.name, "problem": str(problem)})
            if manager.has_plugin(one.name):
                manager.unregister(name=one.name)
    loaded.reverse()
    _refuse_unknown_sections(sections or {}, loaded, left_out)
    _refuse_doubles(loaded)
    if defaults is not None:
        manager.register(defaults, name="core-defaults")
    return Backends(manager=manager, loaded=tuple(loaded), left_out=dict(sorted(left_out.items())))


def _load(manager: pluggy.PluginManager, found: Found, sections: Mapping[str, Any]) -> LoadedBackend:
    if manager.is_registered(found.plugin):
        raise BackendError(found.name, "", f"is the same plugin as {manager.get_name(found.plugin)!r}; keep one name")
    manager.register(found.plugin, name=found.name)
    manager.check_pending()
    _refuse_unmarked(found)
    return _configure(_identify(found.name, found.distribution, found.plugin), sections)


def _refuse_unmarked(found: Found) -> None:
    """A function with a hook's name that pluggy does not see would silently never be asked."""
    for name, value in inspect.getmembers(found.plugin, inspect.isroutine):
        if name.startswith("hami_") and hasattr(specs, name) and not hasattr(value, f"{specs.GROUP}_impl"):
            raise BackendError(found.name, name, "is not marked; write @hookimpl above it")


def _identify(name: str, distribution: str, plugin: Any) -> LoadedBackend:
    answer = getattr(plugin, "hami_backend", None)
    if answer is None:
        raise BackendError(name, "hami_backend", "not implemented; every plugin says who it is")
    try:
        info = answer()
    except Exception as problem:
        raise BackendError(name, "hami_backend", f"{type(problem).__name__}: {problem}") from problem
    if not isinstance(info, BackendInfo):
        raise BackendError(name, "hami_backend", f"expected a BackendInfo, got {type(info).__name__}")
    if info.name != name:
        raise BackendError(name, "hami_backend", f"calls itself {info.name!r}; entry point and name must be equal")
    if info.api != specs.API:
        side = "the backend" if info.api < specs.API else "hami"
        raise BackendError(name, "", f"written for contract {info.api}, this core serves {specs.API}; upgrade {side}")
    hooks = tuple(
        sorted(n for n, f in inspect.getmembers(plugin, callable) if n.startswith("hami_") and hasattr(f, "hami_impl"))
    )
    return LoadedBackend(info=info, plugin=plugin, distribution=distribution, hooks=hooks)


def _configure(backend: LoadedBackend, sections: Mapping[str, Any]) -> LoadedBackend:
    info = backend.info
    settings = None
    if info.settings is not None:
        if not issubclass(info.settings, BackendSettings):
            raise BackendError(info.name, "hami_backend", "settings is not a BackendSettings class")
        section = info.section or info.name
        given = sections.get(section)
        values = {"configs": given} if isinstance(given, list) else (given or {})
        try:
            settings = info.settings.model_validate(values)
        except ValidationError as problem:
            raise _settings_error(section, problem, info.settings) from problem
    try:
        asked = getattr(backend.plugin, "hami_families", None)
        wants_settings = asked is not None and "settings" in inspect.signature(asked).parameters
        families = () if asked is None else asked(**({"settings": settings} if wants_settings else {}))
    except BadInputError:
        raise
    except Exception as problem:
        raise BackendError(info.name, "hami_families", f"{type(problem).__name__}: {problem}") from problem
    owned = tuple(_owned(f, info.name) for f in families)
    return replace(backend, families=owned, settings=settings)


def _owned(family: Any, backend: str) -> Family:
    if not isinstance(family, Family):
        raise BackendError(backend, "hami_families", f"expected Family values, got {type(family).__name__}")
    return replace(family, backend=backend)


def _settings_error(section: str, problem: ValidationError, model: type[BackendSettings]) -> SettingsError:
    first = problem.errors()[0]
    where = ".".join(str(part) for part in (section, *first["loc"]))
    if first["type"] == "extra_forbidden":
        return SettingsError(where, "a known key", "an unknown one", _nearest(str(first["loc"][-1]), _keys(model)))
    expected = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return SettingsError(where, expected, repr(first.get("input")))


def _keys(model: type[BackendSettings]) -> list[str]:
    return sorted(f.alias or name for name, f in model.model_fields.items())


def _nearest(word: str, known: Iterable[str]) -> str:
    known = sorted(known)
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"


def _refuse_unknown_sections(
    sections: Mapping[str, Any], loaded: Sequence[LoadedBackend], left_out: Mapping[str, str]
) -> None:
    """A misspelt section is an error; one file may serve processes that have fewer backends, so that others are ignored."""
    known = {b.info.section or b.info.name for b in loaded} | set(left_out)
    for name in sorted(set(sections) - known):
        near = get_close_matches(name, sorted(known - set(sections)), n=1, cutoff=MISSPELT)
        if near:
            raise SettingsError(name, "the section of a backend", "an unknown one", f"did you mean {near[0]!r}?")
        log.warning("configuration section of a backend that is not installed", extra={"section": name})


def _refuse_doubles(backends: Sequence[LoadedBackend]) -> None:
    families: dict[str, LoadedBackend] = {}
    resources: dict[str, tuple[LoadedBackend, str]] = {}
    for backend in backends:
        for family in backend.families:
            if other := families.get(family.name):
                raise _double(f"family {family.name!r}", other, backend)
            families[family.name] = backend
            for resource in family.resources.names():
                taken = resources.get(resource)
                if taken and taken != (backend, family.name):
                    raise _double(f"resource {resource!r}", taken[0], backend)
                resources[resource] = (backend, family.name)


def _double(what: str, first: LoadedBackend, second: LoadedBackend) -> BackendError:
    return BackendError(
        second.info.name,
        "hami_families",
        f"{what} is claimed by {first.info.name} ({first.distribution}) and {second.info.name} "
        f"({second.distribution}); block one or rename the resource in its settings",
    )
