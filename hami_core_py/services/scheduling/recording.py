"""The annotations of a Binding: core and backends together, checked for what a Binding would slip past the API server."""

from collections import Counter
from collections.abc import Mapping

from hami_core_py.codecs.records import is_annotation_key, write_record
from hami_core_py.errors import RecordError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import PlacedPod, Placement
from hami_core_py.models.requests import PodRequest
from hami_core_py.models.views import PodView

MOST_BYTES = 262_144
"""Keys and values of a pod's annotations together. A Binding bypasses this limit, and a pod over it can never report its
status again."""


def families_of(placement: Placement) -> tuple[str, ...]:
    """Names of the families that a placement uses, sorted."""
    return tuple(sorted({device.family for container in placement.containers for device, _ in container.pairs}))


def record_of(
    pod: PodView, placement: Placement, ask: Ask, *, at_ns: int, ordered: frozenset[str], epoch: int = 0
) -> dict[str, str]:
    """All annotations that bind writes.

    :param ordered: families whose server takes its work from the v2.10 list.
    :raises RecordError: they cannot be written. :raises BackendError: a backend failed to add its own.
    """
    written = write_record(pod, placement, ask.families, at_ns=at_ns, epoch=epoch, ordered=ordered)
    for family in families_of(placement):
        written |= ask.write_record(_placed(pod, placement, family, at_ns))
    check_annotations(pod, written)
    return written


def check_complete(request: PodRequest, placement: Placement) -> None:
    """:raises RecordError: a container would be bound with other devices than it asked for, whoever chose them."""
    for asked, placed in zip(request.containers, placement.containers, strict=True):
        wanted = Counter(d.family for d in asked.devices for _ in range(d.count))
        given = Counter(device.family for device, share in placed.pairs if share.slots)
        if wanted != given:
            where = f"pod {request.namespace}/{request.name}, container {asked.name!r}"
            raise RecordError(where, f"devices {dict(wanted)}", f"{dict(given)}")


def check_annotations(pod: PodView, written: Mapping[str, str]) -> None:
    """:raises RecordError: a key is not valid, or the pod would carry more than the API allows."""
    where = f"pod {pod.namespace}/{pod.name}: annotations"
    for key in written:
        if not is_annotation_key(key):
            raise RecordError(where, "a valid annotation key", repr(key))
    merged = {**pod.annotations, **written}
    size = sum(len(key.encode()) + len(text.encode()) for key, text in merged.items())
    if size > MOST_BYTES:
        hint = "shorten the pod's own annotations"
        raise RecordError(where, f"at most {MOST_BYTES} bytes with the record of its devices", str(size), hint)


def _placed(pod: PodView, placement: Placement, family: str, at_ns: int) -> PlacedPod:
    containers = tuple(
        tuple(pair for pair in container.pairs if pair[0].family == family) for container in placement.containers
    )
    return PlacedPod(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=placement.node,
        family=family,
        at_ns=at_ns,
        containers=containers,
        annotations=pod.annotations,
    )
