"""The doctor and the support bundle on a real API server: what the chart installs is right, and a changed value is found."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from hami_core_py.cli import main
from tests.cluster.fakenodes import remove_nodes
from tests.cluster.plane import ControlPlane
from tests.cluster.release_chart import Chart

NOBODY_RUNS = {
    # No kubelet is here to run the release's pods, and its certificates are made by one of them.
    "agent-selects-no-node",
    "webhook-no-endpoints",
    "workload-unavailable",
}


@pytest.fixture(scope="module")
def chart(fake_plane: ControlPlane) -> Iterator[Chart]:
    """A release with default values."""
    found = Chart(fake_plane)
    found.install()
    yield found
    found.clear()
    remove_nodes(fake_plane.client)


def findings(chart: Chart) -> dict[str, str]:
    """Code → subject of the doctor's findings."""
    answer = CliRunner().invoke(main, ["doctor", "-o", "json", "--kubeconfig", str(chart.plane.kubeconfig)])
    told = json.loads(answer.output)
    assert told["unseen"] == []
    assert answer.exit_code == (0 if told["healthy"] else 1)
    return {one["code"]: one["subject"] for one in told["findings"]}


def test_release_with_default_values_has_no_mistake_of_its_own(chart: Chart) -> None:
    assert set(findings(chart)) <= NOBODY_RUNS | {"namespace-unrestricted"}


MISTAKES = {
    "webhook.failurePolicy=Ignore": "webhook-fails-open",
    "webhook.reinvocationPolicy=Never": "webhook-not-reinvoked",
    "webhook.replicas=1": "single-webhook",
    "scheduler.kubeScheduler.httpTimeout=30s": "extender-timeout",
    "scheduler.leaveToKubeScheduler={memory}": "extender-hides-count",
    "admissionPolicy.enabled=false": "records-unprotected",
}


def test_values_that_are_mistakes_are_found(chart: Chart) -> None:
    chart.upgrade(*(flag for value in MISTAKES for flag in ("--set", value)))
    try:
        assert set(MISTAKES.values()) <= set(findings(chart))
    finally:
        chart.roll_back()


def test_release_without_webhook_is_found(chart: Chart) -> None:
    chart.upgrade("--set", "webhook.enabled=false")
    try:
        assert "webhook-missing" in findings(chart)
    finally:
        chart.roll_back()


def test_bundle_of_the_release_can_be_written(chart: Chart, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    answer = CliRunner().invoke(main, ["support-bundle", "-o", str(path), "--kubeconfig", str(chart.plane.kubeconfig)])
    assert answer.exit_code == 0, answer.output
    assert path.stat().st_size > 1000
