"""From node events to the inventory: who serves a node's devices, what they are, and whether their agent lives."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import RLock

from hami_core_py.codecs.native import inventory_key, parse_inventory
from hami_core_py.errors import BackendError, InventoryError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.devices import NO_FACTS, Inventory, no_facts
from hami_core_py.models.families import Family, Handshake, WhileCapacity
from hami_core_py.models.views import NodeView
from hami_core_py.services.intake.texts import Texts, declared_texts
from hami_core_py.services.inventory import Inventory as Nodes

log = logging.getLogger(__name__)

Answer = Inventory | InventoryError


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How one family's devices on one node are served.

    :ivar ours: whether our own node agent serves them; else a plugin of the v2.10 kind does.
    :ivar ordered: whether the server takes its work from the v2.10 list, under the node lock.
    """

    ours: bool
    ordered: bool


@dataclass(slots=True)
class _Known:
    """What we remember of one node."""

    view: NodeView
    texts: dict[str, Texts] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    served: Mapping[str, Served] = field(default_factory=no_facts)
    alive: Mapping[str, bool] = field(default_factory=no_facts)


class NodeIntake:
    """Keeps the inventory current. Safe for threads.

    A backend's text is read again only when it has changed; a node whose text cannot be read keeps its old devices, and
    never stops the others.

    :param shakes_hands: judges a node of the v2.10 kind by its handshake annotation; see ``Handshakes``.
    :param needs_allocatable: whether a node of our own agents must show allocatable devices to get new shares.
    """

    def __init__(
        self,
        nodes: Nodes,
        ask: Ask,
        *,
        shakes_hands: Callable[[NodeView, Family, Handshake], bool] | None = None,
        needs_allocatable: bool = True,
    ) -> None:
        self._nodes, self._ask = nodes, ask
        self._shakes_hands, self._needs_allocatable = shakes_hands, needs_allocatable
        self._lock = RLock()
        self._known: dict[str, _Known] = {}
        self._texts = {name: declared_texts(family) for name, family in ask.families.items()}
        by_backend: dict[str, list[Family]] = {}
        for family in ask.families.values():
            by_backend.setdefault(family.backend, []).append(family)
        self._backends = [(name, inventory_key(name), tuple(families)) for name, families in sorted(by_backend.items())]

    def sync(self, views: Iterable[NodeView]) -> None:
        """These are all nodes there are."""
        found = {view.name: view for view in views if view.name}
        with self._lock:
            for name in sorted(set(self._known) - set(found)):
                self.remove(name)
            for view in found.values():
                self.update(view)

    def update(self, view: NodeView) -> None:
        """A node appeared or changed."""
        with self._lock:
            known = self._known.get(view.name)
            if known is None or known.view != view:
                self._read(view, known)

    def remove(self, name: str) -> None:
        """A node is gone."""
        with self._lock:
            if self._known.pop(name, None) is not None:
                self._nodes.remove_node(name)

    def look_again(self) -> None:
        """Judge liveness anew where time alone can change it."""
        for name in list(self._known):
            with self._lock:
                known = self._known.get(name)
                if known is not None and any(self._shakes(family, known) for family in known.served):
                    self._read(known.view, known)

    def served(self, node: str, family: str) -> Served | None:
        """How a family's devices on a node are served; ``None``: it has none."""
        known = self._known.get(node)
        return known.served.get(family) if known else None

    def has(self, node: str) -> bool:
        """Whether a node is known."""
        return node in self._known

    def _read(self, view: NodeView, known: _Known | None) -> None:
        fresh = _Known(view)
        served: dict[str, Served] = {}
        for backend, key, families in self._backends:
            text = view.annotations.get(key)
            if text is None:
                for family in families:
                    self._read_foreign(view, family, known, fresh, served)
            else:
                self._read_ours(view, backend, families, text, known, fresh, served)
        fresh.served = served or NO_FACTS
        alive = {name: self._is_alive(view, self._ask.families[name], served[name]) for name in served}
        fresh.alive = alive or NO_FACTS
        self._known[view.name] = fresh
        is_same = (
            known is not None
            and known.view == view
            and known.alive == fresh.alive
            and all(fresh.answers[name] is known.answers.get(name) for name in fresh.answers)
            and len(fresh.answers) == len(known.answers)
        )
        if not is_same:
            self._nodes.set_node(view, fresh.answers, alive=fresh.alive)

    def _read_ours(
        self,
        view: NodeView,
        backend: str,
        families: tuple[Family, ...],
        text: str,
        known: _Known | None,
        fresh: _Known,
        served: dict[str, Served],
    ) -> None:
        """A backend's devices as our own agent states them."""
        key = f"{backend}\0native"
        if known is not None and known.texts.get(key) == (text,):
            for family in families:
                if family.name in known.answers:
                    fresh.answers[family.name] = known.answers[family.name]
                    served[family.name] = known.served[family.name]
            fresh.texts[key] = (text,)
            return
        fresh.texts[key] = (text,)
        where = f"node {view.name}: {inventory_key(backend)}"
        names = {family.name for family in families}
        try:
            stated = parse_inventory(text, where)
            strangers = sorted({device.family for device in stated.devices} - names)
            if strangers:
                raise InventoryError(where, f"devices of {', '.join(sorted(names))}", f"one of {strangers[0]!r}")
        except InventoryError as problem:
            log.error("inventory not readable", extra={"node": view.name, "backend": backend, "problem": str(problem)})
            before = known.served if known is not None else NO_FACTS
            for name in sorted(names):
                fresh.answers[name] = problem
                served[name] = before.get(name) or Served(ours=True, ordered=False)
            return
        for name in sorted({device.family for device in stated.devices}):
            fresh.answers[name] = Inventory(devices=tuple(d for d in stated.devices if d.family == name))
            served[name] = Served(ours=True, ordered=stated.identity == "ordered")

    def _read_foreign(
        self, view: NodeView, family: Family, known: _Known | None, fresh: _Known, served: dict[str, Served]
    ) -> None:
        """A family's devices as a v2.10 plugin, or the node's capacity, states them."""
        if family.inventory is None:
            return
        texts = self._texts[family.name](view)
        if not any(texts):
            return
        if known is not None and known.texts.get(family.name) == texts:
            answer = known.answers.get(family.name)
        else:
            answer = self._ask_for(view, family)
        fresh.texts[family.name] = texts
        if answer is not None:
            fresh.answers[family.name] = answer
            served[family.name] = Served(ours=False, ordered=True)

    def _ask_for(self, view: NodeView, family: Family) -> Answer | None:
        """The family's devices; ``None``: it has none here."""
        try:
            found = self._ask.read_inventory(view, family)
        except InventoryError as problem:
            error = problem
        except BackendError as problem:
            error = InventoryError(f"node {view.name}: {family.name}", "an inventory", str(problem))
        else:
            return found if found.devices else None
        log.error("inventory not readable", extra={"node": view.name, "family": family.name, "problem": str(error)})
        return error

    def _shakes(self, family: str, known: _Known) -> bool:
        return not known.served[family].ours and isinstance(self._ask.families[family].liveness, Handshake)

    def _is_alive(self, view: NodeView, family: Family, served: Served) -> bool:
        if served.ours:
            return view.ready and (not self._needs_allocatable or _has(view, family.resources.count))
        match family.liveness:
            case WhileCapacity(role=role):
                return _has(view, getattr(family.resources, role))
            case Handshake() as handshake if self._shakes_hands is not None:
                return self._shakes_hands(view, family, handshake)
        return True


def _has(view: NodeView, resource: str | None) -> bool:
    """Whether the node shows some of a resource; a quantity that is not zero, whatever its unit."""
    text = view.allocatable.get(resource or "", "0")
    return text.strip("0.") != ""
