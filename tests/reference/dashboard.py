"""The Grafana dashboard, written from a short table: rows of panels, each with what it asks Prometheus."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
NODE, WHOSE = '{node=~"$node"}', '{namespace=~"$namespace"}'
DEVICE, CONTAINER = "{{node}} {{device_index}} ({{device_uuid}})", "{{namespace}}/{{pod}}/{{container}}"
GREEN_TO_RED = [(None, "green"), (0.75, "yellow"), (0.9, "red")]
ANY_IS_BAD = [(None, "green"), (1, "red")]


@dataclass(frozen=True)
class Panel:
    """One panel. :ivar asks: expression → legend. :ivar unit: as Grafana calls it. :ivar width: of 24."""

    title: str
    asks: dict[str, str]
    unit: str = "none"
    width: int = 12
    kind: str = "timeseries"
    steps: Sequence[tuple[float | None, str]] = ((None, "green"),)
    text: str = ""


ROWS: dict[str, tuple[Panel, ...]] = {
    "Cluster": (
        Panel("Devices", {f"count(hami_device_slots{NODE})": ""}, width=4, kind="stat"),
        Panel("Memory", {f"sum(hami_device_memory_total_bytes{NODE})": ""}, "bytes", 5, "stat"),
        Panel("Memory given away", {f"sum(hami_device_memory_allocated_bytes{NODE})": ""}, "bytes", 5, "stat"),
        Panel(
            "Part given away",
            {f"sum(hami_device_memory_allocated_bytes{NODE}) / sum(hami_device_memory_total_bytes{NODE})": ""},
            *("percentunit", 5, "stat", GREEN_TO_RED),
        ),
        Panel("Containers on devices", {f"sum(hami_device_slots_allocated{NODE})": ""}, width=5, kind="stat"),
    ),
    "Limits": (
        Panel(
            "Containers past a limit",
            {
                "count(hami_container_memory_over_limit_bytes > 0 or hami_container_unlimited_process_count > 0) or vector(0)": ""
            },
            *("none", 8, "stat", ANY_IS_BAD),
            text="By the driver's count, or with processes that the limiter does not know.",
        ),
        Panel(
            "Processes outside of HAMi",
            {f"sum(hami_device_foreign_process_count{NODE}) or vector(0)": ""},
            *("none", 8, "stat", ANY_IS_BAD),
        ),
        Panel(
            "Unhealthy devices",
            {f"count(hami_device_healthy{NODE} == 0) or vector(0)": ""},
            "none",
            8,
            "stat",
            ANY_IS_BAD,
        ),
    ),
    "Devices": (
        Panel("Memory in use", {f"hami_host_gpu_memory_used_bytes{NODE}": DEVICE}, "bytes"),
        Panel("Compute in use", {f"hami_host_gpu_utilization_ratio{NODE}": DEVICE}, "percent"),
        Panel(
            "Memory given away",
            {f"hami_device_memory_allocated_ratio{NODE}": DEVICE},
            "percentunit",
            steps=GREEN_TO_RED,
        ),
        Panel("Compute given away", {f"hami_device_core_allocated_ratio{NODE}": DEVICE}, "percentunit"),
        Panel("Containers", {f"hami_device_slots_allocated{NODE}": DEVICE}),
        Panel("Temperature", {f"hami_host_gpu_temperature_celsius{NODE}": DEVICE}, "celsius"),
    ),
    "Containers": (
        Panel(
            "Memory used, and what was given",
            {
                f"hami_container_memory_used_bytes{WHOSE}": f"used {CONTAINER}",
                f"hami_container_memory_limit_bytes{WHOSE}": f"given {CONTAINER}",
            },
            "bytes",
        ),
        Panel("Compute used", {f"hami_container_utilization_ratio{WHOSE}": CONTAINER}, "percentunit"),
        Panel(
            "Part of the given memory that is used",
            {
                f"sum by (namespace, pod) (hami_container_memory_used_bytes{WHOSE})"
                f" / sum by (namespace, pod) (hami_container_memory_limit_bytes{WHOSE})": "{{namespace}}/{{pod}}"
            },
            "percentunit",
        ),
        Panel("Time since the last launch", {f"hami_container_last_launch_age_seconds{WHOSE}": CONTAINER}, "s"),
        Panel(
            "Most memory",
            {f"topk(10, hami_container_memory_used_bytes{WHOSE})": CONTAINER},
            *("bytes", 24, "bargauge"),
        ),
    ),
    "HAMi itself": (
        Panel(
            "Calls to the extender",
            {"sum by (verb, outcome) (rate(hami_extender_calls_total[5m]))": "{{verb}} {{outcome}}"},
            "ops",
        ),
        Panel(
            "Repairs and failures",
            {
                "sum(increase(hami_ledger_drift_total[1h]))": "ledger drift",
                "sum by (backend) (increase(hami_backend_errors_total[1h]))": "backend {{backend}}",
                "sum by (outcome) (increase(hami_limit_evictions_total[1h]))": "evictions {{outcome}}",
            },
        ),
    ),
}


def dashboard_text() -> str:
    """The dashboard as Grafana imports it."""
    board = {
        "uid": "hami",
        "title": "HAMi",
        "description": "Shared devices: what is given away, what is used, and whose limits do not hold.",
        "tags": ["hami", "accelerators"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "graphTooltip": 1,
        "templating": {"list": [_source(), *_choices()]},
        "panels": list(_panels()),
    }
    return json.dumps(board, indent=1) + "\n"


def expressions() -> list[str]:
    """Everything that the panels ask."""
    return [query for row in ROWS.values() for panel in row for query in panel.asks]


def _source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _choices() -> Iterator[dict[str, Any]]:
    for name, query in (
        ("node", "label_values(hami_device_slots, node)"),
        ("namespace", "label_values(hami_container_memory_limit_bytes, namespace)"),
    ):
        common = {
            "type": "query",
            "datasource": SOURCE,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
        }
        yield {"name": name, "label": name.capitalize(), "query": query, **common}


def _panels() -> Iterator[dict[str, Any]]:
    number, top = 1, 0
    for title, row in ROWS.items():
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
            "panels": [],
        }
        number, top, left, height = number + 1, top + 1, 0, 4 if row[0].kind == "stat" else 8
        for panel in row:
            if left + panel.width > 24:
                left, top = 0, top + height
            yield _panel(panel, number, {"x": left, "y": top, "w": panel.width, "h": height})
            number, left = number + 1, left + panel.width
        top += height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    thresholds = {"mode": "absolute", "steps": [{"value": value, "color": colour} for value, colour in panel.steps]}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "thresholds": thresholds}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
            for i, (query, legend) in enumerate(panel.asks.items())
        ],
    }
