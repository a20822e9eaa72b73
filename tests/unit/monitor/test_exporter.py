"""Samples read back from the text that Prometheus scrapes."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hami_core_py.models.samples import Sample
from hami_core_py.servers.exporter import SampleCollector


def scraped(*samples: Sample) -> dict[str, list[tuple[dict[str, str], float]]]:
    registry = CollectorRegistry()
    registry.register(SampleCollector(lambda: samples))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {s.name: [(t.labels, t.value) for t in f.samples if t.name == s.name] for f in families for s in f.samples}


def test_gauges_and_counters_keep_their_names_and_values() -> None:
    found = scraped(
        Sample(name="acme_used_bytes", value=5, help="used", labels={"npu": "0"}),
        Sample(name="acme_errors_total", value=2, help="errors", kind="counter"),
    )
    assert found["acme_used_bytes"] == [({"npu": "0"}, 5)]
    assert found["acme_errors_total"] == [({}, 2)]


def test_samples_of_one_name_with_different_labels_are_one_family() -> None:
    found = scraped(
        Sample(name="b_bytes", value=1, help="b", labels={"x": "1"}),
        Sample(name="a_bytes", value=3, help="a"),
        Sample(name="b_bytes", value=2, help="b", labels={"y": "2"}),
    )
    assert sorted(found["b_bytes"], key=lambda s: s[1]) == [({"x": "1", "y": ""}, 1), ({"x": "", "y": "2"}, 2)]


def test_version_of_the_process_is_told() -> None:
    ((labels, value),) = scraped()["hami_build_info"]
    assert value == 1
    assert labels["version"]
