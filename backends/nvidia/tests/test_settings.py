"""The section ``nvidia`` reads every key of v2.10, and refuses what cannot be meant."""

import pytest
from hami_backend_nvidia.families import nvidia
from hami_backend_nvidia.settings import ALLOWED_PROFILES, Settings
from pydantic import ValidationError

from hami_core_py.models.families import AdmissionRule
from hami_core_py.models.requests import WHOLE_DEVICE, CoreUnits, MemoryMib

V210 = {
    "resourceCountName": "nvidia.com/gpu",
    "resourceMemoryName": "nvidia.com/gpumem",
    "resourceMemoryPercentageName": "nvidia.com/gpumem-percentage",
    "resourceCoreName": "nvidia.com/gpucores",
    "resourcePriorityName": "nvidia.com/priority",
    "overwriteEnv": False,
    "defaultMemory": 0,
    "defaultCores": 0,
    "defaultGPUNum": 1,
    "memoryFactor": 1,
    "deviceSplitCount": 10,
    "deviceMemoryScaling": 1,
    "deviceCoreScaling": 1,
    "enableNumaTopology": False,
    "gpuCorePolicy": "default",
    "libCudaLogLevel": 1,
    "runtimeClassName": "",
    "preConfiguredDeviceMemory": 0,
    "disableCoreLimit": False,
    "migProfileAllowlist": [{"models": ["A30"], "profiles": ["1g.6gb", "2g.12gb", "4g.24gb"]}],
}


def test_a_configuration_of_v210_reads_as_the_defaults():
    assert Settings.model_validate(V210) == Settings(mig_profile_allowlist=ALLOWED_PROFILES[:1])


@pytest.mark.parametrize(
    "entry",
    [
        {"models": [], "profiles": ["1g.5gb"]},
        {"models": ["A100"], "profiles": []},
        {"models": ["A100"], "profiles": ["1g"]},
        {"models": ["A100"], "profiles": ["g.5gb"]},
        {"models": ["A100"], "profiles": ["1c.5gb"]},
        {"models": ["A100"], "profiles": ["1g.5gb"], "more": 1},
    ],
)
def test_malformed_profile_allow_list_is_refused(entry):
    with pytest.raises(ValidationError):
        Settings(migProfileAllowlist=[entry])


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpuCorePolicy": "sometimes"},
        {"deviceSplitCount": 0},
        {"deviceMemoryScaling": 0},
        {"defaultMemory": -1},
        {"resourceCountName": ""},
        {"resourceMemoryName": "nvidia.com/gpu"},
        {"healthChecksDisabled": "some"},
    ],
)
def test_value_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)


def test_family_without_settings():
    family = nvidia(Settings())
    assert (family.memory.unit_mib, family.memory.default, family.core.default) == (1, WHOLE_DEVICE, CoreUnits(0))
    assert family.admission == AdmissionRule(default_count=1)
    assert not family.tells_numa


def test_settings_shape_the_family():
    family = nvidia(
        Settings(
            resourceMemoryName="",
            memoryFactor=2,
            defaultMemory=512,
            defaultCores=25,
            defaultGPUNum=0,
            runtimeClassName="nvidia",
            overwriteEnv=True,
            enableNumaTopology=True,
        )
    )
    assert family.tells_numa
    assert family.resources.memory is None
    assert (family.memory.unit_mib, family.memory.default) == (2, MemoryMib(512))
    assert family.core.default == CoreUnits(25)
    assert family.admission == AdmissionRule(runtime_class="nvidia", close_always=True)
