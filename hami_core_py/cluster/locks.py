"""The v2.10 node lock: a node annotation that lets one pod at a time pass from bind to Allocate.

A v2.10 node plugin, and our own agent in *ordered* mode, serve the pod that the lock names. A lock that nobody can hold any
more – expired, of a pod that is gone or has ended, or not readable – is taken over, so that no node is blocked for ever.
"""

import logging
import threading
import time
from collections.abc import Callable

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError, Conflict, NotFound
from hami_core_py.cluster.events import About, Events
from hami_core_py.cluster.nodes import get_node, patch_annotations
from hami_core_py.cluster.pods import get_pod
from hami_core_py.codecs.locks import Lock, owned_by, parse_lock, render_lock
from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.models.families import SHARED_LOCK, NodeLock

log = logging.getLogger(__name__)

TRIES = 5
"""Reads and writes of one change; others may change the node between ours."""

_ENDED = ("Succeeded", "Failed")


class LockHeld(HamiError):
    """Another pod holds the node; try again later. v2.10 calls it contention."""


class LockUnreadable(HamiError):
    """The lock's text is nobody's; it is taken over once it has been seen for as long as a lock lives."""


class NodeLocks:
    """Takes and releases node locks.

    :param clock_ns: nanoseconds since the Unix epoch.
    :param monotonic: seconds, for how long we have seen a text.
    :param pause: waits between tries after a conflict, in seconds.
    :param expires_seconds: life of a lock; ``None``: what the family's table says.
    """

    def __init__(
        self,
        client: Client,
        *,
        events: Events | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        expires_seconds: float | None = None,
    ) -> None:
        self._client, self._events = client, events
        self._clock_ns, self._monotonic, self._pause = clock_ns, monotonic, pause
        self._expires_seconds = expires_seconds
        self._guard = threading.Lock()
        self._seen: dict[tuple[str, str], tuple[str, float]] = {}
        self._ours: dict[tuple[str, str], tuple[str, str, str]] = {}

    def take(self, node: str, namespace: str, pod: str, lock: NodeLock = SHARED_LOCK) -> None:
        """Lock a node for a pod; a pod that holds it already keeps it as it is.

        :raises LockHeld: another pod holds it. :raises LockUnreadable: see there.
        :raises ApiError: the node, or the holder, could not be read, or the lock not be written.
        """
        for number in range(TRIES):
            found = get_node(self._client, node)
            text = _annotation(found, lock.key)
            if text is not None and self._is_held(node, text, namespace, pod, lock):
                return
            # A lock that names no pod is ours only while it stands exactly as we wrote it.
            value = render_lock(self._clock_ns(), namespace, pod)
            value = value if lock.names_pod else value.partition(",")[0]
            try:
                patch_annotations(self._client, node, {lock.key: value}, resource_version=_version(found))
            except Conflict:
                self._pause(0.02 * 2**number)
                continue
            with self._guard:
                self._seen.pop((node, lock.key), None)
                self._ours[node, lock.key] = (namespace, pod, value)
            return
        raise LockHeld(f"node {node}: {lock.key}: others changed the node {TRIES} times while it was being locked")

    def release(self, node: str, namespace: str, pod: str, lock: NodeLock = SHARED_LOCK) -> bool:
        """Give a pod's lock back; a lock of another pod, or one that cannot be read, is left alone.

        :returns: whether no lock of this pod is left; ``False``: it is another's.
        :raises ApiError: the node could not be read or written.
        """
        for number in range(TRIES):
            try:
                found = get_node(self._client, node)
            except NotFound:
                break
            text = _annotation(found, lock.key)
            if text is None:
                break
            if not self._may_release(node, text, namespace, pod, lock):
                return False
            try:
                patch_annotations(self._client, node, {lock.key: None}, resource_version=_version(found))
            except Conflict:
                self._pause(0.02 * 2**number)
                continue
            break
        else:
            raise ApiError(
                409, "Conflict", f"node {node}: {lock.key}: not released, others changed the node {TRIES} times"
            )
        with self._guard:
            self._ours.pop((node, lock.key), None)
        return True

    def holder(self, node: str, lock: NodeLock = SHARED_LOCK) -> Lock | None:
        """Who holds a node. ``None``: nobody. :raises BadInputError: the text is no lock."""
        text = _annotation(get_node(self._client, node), lock.key)
        return None if text is None else parse_lock(text, f"node {node}: {lock.key}")

    def _is_held(self, node: str, text: str, namespace: str, pod: str, lock: NodeLock) -> bool:
        """Whether the pod holds the lock; ``False``: it may be taken. :raises LockHeld: neither."""
        life_seconds = self._expires_seconds if self._expires_seconds is not None else lock.expires_seconds
        seen_seconds = self._seen_for(node, lock.key, text)
        where = f"node {node}: {lock.key}"
        try:
            held = parse_lock(text, where)
        except BadInputError as problem:
            if seen_seconds <= life_seconds:
                raise LockUnreadable(f"{problem}; it is taken over after {life_seconds:g} s") from problem
            self._tell(node, f"{problem}; it stood for {life_seconds:g} s and was taken over")
            return False
        if owned_by(text, namespace, pod) or self._wrote(node, lock, text, namespace, pod):
            return True
        # By its own time, or by ours where its writer's clock runs ahead.
        age_seconds = max((self._clock_ns() - held.at_ns) / 1e9, seen_seconds)
        if age_seconds > life_seconds:
            return False
        if held.has_owner and self._is_gone(held):
            return False
        owner = f" by pod {held.namespace}/{held.pod}" if held.has_owner else ""
        raise LockHeld(f"node {node} has been locked{owner} within {life_seconds:g} s: node lock contention")

    def _is_gone(self, held: Lock) -> bool:
        try:
            owner = get_pod(self._client, held.namespace, held.pod)
        except NotFound:
            return True
        return (owner.get("status") or {}).get("phase") in _ENDED

    def _may_release(self, node: str, text: str, namespace: str, pod: str, lock: NodeLock) -> bool:
        if owned_by(text, namespace, pod):
            return True
        try:
            held = parse_lock(text, f"node {node}: {lock.key}")
        except BadInputError as problem:
            log.warning("node lock left alone", extra={"node": node, "problem": str(problem)})
            return False
        if held.has_owner:
            return False
        return lock.names_pod or self._wrote(node, lock, text, namespace, pod)

    def _wrote(self, node: str, lock: NodeLock, text: str, namespace: str, pod: str) -> bool:
        """Whether this very text was written for this pod by this process; the only sign in a lock without owner."""
        if lock.names_pod:
            return False
        with self._guard:
            return self._ours.get((node, lock.key)) == (namespace, pod, text)

    def _seen_for(self, node: str, key: str, text: str) -> float:
        now = self._monotonic()
        with self._guard:
            before = self._seen.get((node, key))
            if before is None or before[0] != text:
                self._seen[node, key] = before = (text, now)
        return now - before[1]

    def _tell(self, node: str, message: str) -> None:
        log.warning("unreadable node lock taken over", extra={"node": node, "problem": message})
        if self._events is not None:
            self._events.say(About("Node", node, uid=node), "Warning", "NodeLockUnreadable", message)


def _annotation(node: dict[str, object], key: str) -> str | None:
    metadata = node.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations.get(key) if isinstance(annotations, dict) else None


def _version(node: dict[str, object]) -> str:
    metadata = node.get("metadata")
    return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""
