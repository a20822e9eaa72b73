"""What the driver shows becomes devices; what it cannot tell costs one device, never the others."""

import logging
from pathlib import Path

import pytest
from hami_backend_nvidia import nvml
from hami_backend_nvidia.child import DriverError
from hami_backend_nvidia.settings import Settings

from hami_core_py.models.devices import Device, DeviceId


def settings(**values: object) -> Settings:
    return Settings.model_validate({"probeTimeoutSeconds": 20, **values})


def test_gpu_becomes_a_device_that_is_split_and_scaled(driver):
    driver.says(devices=[{"uuid": "GPU-a", "name": "Tesla P4", "memory": 7680 * 2**20, "minor": 3}])
    scaled = settings(deviceSplitCount=4, deviceMemoryScaling=1.5, deviceCoreScaling=0.57)
    assert nvml.discover(scaled) == (
        Device(
            id=DeviceId("GPU-a"),
            family="NVIDIA",
            model="NVIDIA-Tesla P4",
            slots=4,
            memory_mib=11520,
            core_units=56,
            modes=("hami-core",),
            facts={"minor": 3},
        ),
    )


@pytest.mark.parametrize("code", [9, 12])
def test_without_a_driver_there_is_nothing_and_it_is_said_once(driver, caplog, code):
    driver.says(init=code)
    with caplog.at_level(logging.INFO):
        assert nvml.discover(settings()) == nvml.discover(settings()) == ()
    assert [r.message for r in caplog.records] == ["no driver on this node: no GPU is offered"]


def test_broken_driver_is_an_error_and_not_an_empty_node(driver):
    driver.says(init=999)
    with pytest.raises(DriverError, match="the driver does not start: code 999"):
        nvml.discover(settings())


def test_driver_that_hangs_is_given_up(driver):
    driver.says(init="hang")
    with pytest.raises(DriverError, match=r"did not answer within 0\.5 s"):
        nvml.discover(settings(probeTimeoutSeconds=0.5))


def test_probe_that_crashes_is_an_error_with_its_last_words(driver):
    driver.path.write_text("{")
    with pytest.raises(DriverError, match=r"ended with code 1: .*JSONDecodeError"):
        nvml.discover(settings())


def test_device_on_which_the_driver_fails_is_left_out_and_the_others_stay(driver, caplog):
    driver.says(devices=[{"uuid": "GPU-a"}, {"uuid": "GPU-b", "fails": 15}, {"uuid": "GPU-c"}])
    with caplog.at_level(logging.INFO):
        assert [(d.id, d.index) for d in nvml.discover(settings())] == [("GPU-a", 0), ("GPU-c", 2)]
    assert "GPU 1 is not offered: the driver fails on it: code 15" in caplog.text


def test_device_without_reported_memory_takes_the_configured_size(driver):
    driver.says(devices=[{"uuid": "GPU-a", "memory": "unsupported"}, {"uuid": "GPU-b"}])
    found = nvml.discover(settings(preConfiguredDeviceMemory=1000, deviceMemoryScaling=2))
    assert [d.memory_mib for d in found] == [2000, 81920]


def test_device_without_reported_or_configured_memory_is_left_out(driver, caplog):
    driver.says(devices=[{"uuid": "GPU-a", "memory": "unsupported"}, {"uuid": "GPU-b"}])
    with caplog.at_level(logging.INFO):
        assert [d.id for d in nvml.discover(settings())] == ["GPU-b"]
    assert "set preConfiguredDeviceMemory" in caplog.text


@pytest.mark.parametrize("filtered", [{"uuid": ["GPU-a"]}, {"index": [0]}])
def test_filtered_device_is_not_offered(driver, filtered):
    driver.says(devices=[{"uuid": "GPU-a"}, {"uuid": "GPU-b"}])
    assert [d.id for d in nvml.discover(settings(filterDevices=filtered))] == ["GPU-b"]


def test_device_in_mig_mode_is_not_offered_as_a_whole(driver):
    driver.says(devices=[{"uuid": "GPU-a", "mig": 1}, {"uuid": "GPU-b", "mig": "unsupported"}])
    assert [d.id for d in nvml.discover(settings())] == ["GPU-b"]


def test_display_adapter_is_not_offered(driver):
    driver.says(devices=[{"uuid": "GPU-a", "name": "NVIDIA DGX Display"}, {"uuid": "GPU-b"}])
    assert [d.id for d in nvml.discover(settings())] == ["GPU-b"]


def test_links_between_devices_are_scored(driver):
    driver.says(
        devices=[
            {"uuid": "GPU-a", "bus_id": "A", "links": ["b", "b"]},
            {"uuid": "GPU-b", "bus_id": "B", "links": ["a", "a"]},
        ],
        levels={"GPU-a GPU-b": 50, "GPU-b GPU-a": 50},
    )
    first, second = nvml.discover(settings())
    assert (first.links, second.links) == ({"GPU-b": 210}, {"GPU-a": 210})
    assert [d.links for d in nvml.discover(settings(topologyScores=False))] == [{}, {}]


def test_devices_behind_a_switch_count_the_links_that_both_have_to_it(driver):
    driver.says(
        devices=[
            {"uuid": "GPU-a", "bus_id": "A", "links": ["switch-0", "switch-1", "switch-1"]},
            {"uuid": "GPU-b", "bus_id": "B", "links": ["switch-0", "switch-1"]},
        ],
        levels={"GPU-a GPU-b": 10, "GPU-b GPU-a": 10},
    )
    assert nvml.discover(settings())[0].links == {"GPU-b": 250}


def test_numa_node_is_read_from_the_machine(tmp_path: Path):
    at = tmp_path / "bus/pci/devices/0000:17:00.0"
    at.mkdir(parents=True)
    (at / "numa_node").write_text("1\n")
    assert nvml.numa("00000000:17:00.0", tmp_path) == nvml.numa("0000:17:00.0", tmp_path) == 1


@pytest.mark.parametrize("text", ["-1\n", "?", None])
def test_unknown_numa_node_is_zero(tmp_path: Path, text):
    at = tmp_path / "bus/pci/devices/0000:17:00.0"
    at.mkdir(parents=True)
    if text:
        (at / "numa_node").write_text(text)
    assert nvml.numa("00000000:17:00.0", tmp_path) == 0


def test_use_of_the_devices_is_measured_in_base_units(driver):
    driver.says(devices=[{"uuid": "GPU-a", "minor": 0, "celsius": "unsupported"}, {"uuid": "GPU-b", "fails": 15}])
    samples = {s.name: s for s in nvml.collect((), settings())}
    assert {name: sample.value for name, sample in samples.items()} == {
        "hami_host_gpu_memory_used_bytes": 2**30,
        "hami_host_gpu_memory_total_bytes": 40 * 2**30,
        "hami_host_gpu_utilization_ratio": 40,
        "hami_host_gpu_memory_controller_utilization_ratio": 20,
        "hami_host_gpu_power_watts": 250.5,
    }
    assert samples["hami_host_gpu_power_watts"].labels == {
        "device_index": "0",
        "device_uuid": "GPU-a",
        "device_type": "NVIDIA A100",
    }
