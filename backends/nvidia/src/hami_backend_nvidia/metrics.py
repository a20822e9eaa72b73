"""What the GPUs of this host are doing, as samples (pure)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hami_core_py.models.samples import Sample

HELP = {
    "hami_host_gpu_memory_used_bytes": "Memory of the GPU in use, by whomever.",
    "hami_host_gpu_memory_total_bytes": "Physical memory of the GPU.",
    "hami_host_gpu_utilization_ratio": "Part of the time in which the GPU was computing, 0-100 as in other HAMi versions.",
    "hami_host_gpu_memory_controller_utilization_ratio": "Part of the time in which the GPU's memory was accessed, 0-100.",
    "hami_host_gpu_temperature_celsius": "Temperature of the GPU.",
    "hami_host_gpu_power_watts": "Power that the GPU draws.",
}


def samples(told: Iterable[Mapping[str, Any]]) -> tuple[Sample, ...]:
    """Samples of every GPU that answers; what the driver cannot tell has none."""
    return tuple(
        Sample(
            name=name,
            value=value,
            help=HELP[name],
            labels={
                "device_index": str(one["index"]),
                "device_uuid": one["uuid"],
                # As the scheduler's series say it, so that they can be joined.
                "device_type": one["name"] if one["name"].startswith("NVIDIA") else f"NVIDIA-{one['name']}",
            },
        )
        for one in told
        if "problem" not in one
        for name, value in _values(one)
    )


def _values(one: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    measured = {
        "hami_host_gpu_memory_used_bytes": one["memory_used_bytes"],
        "hami_host_gpu_memory_total_bytes": one["memory_total_bytes"],
        "hami_host_gpu_utilization_ratio": one["gpu_percent"],
        "hami_host_gpu_memory_controller_utilization_ratio": one["memory_controller_percent"],
        "hami_host_gpu_temperature_celsius": one["celsius"],
        "hami_host_gpu_power_watts": None if one["milliwatts"] is None else one["milliwatts"] / 1000,
    }
    return ((name, float(value)) for name, value in measured.items() if value is not None)
