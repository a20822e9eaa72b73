"""Alerts and dashboard: they ask for what we tell, and are rendered where they are wanted."""

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, PROMETHEUS, ROOT, objects, one, refusal
from tests.reference.dashboard import expressions

ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
NAME = re.compile(r"\bhami_[a-z_]+")


@pytest.fixture(scope="module")
def told() -> set[str]:
    """Names of metrics in the code, as they are scraped."""
    found: set[str] = set()
    for folder in (ROOT / "hami_core_py", ROOT / "backends"):
        for path in Path(folder).rglob("*.py"):
            if "tests" not in path.parts:
                found |= set(re.findall(r'"(hami_[a-z_]+)"', path.read_text(encoding="utf-8")))
    return found | {f"{name}_total" for name in found}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alert_asks_for_metrics_that_are_told_and_has_words_and_weight(rule: dict[str, object], told: set[str]) -> None:
    assert set(NAME.findall(str(rule["expr"]))) - told == set()
    assert rule["labels"] in [{"severity": severity} for severity in ("critical", "warning", "info")]
    assert rule["annotations"]


def test_dashboard_asks_for_metrics_that_are_told(told: set[str]) -> None:
    asked = {name for text in expressions() for name in NAME.findall(text)}
    assert len(asked) > 15
    assert asked - told == set()


def test_alerts_and_dashboard_come_where_they_are_wanted() -> None:
    wanted = ("--set", "prometheus.rules.enabled=true,prometheus.labels.release=kube,prometheus.dashboard.enabled=true")
    found = objects(*wanted, *PROMETHEUS)
    rule = one(found, "PrometheusRule", "hami-alerts")
    assert rule["spec"] == ALERTS
    assert rule["metadata"]["labels"]["release"] == "kube"
    board = one(found, "ConfigMap", "hami-dashboard")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["hami.json"])["uid"] == "hami"
    assert not [item for item in objects() if item["metadata"]["name"] in ("hami-alerts", "hami-dashboard")]
    assert "without the API monitoring.coreos.com/v1" in refusal("--set", "prometheus.rules.enabled=true")


def test_scraped_labels_say_whose_the_devices_are() -> None:
    monitors = [m for m in objects("--set", "prometheus.enabled=true", *PROMETHEUS) if m["kind"] == "ServiceMonitor"]
    assert all(endpoint["honorLabels"] for monitor in monitors for endpoint in monitor["spec"]["endpoints"])
    assert len(monitors) == 3


def test_older_names_and_writing_monitors_are_asked_for_by_values() -> None:
    def monitor(*options: str) -> dict[str, object]:
        daemon = one(objects(*options), "DaemonSet", "hami-device-plugin-nvidia")
        (found,) = [c for c in daemon["spec"]["template"]["spec"]["containers"] if c["name"] == "monitor"]
        return dict(found)

    def is_read_only(container: dict[str, object]) -> bool:
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == "state"]  # type: ignore[attr-defined]
        return bool(mount["readOnly"])

    assert "--legacy-metrics" not in monitor()["args"]  # type: ignore[operator]
    assert "--legacy-metrics" in monitor("--set", "legacyMetrics=true")["args"]  # type: ignore[operator]
    assert is_read_only(monitor())
    assert not is_read_only(monitor("--set", "backends.nvidia.settings.priorityFeedback=true"))
