"""Settings of all processes: each field with its unit, its default, and why that default.

A flag beats the environment (``HAMI_…``, nested fields joined by ``__``), the environment beats the configuration file, the
file beats the default. In the file every top-level key that is not one of these fields is a backend's section.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from hami_core_py.errors import SettingsError


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


class BackendsSettings(_Section):
    """Which installed backends load."""

    enabled: tuple[str, ...] | None = None
    """Names that may load; absent: all that are installed."""
    blocked: tuple[str, ...] = ()
    """Names that are skipped before they are imported."""


class PlacementSettings(_Section):
    """How the engine chooses."""

    mode: Literal["all-nodes", "single-node"] = "all-nodes"
    """Whether filter answers every fitting node, or the one it would choose as other HAMi versions do."""
    shortlist: int = Field(default=16, ge=0)
    """How many of the best fitting nodes filter answers; 0: all. A short answer costs kube-scheduler less."""
    node_policy: Literal["binpack", "spread"] = "binpack"
    """Default policy among nodes."""
    device_policy: str = "spread"
    """Default policy among the devices of a node: one of the device policies, or a comma list of them."""
    scores_first: bool = True
    """Whether one step of our score outweighs kube-scheduler's own scores."""


class ReservationSettings(_Section):
    """How long a placement is counted before it is bound."""

    assumed_seconds: float = Field(default=30.0, gt=0)
    """Life of an assumed reservation; longer than kube-scheduler needs between score and bind."""
    volume_seconds: float = Field(default=660.0, gt=0)
    """The same for a pod with unbound volume claims: ``bindTimeoutSeconds`` (600) plus a margin."""


class NodesSettings(_Section):
    """What the node agent publishes."""

    publish_totals: bool = True
    """Whether node totals of memory and cores are published as extended resources."""
    liveness: Literal["allocatable", "none"] = "allocatable"
    """Whether a node of our own agents must show allocatable devices to receive shares."""


class WireSettings(_Section):
    """Compatibility with v2.10 writers in the same cluster."""

    trust: bool = True
    """Whether unsigned v2.10 records count; the default while no signing key is configured."""


class WebhookSettings(_Section):
    """Admission."""

    scheduler_name: str = "hami-scheduler"
    """Written into pods that ask for a device; empty: pods keep theirs."""
    force_overwrite_default_scheduler: bool = True
    """Whether pods of ``default-scheduler`` become ours; the API server fills that name in before we see the pod."""
    max_body_bytes: int = Field(default=7 * 1024 * 1024, gt=0)
    """Larger admission reviews are refused with code 413."""
    min_annotation_room_bytes: int = Field(default=16 * 1024, ge=0)
    """Annotation room a pod must leave for our records."""
    trusted_users: frozenset[str] = frozenset()
    """Users, such as our own service accounts, whose writes of allocation records the webhook lets pass."""


class SchedulerSettings(_Section):
    """Extender."""

    max_body_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """Larger extender calls are refused; full ``Nodes`` objects of a large cluster need tens of MiB."""
    reconcile_seconds: float = Field(default=60.0, gt=0)
    """Interval of the full recount that finds and repairs drift."""
    api_timeout_seconds: float = Field(default=3.0, gt=0)
    """Of one API call; below kube-scheduler's ``httpTimeout`` of 5 s."""


class AgentSettings(_Section):
    """Node agent."""

    kubelet_dir: Path = Path("/var/lib/kubelet")
    """Holds ``device-plugins`` and ``pod-resources``."""
    state_dir: Path = Path("/var/lib/hami")
    """Holds the directories mounted into containers; survives a reboot."""
    cdi_dir: Path = Path("/var/run/cdi")
    """Where the runtime looks for CDI specs."""
    identity: Literal["auto", "late", "ordered"] = "auto"
    """How Allocate learns its pod; ``auto``: late where the runtime has CDI."""
    discovery_seconds: float = Field(default=30.0, gt=0)
    """Interval of device discovery."""
    lease_seconds: float = Field(default=60.0, gt=0)
    """Interval of Lease renewal."""
    lease_namespace: str = "hami-system"
    """Namespace of the agents' Leases."""


class MonitorSettings(_Section):
    """Monitor."""

    interval_seconds: float = Field(default=15.0, gt=0)
    """Interval of measuring; scrapes answer the last measurement."""
    legacy_metrics: bool = False
    """Whether metrics are shown under the names from before HAMi 2.9 as well."""
    evict: bool = False
    """Whether the scheduler evicts a pod that the monitor of its node has warned about: it uses a device past its limits."""


class Settings(BaseSettings):
    """Everything that can be set, for all processes."""

    model_config = SettingsConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        env_prefix="HAMI_",
        env_nested_delimiter="__",
        use_attribute_docstrings=True,
    )

    backends: BackendsSettings = BackendsSettings()
    placement: PlacementSettings = PlacementSettings()
    reservation: ReservationSettings = ReservationSettings()
    nodes: NodesSettings = NodesSettings()
    wire: WireSettings = WireSettings()
    webhook: WebhookSettings = WebhookSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    agent: AgentSettings = AgentSettings()
    monitor: MonitorSettings = MonitorSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the library's signature, here and below
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags and file arrive already merged around the environment; see ``load_settings``."""
        return (init_settings,)


def load_settings(
    config: Path | None = None, flags: Mapping[str, Any] | None = None
) -> tuple[Settings, dict[str, Any]]:
    """Read the configuration file, the environment and flags.

    :param config: YAML file; ``None``: no file.
    :param flags: dotted field name (``placement.shortlist``) → value given on the command line; ``None`` values are skipped.
    :returns: the settings, and the backends' sections of the file, unread.
    :raises SettingsError: the file cannot be read, or a key or value is wrong; names where.
    """
    values = _read_yaml(config)
    sections = {key: value for key, value in values.items() if _field_of(key) is None}
    core: dict[str, Any] = {
        name: _section(value, f"{config}: {key}") for key, value in values.items() if (name := _field_of(key))
    }
    for key in sections:
        near = get_close_matches(key, [to_camel(name) for name in Settings.model_fields], n=1, cutoff=0.8)
        if near:
            raise SettingsError(f"{config}: {key}", "a known section", "an unknown one", f"did you mean {near[0]!r}?")
    _merge(core, _environment())
    for dotted, value in (flags or {}).items():
        if value is not None:
            _put(core, dotted.split("."), value)
    try:
        return Settings(**core), sections
    except ValidationError as problem:
        raise _error(problem, config) from problem


def _section(value: Any, where: str) -> dict[str, Any]:
    """A section's keys; one that is written and left empty sets nothing. :raises SettingsError: it is no mapping."""
    if not isinstance(value, dict | None):
        raise SettingsError(where, "a mapping of keys to values", "a list" if isinstance(value, list) else repr(value))
    return value or {}


def _read_yaml(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(str(config), "a readable file", str(problem)) from problem
    except yaml.YAMLError as problem:
        raise SettingsError(str(config), "YAML", " ".join(str(problem).split())) from problem
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(
            str(config), "a mapping of sections", "a list" if isinstance(values, list) else repr(values)
        )
    if unnamed := [key for key in values if not isinstance(key, str)]:
        raise SettingsError(str(config), "names of sections", repr(unnamed[0]))
    return values


def _field_of(key: str) -> str | None:
    return next((name for name in Settings.model_fields if key in (name, to_camel(name))), None)


def _environment() -> dict[str, Any]:
    """Values of ``HAMI_SECTION__FIELD`` variables; others that begin with ``HAMI_`` are not ours to judge."""
    import os

    found: dict[str, Any] = {}
    for variable, text in os.environ.items():
        section, _, field = variable.removeprefix("HAMI_").lower().partition("__")
        if variable.startswith("HAMI_") and field and section in Settings.model_fields:
            is_list = section == "backends" or field == "trusted_users"
            value = [word.strip() for word in text.split(",") if word.strip()] if is_list else text
            _put(found, [section, field], value)
    return found


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    *parents, last = path
    for parent in parents:
        values = values.setdefault(parent, {})
    values.pop(to_camel(last), None)
    values[last] = value


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for section, fields in more.items():
        for field, value in fields.items():
            _put(into, [section, field], value)


def _error(problem: ValidationError, config: Path | None) -> SettingsError:
    first = problem.errors()[0]
    where = ": ".join(filter(None, (str(config) if config else "", ".".join(str(part) for part in first["loc"]))))
    if first["type"] == "extra_forbidden":
        return SettingsError(where, "a known key", "an unknown one", _suggest(first["loc"]))
    return SettingsError(where, first["msg"].removeprefix("Input should be "), repr(first.get("input")))


def _suggest(location: tuple[int | str, ...]) -> str:
    section = Settings.model_fields.get(str(location[0]))
    model = section.annotation if section else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return ""
    known = sorted(field.alias or name for name, field in model.model_fields.items())
    near = get_close_matches(str(location[-1]), known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
