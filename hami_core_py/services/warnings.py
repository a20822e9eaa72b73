"""Events on pods that a backend's samples warn about: one when something begins to be wrong, renewed while it stays so."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from hami_core_py.cluster.events import About, Events
from hami_core_py.models.samples import Sample

COMPONENT = "hami-monitor"
REASON = "LimitNotHeld"
"""Of all such events; the API server lets nobody but node agents write events of this reason."""
RENEW_SECONDS = 240.0
FRESH_SECONDS = 600.0
"""An event that has not been renewed for so long says nothing about now. Longer than the clocks of two machines differ."""


class Warnings:
    """Remembers what each backend warned about, and when it last said so.

    :param clock: monotonic seconds.
    """

    def __init__(self, events: Events, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._events, self._clock = events, clock
        self._lock = threading.Lock()
        self._said: dict[str, dict[tuple[str, str], float]] = {}

    def tell(self, backend: str, samples: Iterable[Sample], uids: Mapping[tuple[str, str], str]) -> None:
        """Say what is wrong with pods that are here. :param uids: namespace and name → UID."""
        found: dict[tuple[str, str], tuple[str, str]] = {}
        for sample in samples:
            pod = (sample.labels.get("namespace", ""), sample.labels.get("pod", ""))
            if sample.warning and pod in uids:
                found[uids[pod], sample.warning] = pod
        now = self._clock()
        with self._lock:
            before = self._said.get(backend, {})
            due = [key for key in sorted(found) if now - before.get(key, float("-inf")) >= RENEW_SECONDS]
            self._said[backend] = {key: now if key in due else before[key] for key in found}
        for uid, sentence in due:
            namespace, name = found[uid, sentence]
            self._events.say(About("Pod", name, namespace, uid), "Warning", REASON, sentence)

    def stop(self) -> None:
        """Write what is still to be written."""
        self._events.stop()
