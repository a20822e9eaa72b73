"""Metrics under the names from before HAMi 2.9."""

from hami_core_py.models.samples import Sample
from hami_core_py.services.older_names import OLDER, with_older_names

CONTAINER = {
    "namespace": "ml",
    "pod": "p",
    "container": "main",
    "vdevice_index": "0",
    "device_uuid": "u",
    "zone": "vGPU",
}


def sample(name: str, **labels: str) -> Sample:
    return Sample(name=name, value=7, help="x", labels=labels, warning="w")


def test_series_is_shown_under_both_names_with_the_labels_of_each() -> None:
    ours, older = with_older_names([sample("hami_vgpu_memory_used_bytes", **CONTAINER)])
    assert ours.labels == CONTAINER
    assert (older.name, older.value, older.warning) == ("vGPU_device_memory_usage_in_bytes", 7, "")
    labels = {
        "podnamespace": "ml",
        "podname": "p",
        "ctrname": "main",
        "vdeviceid": "0",
        "deviceuuid": "u",
        "zone": "vGPU",
    }
    assert older.labels == labels


def test_series_without_an_older_name_is_shown_once() -> None:
    assert [s.name for s in with_older_names([sample("hami_device_slots", node="n")])] == ["hami_device_slots"]


def test_older_series_of_devices_have_their_zone() -> None:
    _, older = with_older_names(
        [sample("hami_host_gpu_memory_used_bytes", node="n", device_index="1", device_type="t")]
    )
    assert older.name == "HostGPUMemoryUsage"
    assert older.labels == {"nodeid": "n", "deviceidx": "1", "devicetype": "t", "zone": "vGPU"}


def test_no_two_series_share_an_older_name() -> None:
    names = [name for name, _ in OLDER.values()]
    assert len(set(names)) == len(names)
