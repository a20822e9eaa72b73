"""Events on pods that a backend's samples warn about: one when something begins to be wrong, none while it stays so."""

import threading
from collections.abc import Iterable, Mapping

from hami_core_py.cluster.events import About, Events
from hami_core_py.models.samples import Sample

REASON = "LimitNotHeld"


class Warnings:
    """Remembers what each backend warned about last."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._lock = threading.Lock()
        self._standing: dict[str, frozenset[tuple[str, str]]] = {}

    def tell(self, backend: str, samples: Iterable[Sample], uids: Mapping[tuple[str, str], str]) -> None:
        """Say what is newly wrong with pods that are here. :param uids: namespace and name → UID."""
        now: dict[tuple[str, str], tuple[str, str]] = {}
        for sample in samples:
            pod = (sample.labels.get("namespace", ""), sample.labels.get("pod", ""))
            if sample.warning and pod in uids:
                now[uids[pod], sample.warning] = pod
        with self._lock:
            new = sorted(now.keys() - self._standing.get(backend, frozenset()))
            self._standing[backend] = frozenset(now)
        for uid, sentence in new:
            namespace, name = now[uid, sentence]
            self._events.say(About("Pod", name, namespace, uid), "Warning", REASON, sentence)

    def stop(self) -> None:
        """Write what is still to be written."""
        self._events.stop()
