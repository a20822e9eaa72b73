"""The record of an allocation: pod annotations ⇄ shares, in the native dialect and in that of v2.10."""

import re
from collections.abc import Mapping
from typing import Final

from hami_core_py.codecs import native
from hami_core_py.codecs.fields import MAX_AMOUNT, shown
from hami_core_py.codecs.native import Proof
from hami_core_py.codecs.times import SECOND_NS
from hami_core_py.codecs.v210.pods import readable_devices
from hami_core_py.codecs.v210.shares import parse_family_shares, render_family_shares
from hami_core_py.errors import RecordError
from hami_core_py.models.allocations import Dialect, Placement, PodRecord, RecordedShare
from hami_core_py.models.families import V210, Family
from hami_core_py.models.views import PodView

NODE: Final = "hami.io/vgpu-node"
TIME: Final = "hami.io/vgpu-time"
PHASE: Final = "hami.io/bind-phase"
BIND_TIME: Final = "hami.io/bind-time"

SUCCESS: Final = "success"
ALLOCATING: Final = "allocating"

CORE_KEYS: Final = frozenset(
    {native.RECORD, native.PROOF, native.BIND_NODE, native.BIND_PHASE, NODE, TIME, PHASE, BIND_TIME}
)
"""Annotations of both dialects that belong to no family."""

_VARYING: Final = frozenset({native.PROOF, TIME, BIND_TIME})
_KEY_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_KEY_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def read_record(pod: PodView, families: Mapping[str, Family], *, trust_v210: bool = True) -> PodRecord | None:
    """What a pod's annotations say it holds: the native record where there is one, else the one of v2.10.

    A v2.10 text may have more entries than the pod has containers; what stands there is read with container ``""``.

    :param trust_v210: whether a v2.10 record, which nobody signs, may count.
    :returns: ``None``: the pod has no record.
    :raises RecordError: the record cannot be read, is not of this pod's node, or may not count; with node and devices.
    """
    if native.RECORD in pod.annotations:
        return _read_native(pod)
    if NODE not in pod.annotations:
        return None
    texts = {
        name: (family.v210, pod.annotations[family.v210.allocated])
        for name, family in sorted(families.items())
        if family.v210 is not None and family.v210.allocated in pod.annotations
    }
    return _read_v210(pod, families, texts, trust_v210) if texts else None


def write_record(
    pod: PodView,
    placement: Placement,
    families: Mapping[str, Family],
    *,
    at_ns: int,
    epoch: int = 0,
    ordered: frozenset[str] = frozenset(),
) -> dict[str, str]:
    """Every annotation that a Binding of this pod carries, but those of the backends' own hooks.

    :param at_ns: time of the bind, nanoseconds since the Unix epoch. :param epoch: of the writing scheduler.
    :param ordered: families whose node agent or plugin takes its work from the v2.10 list, under the node lock.
    :raises RecordError: something cannot be written, such as a device id with a delimiter of the v2.10 text.
    """
    shares = [
        RecordedShare(
            container=container.name,
            family=device.family,
            device=device.id,
            share=share,
            model=device.model,
            numa=device.numa,
        )
        for container in placement.containers
        for device, share in container.pairs
    ]
    where = _named(pod)
    for recorded in shares:
        _check_amounts(recorded, f"{where}: device {recorded.device}")
    written = {
        native.RECORD: native.render_shares(shares),
        native.PROOF: native.render_proof(Proof(at_ns=at_ns, epoch=epoch)),
        native.BIND_NODE: placement.node,
        native.BIND_PHASE: SUCCESS,
    }
    seconds = str(at_ns // SECOND_NS)
    used = sorted({recorded.family for recorded in shares})
    for family in (families[name] for name in used if name in families):
        if family.v210 is not None:
            written |= {NODE: placement.node, TIME: seconds}
            written |= _mirror(family, family.v210, placement, in_order=family.name in ordered)
    if any(families[name].v210 is not None for name in used if name in families and name in ordered):
        written |= {PHASE: ALLOCATING, BIND_TIME: seconds}
    for key in written:
        if not is_annotation_key(key):
            raise RecordError(where, "a valid annotation key", shown(key), "correct it in the backend's family")
    return written


def explain_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """What of a record is the same whenever it is written: all but proof, signature and times; sorted by key."""
    return {key: text for key, text in sorted(annotations.items()) if key not in _VARYING}


def is_annotation_key(key: str) -> bool:
    """Whether the API server accepts a key: an optional DNS prefix, and a name of at most 63 characters."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _KEY_PREFIX.fullmatch(prefix.lower())):
        return False
    return _KEY_NAME.fullmatch(name) is not None


def _mirror(family: Family, v210: V210, placement: Placement, *, in_order: bool) -> dict[str, str]:
    text = render_family_shares(placement.containers, family, v210)
    written = {v210.allocated: text}
    if in_order and v210.to_allocate:
        written[v210.to_allocate] = text
    return written


def _read_native(pod: PodView) -> PodRecord:
    text = pod.annotations[native.RECORD]
    where = f"{_named(pod)}: {native.RECORD}"
    node = pod.annotations.get(native.BIND_NODE) or pod.node
    try:
        if not node:
            raise RecordError(where, f"a node of record in {native.BIND_NODE}", "nothing")
        shares = native.parse_shares(text, where)
        known = {container.name for container in pod.containers}
        for recorded in shares:
            if recorded.container not in known:
                raise RecordError(where, f"one of the containers {sorted(known)}", shown(recorded.container))
        proof = pod.annotations.get(native.PROOF)
        stated = native.parse_proof(proof, f"{_named(pod)}: {native.PROOF}") if proof is not None else Proof()
        _check_node(pod, node, where)
    except RecordError as problem:
        raise _blocking(problem, pod.node or node, native.readable_devices(text)) from problem
    return PodRecord(
        node=node,
        shares=shares,
        dialect=Dialect.NATIVE,
        epoch=stated.epoch,
        phase=pod.annotations.get(native.BIND_PHASE, ""),
        at_ns=stated.at_ns,
    )


def _read_v210(
    pod: PodView, families: Mapping[str, Family], texts: Mapping[str, tuple[V210, str]], trusted: bool
) -> PodRecord:
    node = pod.annotations[NODE]
    shares: list[RecordedShare] = []
    try:
        if not node:
            raise RecordError(f"{_named(pod)}: {NODE}", "the name of a node", "''")
        if not trusted:
            raise RecordError(f"{_named(pod)}: {NODE}", "a signed record", "one of v2.10, which is not trusted here")
        for name, (v210, text) in texts.items():
            where = f"{_named(pod)}: {v210.allocated}"
            shares += parse_family_shares(text, pod.containers, families[name], v210, where)
        _check_node(pod, node, f"{_named(pod)}: {NODE}")
    except RecordError as problem:
        devices = frozenset().union(*(readable_devices(text) for _, text in texts.values()))
        raise _blocking(problem, pod.node or node, devices) from problem
    seconds = pod.annotations.get(TIME, "")
    is_time = seconds.isascii() and seconds.isdigit() and len(seconds) < 12
    return PodRecord(
        node=node,
        shares=tuple(shares),
        dialect=Dialect.V210,
        phase=pod.annotations.get(PHASE, ""),
        at_ns=int(seconds) * SECOND_NS if is_time else 0,
    )


def _check_amounts(recorded: RecordedShare, where: str) -> None:
    share = recorded.share
    for name, amount in (("memory", share.memory_mib), ("cores", share.core_units), ("cells", share.cells)):
        if not 0 <= amount <= MAX_AMOUNT:
            raise RecordError(f"{where}: {name}", f"a whole number from 0 to {MAX_AMOUNT}", str(amount))


def _check_node(pod: PodView, node: str, where: str) -> None:
    """A record counts on its own node only; elsewhere it is a copy."""
    if pod.node and pod.node != node:
        raise RecordError(where, f"a record of node {pod.node}, where the pod is bound", f"one of node {node}")


def _blocking(problem: RecordError, node: str, devices: frozenset[str]) -> RecordError:
    return RecordError(problem.where, problem.expected, problem.got, problem.hint, node=node, devices=devices)


def _named(pod: PodView) -> str:
    return f"pod {pod.namespace}/{pod.name}"
