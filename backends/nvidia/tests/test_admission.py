"""What the webhook changes in a container that names an NVIDIA resource."""

import pytest
from hami_backend_nvidia import plugin
from hami_backend_nvidia.admission import admit
from hami_backend_nvidia.settings import Settings

from hami_core_py.errors import RequestError
from hami_core_py.models.backends import Admission
from hami_core_py.testing.builders import container

GPU, MEMORY, PERCENT, CORES, PRIORITY = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/priority",
)
EXCLUSIVE = Admission(limits={CORES: "100"})
UNCHANGED = Admission()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({GPU: 1}, EXCLUSIVE),
        ({GPU: 1, MEMORY: 9000}, UNCHANGED),
        ({GPU: 1, PERCENT: 100}, EXCLUSIVE),
        ({GPU: 1, PERCENT: 60}, UNCHANGED),
        ({GPU: 1, PERCENT: 0}, UNCHANGED),
        ({GPU: 1, CORES: 35}, UNCHANGED),
        ({GPU: 1, CORES: 0}, UNCHANGED),
        ({GPU: 0}, UNCHANGED),
        ({MEMORY: 4000}, UNCHANGED),
        ({PERCENT: 100}, EXCLUSIVE),
        ({}, UNCHANGED),
    ],
)
def test_container_that_asks_for_whole_devices_is_alone_on_them(limits, expected):
    assert admit(container(limits=limits), Settings()) == expected


def test_memory_among_the_requests_counts_as_asked():
    assert admit(container(limits={GPU: 1}, requests={MEMORY: 55}), Settings()) == UNCHANGED


def test_count_among_the_requests_counts_as_asked():
    assert admit(container(requests={GPU: 1}), Settings()) == EXCLUSIVE


def test_without_a_core_resource_nobody_is_alone_by_default():
    assert admit(container(limits={GPU: 1}), Settings(resourceCoreName=None)) == UNCHANGED


def test_without_a_default_count_amounts_alone_claim_nothing():
    assert admit(container(limits={PERCENT: 100}), Settings(defaultGPUNum=0)) == UNCHANGED


@pytest.mark.parametrize("percent", ["101", "140", "-5", "1.5", "many"])
def test_percentage_out_of_range_is_refused_and_named(percent):
    with pytest.raises(RequestError, match=f"container 'main': {PERCENT}: expected a "):
        admit(container(limits={GPU: 1, PERCENT: percent}), Settings())


def test_priority_is_handed_to_the_container_even_without_a_device():
    assert admit(container(limits={PRIORITY: 0}), Settings()) == Admission(env={"CUDA_TASK_PRIORITY": "0"})


@pytest.mark.parametrize(
    ("policy", "env"), [("force", {"GPU_CORE_UTILIZATION_POLICY": "force"}), ("default", {}), ("", {})]
)
def test_core_policy_is_handed_to_containers_that_get_a_device(policy, env):
    settings = Settings(gpuCorePolicy=policy)
    assert admit(container(limits={GPU: 1, MEMORY: 10}), settings) == Admission(env=env)
    assert admit(container(), settings) == UNCHANGED


def test_renamed_resources_are_the_ones_that_count():
    settings = Settings(resourceCountName="acme.com/gpu")
    assert admit(container(limits={"acme.com/gpu": 1}), settings) == EXCLUSIVE
    assert admit(container(limits={GPU: 1}), settings) == UNCHANGED


def test_author_may_set_the_priority_but_no_limit_and_no_device():
    reserved = plugin.hami_backend().reserved_env
    assert "CUDA_TASK_PRIORITY" not in reserved
    assert {
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_DEVICE_MEMORY_LIMIT",
        "CUDA_DEVICE_MEMORY_LIMIT_0",
        "CUDA_DEVICE_SM_LIMIT",
        "CUDA_DISABLE_CONTROL",
        "GPU_CORE_UTILIZATION_POLICY",
    } <= set(reserved)
