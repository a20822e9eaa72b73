"""The agent's own counts as Prometheus metrics."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from hami_core_py.services.agent.agent import Agent
from hami_core_py.services.agent.meter import BUCKETS_SECONDS


class AgentCollector(Collector):
    """Reads the meter and the device table at each scrape; asks nobody."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def collect(self) -> Iterator[Metric]:
        """All metrics of the agent."""
        reading = self._agent.meter.read()
        allocations = CounterMetricFamily(
            "hami_agent_allocations",
            "Containers served or refused, by cause of the refusal.",
            labels=["family", "outcome"],
        )
        for (family, outcome), count in sorted(reading.allocations.items()):
            allocations.add_metric([family, outcome], count)
        yield allocations
        errors = CounterMetricFamily(
            "hami_agent_discovery_errors", "Discoveries that raised or took too long.", labels=["backend"]
        )
        for backend, count in sorted(reading.discovery_errors.items()):
            errors.add_metric([backend], count)
        yield errors
        registrations = CounterMetricFamily(
            "hami_agent_registrations", "Times the kubelet accepted the plugin of a family.", labels=["family"]
        )
        for family, count in sorted(reading.registrations.items()):
            registrations.add_metric([family], count)
        yield registrations
        devices = GaugeMetricFamily(
            "hami_agent_devices", "Devices of this node by health.", labels=["family", "health"]
        )
        found = Counter((d.family, d.health.value) for d in self._agent.table.snapshot.devices)
        for (family, health), count in sorted(found.items()):
            devices.add_metric([family, health], count)
        yield devices
        total, buckets = 0, []
        for bound, count in zip((*map(str, BUCKETS_SECONDS), "+Inf"), reading.prestart.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        yield HistogramMetricFamily(
            "hami_agent_prestart_duration_seconds",
            "Time to prepare a container's start.",
            buckets=buckets,
            sum_value=reading.prestart.sum_seconds,
        )
