"""Kinds that the codecs alone answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hami_core_py.codecs import locks, policies
from hami_core_py.codecs.v210 import links, partitions, pods, reasons, register
from hami_core_py.codecs.v210.partitions import Realised, Reservation
from hami_core_py.codecs.v210.pods import PodDevice
from hami_core_py.codecs.v210.register import RegisteredDevice, RegisteredProfile
from hami_core_py.decisions.fit import id_selected, model_selected
from hami_core_py.errors import BadInputError
from hami_core_py.models.requests import Selection
from tests.vectors.files import Vector
from tests.vectors.world import default_families

PROFILES = "migProfiles"
Json = dict[str, Any]


def _or_error(read: Callable[[], Any]) -> Json:
    try:
        return {"value": read()}
    except BadInputError as problem:
        return {"error": str(problem)}


def node_text_decode(vector: Vector) -> Json:
    return _or_error(lambda: [_registered(d) for d in register.parse_text(vector.input["value"], "node")])


def node_json_decode(vector: Vector) -> Json:
    def read() -> list[Json]:
        devices = register.parse_list(vector.input["value"], "node", profiles_key=PROFILES)
        return [_registered(device) for device in devices]

    return _or_error(read)


def node_text_encode(vector: Vector) -> Json:
    return {"value": register.render_text([_device(d) for d in vector.input["devices"]])}


def node_json_encode(vector: Vector) -> Json:
    return {"value": register.render_list([_device(d) for d in vector.input["devices"]], profiles_key=PROFILES)}


def _registered(device: RegisteredDevice) -> Json:
    fields: Json = {
        "id": device.id,
        "index": device.index,
        "count": device.slots,
        "devmem": device.memory_mib,
        "devcore": device.core_units,
        "type": device.model,
        "numa": device.numa,
        "mode": device.mode,
        "health": device.healthy,
    }
    if device.profiles:
        fields["migProfiles"] = [_profile(profile) for profile in device.profiles]
    if device.vendor:
        fields["vendor"] = device.vendor
    if device.facts:
        fields["customInfo"] = dict(device.facts)
    return fields


def _profile(profile: RegisteredProfile) -> Json:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.core_units,
        "sliceCount": profile.cells,
        "placements": [{"start": start, "size": size} for start, size in profile.placements],
    }


def _device(fields: Mapping[str, Any]) -> RegisteredDevice:
    profiles = tuple(
        RegisteredProfile(
            name=p["name"],
            memory_mib=p["memoryMB"],
            core_units=p["core"],
            cells=p["sliceCount"],
            placements=tuple((place["start"], place["size"]) for place in p["placements"]),
        )
        for p in fields.get("migProfiles", ())
    )
    return RegisteredDevice(
        id=fields["id"],
        index=fields["index"],
        slots=fields["count"],
        memory_mib=fields["devmem"],
        core_units=fields["devcore"],
        model=fields["type"],
        numa=fields["numa"],
        mode=fields["mode"],
        healthy=fields["health"],
        profiles=profiles,
    )


def pair_score_decode(vector: Vector) -> Json:
    def read() -> list[Json]:
        found = links.parse_links(vector.input["value"], "node")
        return [{"uuid": device, "score": scores} for device, scores in found.items()]

    return _or_error(read)


def pod_devices_encode(vector: Vector) -> Json:
    containers = [
        [PodDevice(id=d["uuid"], type=d["type"], memory_mib=d["mem"], cores=d["cores"]) for d in devices]
        for devices in vector.input["containers"]
    ]
    return {"value": pods.render_pod_devices(containers)}


def pod_devices_decode(vector: Vector) -> Json:
    annotations = vector.input["annotations"]
    keys = {f.name: f.v210.allocated for f in default_families().values() if f.v210 is not None}
    return _or_error(
        lambda: {
            name: [_pod_devices(devices) for devices in pods.parse_pod_devices(annotations[key], key)]
            for name, key in keys.items()
            if key in annotations
        }
    )


def _pod_devices(devices: Sequence[PodDevice]) -> list[Json]:
    return [{"uuid": d.id, "type": d.type, "mem": d.memory_mib, "cores": d.cores} for d in devices]


def mig_decode(vector: Vector) -> Json:
    text = vector.input["value"]
    return _or_error(lambda: [_reservation(r) for r in partitions.parse_reservations(text, "reservations")])


def _reservation(reservation: Reservation) -> Json:
    fields: Json = {
        "containerIndex": reservation.container,
        "deviceIndex": reservation.position,
        "gpuUUID": reservation.device,
        "profile": reservation.profile,
        "placement": {"start": reservation.start, "size": reservation.cells},
    }
    if isinstance(reservation.realised, Realised):
        fields["migUUID"] = reservation.realised.uuid
        fields["gpuInstanceID"] = reservation.realised.gpu_instance
        fields["computeInstanceID"] = reservation.realised.compute_instance
    return fields


def mig_encode(vector: Vector) -> Json:
    reservations = [
        Reservation(
            container=container,
            position=position,
            device=device["uuid"],
            profile=device["migProfile"],
            start=device["migPlacement"]["start"],
            cells=device["migPlacement"]["size"],
        )
        for container, devices in enumerate(vector.input["containers"])
        for position, device in enumerate(devices)
        if "migProfile" in device
    ]
    return {"present": bool(reservations), "value": partitions.render_reservations(reservations)}


def reason(vector: Vector) -> Json:
    text = reasons.render_counts(vector.input["reasons"], vector.input["total"])
    return {"value": text, "parsed": reasons.parse_counts(text)}


def nodelock_parse(vector: Vector) -> Json:
    try:
        lock = locks.parse_lock(vector.input["value"])
    except BadInputError:
        return {"error": True, "message": vector.expected.get("message")}
    return {"unix": lock.at_ns // 10**9, "namespace": lock.namespace, "name": lock.pod}


def weights_parse(vector: Vector) -> Json:
    def read() -> Json:
        weights = policies.parse_weights(vector.input["value"], "weights")
        return {"slot": weights.slot, "core": weights.core, "memory": weights.memory}

    return _or_error(read)


def uuid_select(vector: Vector) -> Json:
    use, nouse = (vector.input.get(key) for key in ("use", "nouse"))
    selection = Selection(
        ids=None if use is None else policies.parse_ids(use),
        not_ids=None if nouse is None else policies.parse_ids(nouse),
    )
    return {"value": id_selected(vector.input["id"], selection)}


def type_select(vector: Vector) -> Json:
    use, nouse = (vector.input.get(key) for key in ("use", "nouse"))
    selection = Selection(
        models=None if use is None else policies.parse_models(use),
        not_models=None if nouse is None else policies.parse_models(nouse),
    )
    return {"value": model_selected(vector.input["type"], selection)}


def nothing_reserved(_: Vector, answer: Json) -> Json:
    """v2.10 tells no list from an empty one; both mean that nothing is reserved."""
    return {"value": []} if answer == {"value": None} else answer


KINDS = {
    "node-text-decode": node_text_decode,
    "node-json-decode": node_json_decode,
    "node-text-encode": node_text_encode,
    "node-json-encode": node_json_encode,
    "pair-score-decode": pair_score_decode,
    "pod-devices-encode": pod_devices_encode,
    "pod-devices-decode": pod_devices_decode,
    "mig-decode": mig_decode,
    "mig-encode": mig_encode,
    "reason": reason,
    "nodelock-parse": nodelock_parse,
    "weights-parse": weights_parse,
    "uuid-select": uuid_select,
    "type-select": type_select,
}
EXPECTED = {"mig-decode": nothing_reserved}
