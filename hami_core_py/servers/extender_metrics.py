"""What the scheduler's state looks like to Prometheus; read at each scrape, without an API call."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hami_core_py.services.scheduling.assembly import Scheduler
from hami_core_py.services.scheduling.evicting import OUTCOMES


class SchedulerCollector(Collector):
    """Counts of one scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        """All families."""
        scheduler = self._scheduler
        drift = CounterMetricFamily("hami_ledger_drift", "Amounts or pods that the recount found wrong and repaired.")
        drift.add_metric((), scheduler.ledger.drift_total)
        yield drift
        errors = CounterMetricFamily("hami_backend_errors", "Broken promises of a backend.", labels=("backend",))
        for backend in scheduler.ask.backends.loaded:
            errors.add_metric((backend.info.name,), scheduler.ask.errors[backend.info.name])
        yield errors
        reserved = GaugeMetricFamily(
            "hami_reservations", "Pods counted as used before they are bound.", labels=("state",)
        )
        states = Counter(reservation.state.value for reservation in scheduler.ledger.reservations())
        for state in ("assumed", "binding"):
            reserved.add_metric((state,), states[state])
        yield reserved
        nodes = GaugeMetricFamily("hami_known_nodes", "Nodes the scheduler knows.")
        nodes.add_metric((), len(scheduler.inventory.names()))
        yield nodes
        dropped = CounterMetricFamily("hami_events_dropped", "Kubernetes events that were not written.")
        dropped.add_metric((), scheduler.events.dropped)
        yield dropped
        if scheduler.evictor is not None:
            evictions = CounterMetricFamily(
                "hami_limit_evictions", "Attempts to evict a pod whose limits do not hold.", labels=("outcome",)
            )
            for outcome in OUTCOMES:
                evictions.add_metric((outcome,), scheduler.evictor.outcomes[outcome])
            yield evictions
