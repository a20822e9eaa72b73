"""What the backends and their tables want changed in a pod, merged so that their order cannot matter."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hami_core_py.codecs.quantities import same_amount
from hami_core_py.codecs.requests import amount_of
from hami_core_py.decisions.amounts import doubled_memory, unfulfillable
from hami_core_py.decisions.edits import Edits, Path
from hami_core_py.decisions.requests import families_named
from hami_core_py.errors import RequestError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.backends import Admission, BackendInfo
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest, MemoryMib, PodRequest
from hami_core_py.models.views import ContainerView, PodView

POD: Final = -1
"""Position that stands for the pod itself instead of one of its containers."""

Place = tuple[int, str, str]
"""Position of a container or ``POD``; ``limits``, ``requests``, ``env``, ``annotations`` or ``runtimeClassName``; a name."""


@dataclass
class Wishes:
    """The wanted changes by place.

    :ivar refused: the first denial, or two backends that want different things; ``None`` while all agree.
    """

    places: dict[Place, tuple[str, str]] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)
    refused: str | None = None

    def put(self, place: Place, value: str, backend: str) -> None:
        """Note one wanted change. A backend's later wish replaces its own earlier one."""
        known = self.places.get(place)
        if (
            known
            and known[1] != backend
            and known[0] != value
            and not (self._is_amount(place) and same_amount(known[0], value))
        ):
            name = f"{place[1]} {place[2]}" if place[2] else place[1]
            values = sorted([(known[1], known[0]), (backend, value)])
            wants = " and ".join(f"backend {who!r} wants {what!r}" for who, what in values)
            self.refused = self.refused or f"{name}: {wants}; a pod cannot have both, so split it in two"
            return
        self.places[place] = (value, backend)

    def env(self, position: int) -> dict[str, str]:
        """Variables wanted in one container."""
        return {name: value for (at, kind, name), (value, _) in self.places.items() if at == position and kind == "env"}

    def annotations(self) -> dict[str, str]:
        """Wanted pod annotations."""
        return {name: value for (_, kind, name), (value, _) in self.places.items() if kind == "annotations"}

    def apply(self, edits: Edits, only: str = "") -> None:
        """Make the changes in a raw pod; what stands there already is not changed again.

        :param only: the list of containers that positions count in; empty: init containers, then app containers.
        """
        inits = len((edits.object.get("spec") or {}).get("initContainers") or ())
        for (at, kind, name), (value, _) in self.places.items():
            if at == POD:
                path: Path = ("metadata", "annotations", name) if name else ("spec", kind)
                edits.set(path, value)
                continue
            which, index = (only, at) if only else ("initContainers", at) if at < inits else ("containers", at - inits)
            container = edits.object["spec"][which][index]
            if kind == "env":
                if _last_value(container, name) != value:
                    edits.append(("spec", which, index, "env"), [{"name": name, "value": value}])
                continue
            present = ((container.get("resources") or {}).get(kind) or {}).get(name)
            if present is None or not same_amount(str(present), value):
                edits.set(("spec", which, index, "resources", kind, name), value)

    @staticmethod
    def _is_amount(place: Place) -> bool:
        return place[1] in ("limits", "requests")


def gather_defaults(pod: PodView, ask: Ask) -> Wishes:
    """What the tables add to containers that leave something out, before anything else is changed."""
    wishes = Wishes()
    for position, container in enumerate(pod.containers):
        for family in families_named(container, ask):
            _want_default_count(wishes, position, container, family)
            for warning in (doubled_memory(container, family), unfulfillable(pod, family)):
                if warning is not None:
                    wishes.warnings[warning] = None
    return wishes


def gather(pod: PodView, ask: Ask) -> Wishes:
    """What the backends want in the containers that name a resource of theirs.

    :param pod: with the tables' defaults, so that a backend sees the same when the pod is admitted again.
    :raises RequestError: an amount cannot be read. :raises BackendError: a backend failed.
    """
    wishes = Wishes()
    for position, container in enumerate(pod.containers):
        for name in sorted({family.backend for family in families_named(container, ask)}):
            backend = next(b for b in ask.backends.loaded if b.info.name == name)
            _add(
                wishes, position, ask.admit_container(backend, container, pod), name, has_class=bool(pod.runtime_class)
            )
    return wishes


def gather_amounts(pod: PodView, ask: Ask) -> Wishes:
    """What the tables want written back, read from a pod whose other changes are made."""
    wishes = Wishes()
    for position, container in enumerate(pod.containers):
        for family in families_named(container, ask):
            if family.admission.write_memory != "never":
                for request in ask.read_request(container, pod, family):
                    _want_memory(wishes, position, container, family, request)
    return wishes


def gather_mirrors(pod: PodView, ask: Ask) -> Wishes:
    """What the tables want mirrored between limits and requests, once all amounts stand."""
    wishes = Wishes()
    for position, container in enumerate(pod.containers):
        for family in families_named(container, ask):
            for resource in family.resources.names() if family.admission.mirror else ():
                limit, request = container.limits.get(resource), container.requests.get(resource)
                if limit is not None and request is None:
                    wishes.put((position, "requests", resource), limit, family.backend)
                elif request is not None and limit is None:
                    wishes.put((position, "limits", resource), request, family.backend)
    return wishes


def gather_consequences(wishes: Wishes, pod: PodView, request: PodRequest, ask: Ask) -> None:
    """Add what a pod's requests entail: runtime classes, and variables that close devices to those who ask for none.

    :param pod: as its author wrote it; a runtime class that it names stays.
    """
    used = _owners(request.families, ask)
    for name in request.families:
        family = ask.families[name]
        if family.admission.runtime_class and not pod.runtime_class:
            wishes.put((POD, "runtimeClassName", ""), family.admission.runtime_class, family.backend)
    always = [family.name for family in ask.families.values() if family.admission.close_always]
    closing = used | _owners(always, ask)
    for position, container in enumerate(request.containers):
        _close(wishes, position, closing, _owners([device.family for device in container.devices], ask))


def gather_closing_ephemeral(wishes: Wishes, positions: Sequence[int], request: PodRequest, ask: Ask) -> None:
    """The same for ephemeral containers, which can ask for nothing."""
    for position in positions:
        _close(wishes, position, _owners(request.families, ask), {})


def _owners(families: Iterable[str], ask: Ask) -> dict[str, BackendInfo]:
    return {ask.owner(family).info.name: ask.owner(family).info for family in families}


def _close(wishes: Wishes, position: int, closing: dict[str, BackendInfo], asked: dict[str, BackendInfo]) -> None:
    """Close one container to backends it asks nothing of, with variables that no backend it does ask speaks in."""
    spoken = {name for info in asked.values() for name in (*info.reserved_env, *info.closing_env)}
    for backend in sorted(closing):
        for name, value in sorted(closing[backend].closing_env.items()):
            if name not in spoken:
                wishes.put((position, "env", name), value, backend)


def _last_value(container: Mapping[str, Any], name: str) -> str | None:
    """The literal value that counts of a variable, which is the last; ``None``: it has none."""
    entries = [entry for entry in container.get("env") or () if entry.get("name") == name]
    if not entries or "valueFrom" in entries[-1]:
        return None
    return entries[-1].get("value") or ""


def _want_default_count(wishes: Wishes, position: int, container: ContainerView, family: Family) -> None:
    """A container that names amounts but no count gets the family's default count."""
    names, count = family.resources, family.admission.default_count
    if count is None or amount_of(container, names.count, names) is not None:
        return
    if any(amount_of(container, name, names) is not None for name in (names.memory, names.memory_percent, names.core)):
        wishes.put((position, "limits", names.count), str(count), family.backend)


def _add(wishes: Wishes, position: int, wanted: Admission, backend: str, *, has_class: bool) -> None:
    parts: tuple[tuple[int, str, Mapping[str, str]], ...] = (
        (position, "limits", wanted.limits),
        (position, "requests", wanted.requests),
        (position, "env", wanted.env),
        (POD, "annotations", wanted.annotations),
    )
    for at, kind, values in parts:
        for name, value in values.items():
            wishes.put((at, kind, name), value, backend)
    if wanted.runtime_class and not has_class:
        wishes.put((POD, "runtimeClassName", ""), wanted.runtime_class, backend)
    if wanted.denied:
        wishes.refused = wishes.refused or wanted.denied
    wishes.warnings.update(dict.fromkeys(wanted.warnings))


def _want_memory(
    wishes: Wishes, position: int, container: ContainerView, family: Family, request: DeviceRequest
) -> None:
    """Write the amount that one device will really give, so that quota and kube-scheduler see the truth."""
    resource = family.resources.memory
    mib = _rounded_mib(family, request, f"container {container.name!r}: {resource}") if resource else None
    if resource is None or mib is None:
        return
    units = -(-mib // family.memory.unit_mib)
    text = str(units * request.count if family.memory.per == "container" else units)
    for kind, amounts in (("limits", container.limits), ("requests", container.requests)):
        if resource not in amounts or not same_amount(amounts[resource], text):
            wishes.put((position, kind, resource), text, family.backend)


def _rounded_mib(family: Family, request: DeviceRequest, where: str) -> int | None:
    """MiB that a device will give; ``None``: nothing is to be written."""
    sizes = sorted(profile.memory_mib for profile in family.profiles)
    if isinstance(request.memory, MemoryMib):
        asked = request.memory.value
        if not (request.profiled and sizes):
            return asked
        fitting = next((size for size in sizes if size >= asked), None)
        if fitting is None:
            raise RequestError(where, f"at most {sizes[-1]} MiB of one device", f"{asked} MiB")
        return fitting
    if request.memory == "whole-device" and family.admission.write_memory == "always":
        return sizes[-1] if sizes else family.memory.max_mib
    return None
