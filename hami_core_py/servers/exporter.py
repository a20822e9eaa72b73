"""Samples in the Prometheus text format."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from itertools import groupby
from platform import python_version

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hami_core_py.models.samples import Sample


class SampleCollector(Collector):
    """Shows what a function answers at each scrape; the function must ask nobody."""

    def __init__(self, samples: Callable[[], Iterable[Sample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        """One family per name, and who we are."""
        build = GaugeMetricFamily("hami_build_info", "Version of this process.", labels=["version", "python_version"])
        build.add_metric([version("hami"), python_version()], 1)
        yield build
        by_name = sorted(self._samples(), key=lambda sample: sample.name)
        for name, group in groupby(by_name, key=lambda sample: sample.name):
            yield _family(name, list(group))

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first scrape."""
        return ()


def _family(name: str, samples: list[Sample]) -> Metric:
    """All samples of one name; a label that some of them lack is empty there."""
    labels = sorted({label for sample in samples for label in sample.labels})
    kind = CounterMetricFamily if samples[0].kind == "counter" else GaugeMetricFamily
    family = kind(name, samples[0].help, labels=labels)
    for sample in samples:
        family.add_metric([sample.labels.get(label, "") for label in labels], sample.value)
    return family
