"""One line for each step of a scenario."""

import json
from typing import Any

from hami_core_py.lab.steps import Metric, Step


def describe(step: Step) -> str:
    """One line that says what a step does or expects."""
    value = step.value
    match step.kind:
        case "object":
            return f"create {value['kind']} {value['metadata']['name']}"
        case "refused":
            return f"{value.object['kind']} {value.object['metadata']['name']} is refused"
        case "delete":
            return f"delete pod {value}"
        case "delete-one":
            return f"delete the one of {', '.join(value.pods)} that is {value.phase}"
        case "process":
            return f"{value.action} {value.program}" + (f" of {value.node}" if value.node else "")
        case "expect":
            wanted = value.model_dump(by_alias=True, exclude_defaults=True, exclude={"pod", "within_seconds"})
            return f"expect {value.pod}: " + ", ".join(f"{k} {_short(v)}" for k, v in wanted.items())
        case "expect-count":
            return f"expect {value.exactly} of {len(value.pods)} pods {value.phase}"
        case "measure":
            return "measure " + ", ".join(f"{pod} at {share:g} %" for pod, share in value.cores.items())
        case "metric":
            return f"expect of the monitor of {value.node}: {describe_metric(value)}"
        case "measure-memory":
            return f"measure that {value.pod} holds at most {value.memory_mib_at_most} MiB"
        case _:
            return str(value)


def describe_metric(metric: Metric) -> str:
    """The series as Prometheus writes it."""
    labels = ", ".join(f'{name}="{value}"' for name, value in metric.labels.items())
    return metric.name + (f"{{{labels}}}" if labels else "")


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " or ".join(_short(v) for v in value) if all(isinstance(v, str) for v in value) else json.dumps(value)
    return value if isinstance(value, str) else json.dumps(value)
