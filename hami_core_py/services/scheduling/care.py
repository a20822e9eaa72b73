"""What the scheduler does of its own accord: ends what is over, settles what is unknown, and recounts its books."""

import logging
import threading
import time
from collections.abc import Callable

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.cluster.pods import PODS
from hami_core_py.services.intake.pods import ENDED
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.reservations import Reservations
from hami_core_py.services.scheduling.binding import Binder

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 15.0
"""Interval in which nodes are judged anew whose liveness changes by time alone."""

SMALL_PAGE, BREATH_SECONDS = 100, 0.002
"""The recount's list is read in bites, so that decoding one never holds up a decision for more than a millisecond."""

NOT_ENDED = ",".join(f"status.phase!={phase}" for phase in ENDED)


class Care:
    """One thread that looks after the scheduler's state.

    :param reconcile_seconds: interval of the full recount against a fresh list of pods.
    :param watch_lag_seconds: what a watch may lag behind a list; an end that is heard of within it is no drift.
    :param look_again: judges the liveness of nodes anew.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        reservations: Reservations,
        binder: Binder,
        *,
        reconcile_seconds: float,
        watch_lag_seconds: float = 1.0,
        look_again: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._ledger, self._reservations, self._binder = client, ledger, reservations, binder
        self._watch_lag_seconds = watch_lag_seconds
        self._reconcile_seconds, self._look_again, self._clock = reconcile_seconds, look_again, clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="care", daemon=True)

    def start(self) -> "Care":
        """Begin; returns at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def tick(self) -> None:
        """End assumed reservations whose time is over, and settle Bindings whose outcome is unknown."""
        for uid in self._reservations.expire():
            log.info("assumed reservation ended", extra={"uid": uid})
        self._binder.settle()

    def reconcile(self) -> None:
        """Compare the ledger with a fresh list of pods and with a full recompute; count and repair what differs."""
        listed_at = self._ledger.changes
        live: set[str] = set()
        for page, _ in self._client.pages(PODS, {"fieldSelector": NOT_ENDED}, size=SMALL_PAGE):
            live.update(pod["metadata"]["uid"] for pod in page)
            self._stopped.wait(BREATH_SECONDS)
        self._stopped.wait(self._watch_lag_seconds)
        for drift in self._ledger.recount(live, listed_at=listed_at):
            log.error("ledger drifted and was repaired", extra={"drift": str(drift)})

    def _run(self) -> None:
        now = self._clock()
        next_look, next_reconcile = now + LOOK_AGAIN_SECONDS, now + self._reconcile_seconds
        while not self._stopped.wait(TICK_SECONDS):
            now = self._clock()
            self._guarded(self.tick)
            if now >= next_look:
                self._guarded(self._look_again)
                next_look = now + LOOK_AGAIN_SECONDS
            if now >= next_reconcile:
                self._guarded(self.reconcile)
                next_reconcile = now + self._reconcile_seconds

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ApiError as problem:
            log.warning("not done this time", extra={"work": work.__qualname__, "problem": str(problem)})
        except Exception:
            log.exception("not done this time", extra={"work": getattr(work, "__qualname__", "?")})
