"""Broken promises of backends as a metric, the same in every process that asks them."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class BackendErrors(Collector):
    """``hami_backend_errors_total``, read from the façade's counts when somebody scrapes.

    :param errors: backend → count; it may grow while the process runs.
    """

    def __init__(self, errors: Mapping[str, int], registry: CollectorRegistry) -> None:
        self._errors = errors
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """One sample per backend that failed at least once."""
        family = CounterMetricFamily(
            "hami_backend_errors", "Hook calls in which a backend broke its promise.", labels=("backend",)
        )
        for backend, count in sorted(dict(self._errors).items()):
            family.add_metric((backend,), count)
        yield family
