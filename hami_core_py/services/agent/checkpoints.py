"""Reading the kubelet's checkpoint, and what to ask instead where its shape is not known."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hami_core_py.codecs.cdi import VENDOR, cdi_kind, name_of
from hami_core_py.codecs.checkpoint import CHECKPOINT_FILE, CheckpointEntry, CheckpointError, parse_checkpoint
from hami_core_py.services.agent.holdings import Holdings
from hami_core_py.services.agent.pods import LocalPods

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Owner:
    """Which container a name was given to; ``name`` is empty where the answer holds none of ours.

    Such a container was served in another mode or by an earlier plugin, and its answer is complete as it is.
    """

    name: str
    pod_uid: str
    container: str


@dataclass(frozen=True, slots=True)
class Known:
    """What the kubelet knows: names of ours, and pairs of pod UID and container."""

    names: frozenset[str] = frozenset()
    containers: frozenset[tuple[str, str]] = frozenset()

    def has(self, name: str, pod_uid: str, container: str) -> bool:
        """Whether a container is known, by its name or, where answers hold no names, by itself."""
        return name in self.names or (pod_uid, container) in self.containers


class PodResources(Protocol):
    """The kubelet's word on which devices a pod's containers hold; ordinary init containers are not in it."""

    def devices_of(self, namespace: str, pod: str) -> Sequence[tuple[str, str, frozenset[str]]] | None:
        """Container, resource and ids; ``None``: the kubelet does not know the pod, or cannot be asked."""
        ...


class Checkpoints:
    """Answers whose names are whose.

    :param cdi_names: the CDI names in a serialized Allocate answer. :raises ValueError: it cannot be read.
    :param pod_resources: asked for single pods where the checkpoint is not understood.
    """

    def __init__(
        self,
        directory: Path,
        cdi_names: Callable[[bytes], Sequence[str]],
        *,
        pods: LocalPods,
        holdings: Holdings,
        pod_resources: PodResources | None = None,
    ) -> None:
        self._path = directory / CHECKPOINT_FILE
        self._cdi_names = cdi_names
        self._pods, self._holdings, self._pod_resources = pods, holdings, pod_resources

    def read(self) -> tuple[CheckpointEntry, ...]:
        """All entries; empty while there is no file. :raises CheckpointError: it is not understood."""
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as problem:
            raise CheckpointError(str(self._path), "a readable file", str(problem)) from problem
        return parse_checkpoint(text, str(self._path))

    def owners(self, family: str, resource: str, ids: frozenset[str]) -> tuple[Owner, ...]:
        """Everybody who was given just these ids: an init container and its successor, or by a race two pods.

        :raises CheckpointError: neither the checkpoint nor PodResources can tell.
        """
        try:
            entries = self.read()
        except CheckpointError as problem:
            log.warning("checkpoint not understood; asking for single pods", extra={"problem": str(problem)})
            if self._pod_resources is None:
                raise
            return self._by_pod_resources(self._pod_resources, family, resource, ids)
        mine = (entry for entry in entries if entry.resource == resource and entry.ids == ids)
        return tuple(owner for entry in mine for owner in self._owners_in(entry, family))

    def known(self) -> Known | None:
        """All that the kubelet knows; ``None``: the checkpoint is not understood."""
        try:
            entries = self.read()
        except CheckpointError:
            return None
        names: set[str] = set()
        nameless: set[tuple[str, str]] = set()
        for entry in entries:
            found = [text.rpartition("=")[2] for text in self._names_in(entry) if text.startswith(f"{VENDOR}/")]
            names.update(found)
            if not found:
                nameless.add((entry.pod_uid, entry.container))
        return Known(frozenset(names), frozenset(nameless))

    def _owners_in(self, entry: CheckpointEntry, family: str) -> list[Owner]:
        found = [name for text in self._names_in(entry) if (name := name_of(text, cdi_kind(family)))]
        return [Owner(name, entry.pod_uid, entry.container) for name in found or [""]]

    def _names_in(self, entry: CheckpointEntry) -> Sequence[str]:
        try:
            return self._cdi_names(entry.answer)
        except ValueError as problem:
            log.warning(
                "answer in the checkpoint not understood",
                extra={"pod_uid": entry.pod_uid, "container": entry.container, "problem": str(problem)},
            )
            return ()

    def _by_pod_resources(
        self, asked: PodResources, family: str, resource: str, ids: frozenset[str]
    ) -> tuple[Owner, ...]:
        """Names on disk with just these ids, given to whichever containers hold them by the kubelet's word.

        A name that belongs to a container keeps it; the newest of the others goes to a container without one.
        """
        names = sorted((h for h in self._holdings.all() if h.family == family and h.ids == ids), key=lambda h: -h.at)
        owners = []
        for local in self._pods.all():
            if local.has_ended:
                continue
            for container, found, held in asked.devices_of(local.view.namespace, local.view.name) or ():
                if found != resource or held != ids:
                    continue
                uid = local.view.uid
                own = [h for h in names if h.pod is not None and (h.pod.uid, h.container) == (uid, container)]
                chosen = next(iter(own), None) or next((h for h in names if h.pod is None), None)
                if chosen is not None:
                    names.remove(chosen)
                    owners.append(Owner(chosen.name, uid, container))
        return tuple(owners)
