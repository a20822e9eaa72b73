"""What the monitor does with the answers of backends: late, broken, doubled, and of pods that are gone."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.lab.apiserver import ApiServer, write_kubeconfig
from hami_core_py.models.allocations import Allocation
from hami_core_py.models.samples import Sample
from hami_core_py.services.monitoring import Monitor
from hami_core_py.testing.builders import family
from hami_core_py.testing.plugins import make_plugin


def sample(name: str, value: float = 1, **labels: str) -> Sample:
    return Sample(name=name, value=value, help="x", labels=labels)


def backend(name: str, answer: Callable[[], Sequence[Sample]]) -> tuple[str, Any]:
    def hami_collect_metrics(allocations: Sequence[Allocation]) -> Sequence[Sample]:
        return answer()

    return make_plugin(name, hooks=[hami_collect_metrics])


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with ApiServer() as api:
        made = Client.from_kubeconfig(write_kubeconfig(tmp_path / "kubeconfig", api.url))
        yield made
        made.close()


@pytest.fixture
def monitor(client: Client) -> Iterator[Callable[..., Monitor]]:
    made: list[Monitor] = []

    def start(*plugins: tuple[str, Any], **options: Any) -> Monitor:
        # Time stands still, so that nothing is old by itself.
        fields: dict[str, Any] = {"interval_seconds": 0.02, "clock": lambda: 0.0, **options}
        made.append(Monitor(client, Ask(load_backends(plugins=plugins)), "n1", **fields))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.stop()


def wait_for(probe: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (answer := probe()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def test_samples_of_backends_say_which_node_they_are_from(monitor: Callable[..., Monitor]) -> None:
    found = wait_for(monitor(backend("acme", lambda: [sample("a_bytes", npu="0")])).samples)
    assert [(s.name, s.labels) for s in found] == [("a_bytes", {"node": "n1", "npu": "0"})]


def test_sample_of_a_pod_that_is_not_here_is_not_shown(monitor: Callable[..., Monitor]) -> None:
    answers = [sample("a_bytes", pod="gone", namespace="ml"), sample("b_bytes")]
    found = wait_for(monitor(backend("acme", lambda: answers)).samples)
    assert [s.name for s in found] == ["b_bytes"]


def test_two_backends_with_one_series_do_not_make_the_scrape_unreadable(monitor: Callable[..., Monitor]) -> None:
    running = monitor(
        backend("ant", lambda: [sample("a_bytes", 1), sample("b_bytes")]),
        backend("bee", lambda: [sample("a_bytes", 2), sample("c_bytes")]),
    )
    wait_for(lambda: len(running.samples()) == 3)
    assert {s.name: s.value for s in running.samples()}["a_bytes"] == 1


def test_backend_that_fails_leaves_the_others_their_samples(monitor: Callable[..., Monitor]) -> None:
    def broken() -> Sequence[Sample]:
        raise OSError("no driver")

    running = monitor(backend("ant", broken), backend("bee", lambda: [sample("b_bytes")]))
    assert [s.name for s in wait_for(running.samples)] == ["b_bytes"]
    wait_for(lambda: running.ask.errors["ant"])


def test_old_numbers_of_a_backend_that_hangs_are_not_shown_as_new(monitor: Callable[..., Monitor]) -> None:
    hang, now = threading.Event(), [0.0]

    def slow() -> Sequence[Sample]:
        if answered:
            hang.wait()
        answered.append(1)
        return [sample("a_bytes")]

    answered: list[int] = []
    running = monitor(backend("acme", slow), interval_seconds=0.02, clock=lambda: now[0])
    wait_for(running.samples)
    now[0] = 1.0
    wait_for(lambda: not running.samples())
    hang.set()


def test_monitor_of_a_vendor_without_metrics_is_content(monitor: Callable[..., Monitor]) -> None:
    running = monitor(make_plugin("acme", [family()]))
    wait_for(lambda: running.missing() is None)
    assert running.samples() == ()
