"""What a container receives at start."""

import pytest
from hami_backend_nvidia.grants import grant
from hami_backend_nvidia.settings import Settings

from hami_core_py.errors import HamiError
from hami_core_py.models.allocations import Grant, Mount
from hami_core_py.testing.builders import allocation, device, share

A, B = (device(f"GPU-{i}", family="NVIDIA", facts={"minor": i + 4}) for i in range(2))


def everything(_path: str) -> bool:
    return True


def test_container_sees_its_devices_and_is_told_each_limit():
    held = allocation((A, share(memory_mib=3000, core_units=30)), (B, share(memory_mib=500, core_units=0)))
    assert grant(held, Settings(), exists=everything) == Grant(
        env={
            "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
            "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
            "CUDA_DEVICE_MEMORY_LIMIT_1": "500m",
            "CUDA_DEVICE_SM_LIMIT": "30",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/region.cache",
            "LIBCUDA_LOG_LEVEL": "1",
        },
        device_paths=(
            "/dev/nvidia4",
            "/dev/nvidia5",
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/nvidia-uvm-tools",
            "/dev/nvidia-modeset",
        ),
    )


def test_directory_that_tenants_may_write_is_mounted_for_the_region():
    held = allocation((A, share()), directory="/var/lib/hami/x")
    assert grant(held, Settings(), exists=everything).mounts == (
        Mount(host_path="/var/lib/hami/x/shared", container_path="/usr/local/vgpu", read_only=False),
    )


def test_device_node_that_is_not_on_the_host_is_not_named():
    held = allocation((A, share()))
    assert grant(held, Settings(), exists=lambda p: p == "/dev/nvidia4").device_paths == ("/dev/nvidia4",)


def test_device_without_a_minor_number_has_no_nodes():
    held = allocation((device("GPU-0", family="NVIDIA"), share()))
    assert grant(held, Settings(), exists=everything).device_paths == ()


def test_device_nodes_can_be_left_to_the_vendors_runtime():
    held = allocation((A, share()))
    assert grant(held, Settings(passDeviceSpecs=False), exists=everything).device_paths == ()


def test_settings_reach_the_limiter():
    settings = Settings(deviceMemoryScaling=1.5, disableCoreLimit=True, libCudaLogLevel="")
    env = grant(allocation((A, share())), settings, exists=everything).env
    assert (env["CUDA_OVERSUBSCRIBE"], env["GPU_CORE_UTILIZATION_POLICY"]) == ("true", "disable")
    assert "LIBCUDA_LOG_LEVEL" not in env


def test_nothing_is_preloaded_by_a_variable():
    assert "LD_PRELOAD" not in grant(allocation((A, share())), Settings(), exists=everything).env


LIMITED = {"directory": "/var/lib/hami/x", "host_directory": "/var/lib/hami/host/nvidia/1"}


def test_limiter_its_limits_and_the_loaders_file_are_mounted_out_of_the_containers_reach():
    assert grant(allocation((A, share()), **LIMITED), Settings(), exists=everything).mounts == (
        Mount(host_path="/var/lib/hami/x/shared", container_path="/usr/local/vgpu", read_only=False),
        Mount(host_path="/var/lib/hami/host/nvidia/1/libvgpu.so", container_path="/usr/local/hami/libvgpu.so"),
        Mount(host_path="/var/lib/hami/x/limits", container_path="/usr/local/hami/limits"),
        Mount(host_path="/var/lib/hami/x/ld.so.preload", container_path="/etc/ld.so.preload"),
    )


def test_limits_file_says_in_bytes_and_percent_what_each_device_holds():
    held = allocation((A, share(memory_mib=4000, core_units=30)), (B, share(memory_mib=1, core_units=0)), **LIMITED)
    assert grant(held, Settings(contextMemory=300), exists=everything).files == {
        "ld.so.preload": "/usr/local/hami/libvgpu.so\n",
        "limits": (
            "hami-limits 1\n"
            "region=/usr/local/vgpu/region.cache\n"
            "policy=default\n"
            "device=GPU-0 memory=4194304000 cores=30 context=314572800\n"
            "device=GPU-1 memory=1048576 cores=0 context=314572800\n"
        ),
    }


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (Settings(disableCoreLimit=True, gpuCorePolicy="force"), "policy=disable"),
        (Settings(gpuCorePolicy="force"), "policy=force"),
        (Settings(deviceMemoryScaling=2), "oversubscribe=1"),
    ],
)
def test_settings_of_the_node_are_in_the_limits_file(settings: Settings, line: str):
    files = grant(allocation((A, share()), **LIMITED), settings, exists=everything).files
    assert line in files["limits"].splitlines()


@pytest.mark.parametrize(
    ("asked", "said"), [("0", "priority=0"), ("1", "priority=1"), ("99999999999", "priority=2147483647")]
)
def test_priority_that_the_container_asked_for_is_in_the_limits_file(asked: str, said: str):
    held = allocation((A, share()), limits={"nvidia.com/priority": asked}, **LIMITED)
    assert said in grant(held, Settings(), exists=everything).files["limits"].splitlines()


def test_priority_that_is_more_than_a_number_is_not():
    held = allocation((A, share()), limits={"nvidia.com/priority": "0\ndisable=1"}, **LIMITED)
    text = grant(held, Settings(), exists=everything).files["limits"]
    assert "priority" not in text
    assert "disable" not in text


def test_overcommitted_compute_is_no_more_than_the_whole_device():
    files = grant(allocation((A, share(core_units=150)), **LIMITED), Settings(), exists=everything).files
    assert "cores=100" in files["limits"]


def test_container_is_refused_without_a_limiter_only_where_one_is_required():
    held = allocation((A, share()), directory="/var/lib/hami/x")
    assert grant(held, Settings(), exists=everything).files == {}
    with pytest.raises(HamiError, match="requireLimiter"):
        grant(held, Settings(requireLimiter=True), exists=everything)
