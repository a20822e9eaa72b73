"""Kinds that pure decisions answer: inventories, liveness, usage, scores and orders."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from hami_core_py.codecs.handshake import REQUESTING
from hami_core_py.codecs.times import SECOND_NS
from hami_core_py.decisions.handshake import NEVER_SEEN, look
from hami_core_py.decisions.score import fullness_of_sums
from hami_core_py.decisions.select import Ranked, card_score, trial_order
from hami_core_py.decisions.usage import HeldShares, pod_usage
from hami_core_py.errors import InventoryError
from hami_core_py.models.devices import Device, DeviceId, Health, Share, Usage
from hami_core_py.models.requests import ContainerKind, Weights
from hami_core_py.models.views import node_view
from tests.vectors.files import Vector
from tests.vectors.runner import NotCoveredError
from tests.vectors.world import NEEDS_OWN_RULES, ask_for

Json = dict[str, Any]

NOW_NS = 1_788_084_000 * SECOND_NS
RELATIVE_TIME = re.compile(r"\{now-(\d+)s\}")


def node_devices(vector: Vector) -> Json:
    vendor, ask = vector.input["vendor"], ask_for(vector)
    if vendor in NEEDS_OWN_RULES:
        raise NotCoveredError("a vendor with an inventory of its own")
    if "migProfiles" in str(vector.input):
        raise NotCoveredError("profiles of MIG")
    try:
        inventory = ask.read_inventory(node_view(vector.input["node"]), ask.families[vendor])
    except InventoryError as problem:
        return {"error": str(problem)}
    if not inventory.devices:
        # "Nothing here" is no error for us; v2.10 has no other way to say it.
        return {"error": "no devices"}
    return {"value": [_device(device) for device in inventory.devices]}


def _device(device: Device) -> Json:
    fields: Json = {
        "id": device.id,
        "index": device.index,
        "count": device.slots,
        "devmem": device.memory_mib,
        "devcore": device.core_units,
        "type": device.model,
        "numa": device.numa,
        "mode": device.modes[0] if device.modes else "",
        "health": device.health is Health.HEALTHY,
        "vendor": device.family,
    }
    if device.links:
        fields["pairScore"] = dict(device.links)
    if device.facts:
        fields["customInfo"] = dict(device.facts)
    return fields


def handshake(vector: Vector) -> Json:
    vendor = vector.input["vendor"]
    if vendor in NEEDS_OWN_RULES:
        raise NotCoveredError("a vendor with an inventory of its own")
    family = ask_for(vector).families[vendor]
    seen = NEVER_SEEN
    steps = []
    for node in (vector.input["node"], vector.input.get("then")):
        if node is None:
            continue
        pulse, seen = look(node_view(_at_now(node)), family, seen, NOW_NS)
        steps.append({"healthy": pulse.alive, "update": pulse.reread, "stampWritten": pulse.asks})
    if vector.input.get("then") is None:
        return _as_far_as_it_counts(vector.expected, steps[0])
    expected = vector.expected["steps"]
    return {"steps": [_as_far_as_it_counts(*pair) for pair in zip(expected, steps, strict=True)]}


def _as_far_as_it_counts(expected: Mapping[str, Any], got: Json) -> Json:
    """Whether to read a dead node's inventory again is asked of nobody."""
    return got if got["healthy"] else {**got, "update": expected["update"]}


def _at_now(node: Json) -> Json:
    """The node with ``{now-30s}`` in its handshakes replaced by a time that long before ``NOW_NS``."""
    from datetime import UTC, datetime

    def stamp(match: re.Match[str]) -> str:
        moment = datetime.fromtimestamp(NOW_NS // SECOND_NS - int(match[1]), UTC)
        return moment.strftime("%Y-%m-%d %H:%M:%S")

    metadata = node["metadata"]
    texts = {
        key: RELATIVE_TIME.sub(stamp, text) if REQUESTING in text else text
        for key, text in metadata.get("annotations", {}).items()
    }
    return {**node, "metadata": {**metadata, "annotations": texts}}


def collapse(vector: Vector) -> Json:
    inits = vector.input["initContainers"]
    answer: Json = {"effective": {}, "appOnly": {}}
    for vendor, containers in vector.input["devices"].items():
        held = [
            (ContainerKind.INIT if i < inits else ContainerKind.APP, _held(devices))
            for i, devices in enumerate(containers)
        ]
        apps = [(kind, shares) for kind, shares in held if kind is ContainerKind.APP]
        answer["effective"][vendor] = [_collapsed(pod_usage(held), vendor)]
        answer["appOnly"][vendor] = [_collapsed(pod_usage(apps), vendor)]
    return answer


def _held(devices: Iterable[Mapping[str, Any]]) -> HeldShares:
    return [(DeviceId(d["uuid"]), Share(memory_mib=d["mem"], core_units=d["cores"])) for d in devices]


def _collapsed(usage: Mapping[DeviceId, Usage], vendor: str) -> list[Json]:
    return [
        {"uuid": device, "type": vendor, "mem": used.memory_mib, "cores": used.core_units, "slots": used.slots}
        for device, used in sorted(usage.items())
    ]


def card_scores(vector: Vector) -> Json:
    fields = vector.input["device"]
    slots = cores = memory = 0
    for request in vector.input["requests"].values():
        if request["type"] != fields["type"]:
            continue
        slots += 1
        cores += request["cores"]
        percent = request["pct"]
        memory += request["mem"] if percent in (0, 101) else fields["totalmem"] * percent // 100
    device = Device(
        id=DeviceId(fields["id"]),
        family=fields["type"],
        slots=fields["count"],
        memory_mib=fields["totalmem"],
        core_units=fields["totalcore"],
    )
    used = Usage(slots=fields["used"], memory_mib=fields["usedmem"], core_units=fields["usedcores"])
    weights = Weights(**vector.input["weights"]) if vector.input.get("weights") else Weights()
    asked = Share(slots=slots, memory_mib=memory, core_units=cores)
    return {"score": float(card_score(device, used, weights, asked))}


def node_scores(vector: Vector) -> Json:
    sums: dict[str, int] = defaultdict(int)
    for device in vector.input["devices"]:
        for key in ("used", "count", "usedcores", "totalcore", "usedmem", "totalmem"):
            sums[key] += device[key]
    fullness = fullness_of_sums(
        sums["used"], sums["count"], sums["usedcores"], sums["totalcore"], sums["usedmem"], sums["totalmem"]
    )
    return {"score": 30 * fullness}


def card_order(vector: Vector) -> Json:
    policies = tuple(word.strip() for word in vector.input["policy"].split(","))
    key = trial_order(policies, vector.input["numaBind"])
    ranked = {
        d["id"]: Ranked(d["score"], d["numa"], d["used"], d["index"], position)
        for position, d in enumerate(vector.input["devices"])
    }
    return {"triedInOrder": sorted(ranked, key=lambda i: key(ranked[i]))}


KINDS = {
    "node-devices": node_devices,
    "handshake": handshake,
    "collapse": collapse,
    "card-score": card_scores,
    "node-score": node_scores,
    "card-order": card_order,
}
