"""Which of a node's texts decide what a family's inventory says."""

from collections.abc import Callable

from hami_core_py.models.families import AnnotatedDevices, CapacityDevices, Family
from hami_core_py.models.views import NodeView

Texts = tuple[str | None, ...]


def declared_texts(family: Family) -> Callable[[NodeView], Texts]:
    """A function that reads the texts a family's table declares; while they stay the same, so does the inventory."""
    match family.inventory:
        case CapacityDevices(role=role, memory_mib=memory_mib):
            roles = (role,) if memory_mib is not None else (role, "memory")
            names = [name for name in (getattr(family.resources, r) for r in roles) if name]
            return lambda node: tuple(node.capacity.get(name) for name in names)
        case AnnotatedDevices(key=key, links_key=links_key, also=also):
            keys = [k for k in (key, links_key, *also) if k]
            return lambda node: (
                *(node.annotations.get(k) for k in keys),
                *(node.labels.get(k) for k in also),
            )
    return lambda _node: ()
