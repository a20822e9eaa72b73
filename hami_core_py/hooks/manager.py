"""Finding, ordering, blocking and validating plugins."""

import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy
from pydantic import ValidationError

from hami_core_py.errors import BackendError, SettingsError
from hami_core_py.hooks import specs
from hami_core_py.hooks.base import BackendSettings
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.families import Family

log = logging.getLogger(__name__)


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
) -> Backends:
    """Load every installed plugin and ask each for its identity and families.

    :param sections: sections of the device configuration by name.
    :param enabled: names allowed to load; ``None``: all that are installed.
    :param blocked: names that are skipped before they are imported.
    :param defaults: the core's table-driven answers, registered to be asked last.
    :param plugins: name and module of each plugin, in place of the installed entry points; for tests.
    :raises BackendError: two backends claim one name, one family or one resource.
    :raises SettingsError: a section is wrong, or belongs to no installed backend.
    """
    manager = pluggy.PluginManager(specs.GROUP)
    manager.add_hookspecs(specs)
    found, left_out = _import_all(plugins, set(enabled) if enabled is not None else None, set(blocked))
    loaded = []
    # pluggy calls the last registered first: registering in reverse makes the call order alphabetical everywhere.
    for name, distribution, plugin in sorted(found, key=lambda f: f[0], reverse=True):
        try:
            manager.register(plugin, name=name)
            manager.check_pending()
            loaded.append(_identify(name, distribution, plugin))
        except (BackendError, pluggy.PluginValidationError) as problem:
            left_out[name] = str(problem)
            log.error("backend left out", extra={"backend": name, "problem": str(problem)})
            if manager.has_plugin(name):
                manager.unregister(name=name)
    loaded.reverse()
    configured = [_configure(b, sections or {}) for b in loaded]
    _refuse_unknown_sections(sections or {}, loaded, left_out)
    _refuse_doubles(configured)
    if defaults is not None:
        manager.register(defaults, name="core-defaults")
    return Backends(manager=manager, loaded=tuple(configured), left_out=left_out)


def _import_all(
    plugins: Sequence[tuple[str, object]] | None, enabled: set[str] | None, blocked: set[str]
) -> tuple[list[tuple[str, str, object]], dict[str, str]]:
    if plugins is not None:
        return [(name, "given", plugin) for name, plugin in plugins if name not in blocked], {}
    points = sorted(entry_points(group=specs.GROUP), key=lambda p: p.name)
    doubles = {p.name for p in points if sum(q.name == p.name for q in points) > 1}
    if doubles:
        name = min(doubles)
        claims = ", ".join(_distribution(p) for p in points if p.name == name)
        raise BackendError(name, "", f"two distributions claim this name: {claims}; uninstall or block one")
    found: list[tuple[str, str, object]] = []
    left_out = {}
    for point in points:
        if point.name in blocked or (enabled is not None and point.name not in enabled):
            left_out[point.name] = "blocked" if point.name in blocked else "not enabled"
            continue
        try:
            found.append((point.name, _distribution(point), point.load()))
        except Exception as problem:  # noqa: BLE001 - a stranger's import may raise anything; it must stay alone
            left_out[point.name] = f"import failed: {type(problem).__name__}: {problem}"
            log.error("backend import failed", extra={"backend": point.name, "problem": left_out[point.name]})
    for name in sorted((enabled or set()) - {p.name for p in points}):
        raise BackendError(name, "", f"enabled but not installed; install hami-backend-{name} or remove the name")
    return found, left_out


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


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
    except Exception as problem:
        raise BackendError(info.name, "hami_families", f"{type(problem).__name__}: {problem}") from problem
    owned = tuple(_owned(f, info.name) for f in families)
    return LoadedBackend(
        info=info,
        plugin=backend.plugin,
        distribution=backend.distribution,
        hooks=backend.hooks,
        families=owned,
        settings=settings,
    )


def _owned(family: Any, backend: str) -> Family:
    if not isinstance(family, Family):
        raise BackendError(backend, "hami_families", f"expected Family values, got {type(family).__name__}")
    values = {name: getattr(family, name) for name in Family.__dataclass_fields__}
    return Family(**{**values, "backend": backend})


def _settings_error(section: str, problem: ValidationError, model: type[BackendSettings]) -> SettingsError:
    first = problem.errors()[0]
    where = ".".join(str(part) for part in (section, *first["loc"]))
    if first["type"] == "extra_forbidden":
        return SettingsError(where, "a known key", "an unknown one", _nearest(str(first["loc"][-1]), _keys(model)))
    return SettingsError(where, first["msg"], repr(first.get("input")))


def _keys(model: type[BackendSettings]) -> list[str]:
    return sorted(f.alias or name for name, f in model.model_fields.items())


def _nearest(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    known = sorted(known)
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known) or 'none'}"


def _refuse_unknown_sections(
    sections: Mapping[str, Any], loaded: Sequence[LoadedBackend], left_out: Mapping[str, str]
) -> None:
    """A section nobody reads is an error, unless its backend is installed and left out for a stated reason."""
    known = {b.info.section or b.info.name for b in loaded} | set(left_out)
    for name in sorted(set(sections) - known):
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
