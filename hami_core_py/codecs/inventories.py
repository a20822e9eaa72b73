"""A family's devices as another's node plugin, or the node's capacity alone, states them; by the family's tables."""

from collections.abc import Iterable, Mapping
from typing import Final

from hami_core_py.codecs.fields import MAX_AMOUNT
from hami_core_py.codecs.native import MAX_CELLS, refuse_doubles
from hami_core_py.codecs.quantities import whole_number
from hami_core_py.codecs.v210.links import parse_links
from hami_core_py.codecs.v210.register import RegisteredDevice, RegisteredProfile, parse_list, parse_text
from hami_core_py.errors import BadInputError, InventoryError
from hami_core_py.models.devices import Device, DeviceId, Health, Inventory, Profile
from hami_core_py.models.families import AnnotatedDevices, CapacityDevices, Family, Group, Role
from hami_core_py.models.views import NodeView

MOST_DEVICES: Final = 1024
"""Most devices of one family on one node; a capacity beyond it is a mistake, not a machine."""


def inventory_by_table(node: NodeView, family: Family) -> Inventory:
    """What a node says about its devices of a family; empty where it says nothing, or only a hook can read it.

    :raises InventoryError: it says something that cannot be read.
    """
    match family.inventory:
        case CapacityDevices() as table:
            return Inventory(devices=_from_capacity(node, family, table))
        case AnnotatedDevices(form="json" | "text") as table:
            return Inventory(devices=_from_annotation(node, family, table))
        case _:
            return Inventory()


def _from_capacity(node: NodeView, family: Family, table: CapacityDevices) -> tuple[Device, ...]:
    amount = _capacity(node, family, table.role)
    count = -(-amount // table.per_device)
    if count == 0:
        return ()
    if count > MOST_DEVICES:
        raise InventoryError(f"node {node.name}: {family.name}", f"at most {MOST_DEVICES} devices", str(count))
    memory_mib = table.memory_mib
    if memory_mib is None:
        total = _capacity(node, family, "memory") * family.memory.unit_mib
        memory_mib = total * table.per_device // amount
    if memory_mib > MAX_AMOUNT:
        raise InventoryError(f"node {node.name}: {family.name}: memory", f"at most {MAX_AMOUNT} MiB", str(memory_mib))
    return tuple(
        Device(
            id=DeviceId(f"{node.name}-{table.infix}-{i}"),
            family=family.name,
            index=i,
            model=family.name,
            slots=table.slots,
            memory_mib=memory_mib,
            core_units=table.core_units,
            numa=_numa(i, count, table.numa_nodes),
        )
        for i in range(count)
    )


def _numa(index: int, count: int, nodes: int) -> int:
    """Devices fill the NUMA nodes in equal blocks; the last node takes what is left over."""
    block = count // nodes
    return min(index // block, nodes - 1) if block else nodes - 1


def _capacity(node: NodeView, family: Family, role: Role) -> int:
    """The node's amount of a resource, 0 when it has none."""
    resource = getattr(family.resources, role)
    text = node.capacity.get(resource) if resource else None
    if text is None:
        return 0
    where = f"node {node.name}: capacity of {resource}"
    try:
        amount = whole_number(text, where)
    except BadInputError as problem:
        raise InventoryError(where, "a whole number", repr(text)) from problem
    if not 0 <= amount <= MAX_AMOUNT:
        raise InventoryError(where, f"a whole number from 0 to {MAX_AMOUNT}", repr(text))
    return amount


def _from_annotation(node: NodeView, family: Family, table: AnnotatedDevices) -> tuple[Device, ...]:
    text = node.annotations.get(table.key)
    if text is None:
        return ()
    where = f"node {node.name}: {table.key}"
    is_text = table.form == "text"
    registered = parse_text(text, where) if is_text else parse_list(text, where, profiles_key=table.profiles_key)
    if len(registered) > MOST_DEVICES:
        raise InventoryError(where, f"at most {MOST_DEVICES} devices", str(len(registered)))
    refuse_doubles((device.id for device in registered), where)
    links = _links(node, table)
    return tuple(
        _device(device, family, table, links.get(device.id, {}), f"{where}: device {i}")
        for i, device in enumerate(registered)
    )


def _links(node: NodeView, table: AnnotatedDevices) -> Mapping[str, Mapping[str, int]]:
    text = node.annotations.get(table.links_key) if table.links_key else None
    return {} if text is None else parse_links(text, f"node {node.name}: {table.links_key}")


def _device(
    registered: RegisteredDevice, family: Family, table: AnnotatedDevices, links: Mapping[str, int], where: str
) -> Device:
    if not registered.id:
        raise InventoryError(f"{where}: id", "a text that is not empty", "''")
    profiles = tuple(_profile(p, f"{where}: profile {p.name}") for p in registered.profiles)
    places = [start + size for profile in registered.profiles for start, size in profile.placements]
    core_units = table.core_units if table.core_units is not None else registered.core_units
    return Device(
        id=DeviceId(registered.id),
        family=family.name,
        index=_amount(registered.index, f"{where}: index"),
        model=registered.model,
        slots=_amount(registered.slots, f"{where}: count"),
        memory_mib=_amount(registered.memory_mib, f"{where}: devmem"),
        core_units=_amount(core_units, f"{where}: devcore"),
        # The operating system says -1 where it does not know the NUMA node.
        numa=max(0, registered.numa),
        health=Health.HEALTHY if registered.healthy else Health.UNHEALTHY,
        modes=(registered.mode,) if registered.mode else (),
        groups=_groups(table.groups, registered.index, registered.facts),
        links={DeviceId(peer): score for peer, score in links.items()},
        facts=registered.facts,
        cells=max(places, default=0),
        profiles=profiles,
    )


def _profile(registered: RegisteredProfile, where: str) -> Profile:
    sizes = {size for _, size in registered.placements}
    if len(sizes) > 1 or 0 in sizes:
        raise InventoryError(f"{where}: placements", "one size above 0", str(sorted(sizes)))
    if any(start + size > MAX_CELLS for start, size in registered.placements):
        raise InventoryError(f"{where}: placements", f"cells below {MAX_CELLS}", str(registered.placements))
    return Profile(
        name=registered.name,
        memory_mib=registered.memory_mib,
        core_units=registered.core_units,
        cells=sizes.pop() if sizes else registered.cells,
        starts=tuple(start for start, _ in registered.placements),
    )


def _amount(value: int, where: str) -> int:
    if not 0 <= value <= MAX_AMOUNT:
        raise InventoryError(where, f"a whole number from 0 to {MAX_AMOUNT}", str(value))
    return value


def _groups(groups: Iterable[Group], index: int, facts: Mapping[str, object]) -> dict[str, str]:
    """Name of the group → its value on one device; a device without the fact is in no group of that name."""
    found = {}
    for group in groups:
        if group.when is not None and str(facts.get(group.when[0])) != group.when[1]:
            continue
        if group.index_block is not None:
            found[group.name] = str(index // group.index_block)
        elif group.fact is not None and facts.get(group.fact) is not None:
            found[group.name] = _text(facts[group.fact])
    return found


def _text(value: object) -> str:
    """Numbers read the same whether their writer counts them as whole or as floating."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
