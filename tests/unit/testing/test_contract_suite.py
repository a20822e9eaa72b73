"""Each check of the contract suite finds the backend that breaks its promise."""

import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
from collections.abc import Mapping, Sequence
from hami_core_py.hooks import BackendSettings, hookimpl
from hami_core_py.models.allocations import Allocation, Grant, PlacedPod
from hami_core_py.models.answers import Candidate, Reason, Refusal
from hami_core_py.models.backends import Admission, BackendInfo, DeviceRule
from hami_core_py.models.devices import Device
from hami_core_py.models.families import Family, Resources
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.samples import Sample
from hami_core_py.models.views import ContainerView, PlacementView, PodView

class Settings(BackendSettings):
    slots: int = 1

@hookimpl
def hami_backend() -> BackendInfo:
    return BackendInfo(name="acme", api=1, settings=Settings, annotations=("acme.example/index",),
                       closing_env={"ACME_VISIBLE": ""}, reserved_env=("ACME_VISIBLE",))

@hookimpl
def hami_families() -> Sequence[Family]:
    return (Family(name="Acme", resources=Resources(count="acme.example/npu", memory="acme.example/npu-memory")),)

@hookimpl
def hami_allocate(allocation: Allocation) -> Grant:
    return Grant(env={"ACME_VISIBLE": ",".join(device.id for device, _ in allocation.pairs)})
"""
SUITE = """
import pytest
import acme_plugin
from hami_core_py.testing.builders import devices as made
from hami_core_py.testing.contract import BackendContract, Capability

class TestContract(BackendContract):
    plugin = acme_plugin
    capabilities = {Capability.MEMORY_SHARES, Capability.GRANTS}
    one_device = {"acme.example/npu": "1", "acme.example/npu-memory": "1024"}
    driver_modules = ("acme_sdk",)

    @pytest.fixture
    def devices(self):
        return made(3)
"""

# What is added to or replaced in the good backend, and the check that must notice.
BREACHES = {
    "test_it_says_who_it_is": ("api=1", "api=2"),
    "test_its_hooks_are_annotated_as_the_specs_are": (
        "hami_allocate(allocation: Allocation)",
        "hami_allocate(allocation: str)",
    ),
    "test_importing_it_touches_no_driver": ("class Settings", "import acme_sdk\n\nclass Settings"),
    "test_variables_that_close_a_container_cannot_be_set_by_its_author": ('reserved_env=("ACME_VISIBLE",)', ""),
    "test_resources_have_a_domain_and_belong_to_one_family": ('count="acme.example/npu"', 'count="npu"'),
    "test_container_that_names_none_of_its_resources_asks_nothing": (
        "",
        """
@hookimpl
def hami_read_request(container: ContainerView, pod: PodView, family: Family) -> Sequence[DeviceRequest]:
    return (DeviceRequest(family="Acme", count=1),)
""",
    ),
    "test_bad_amount_is_refused_and_its_resource_named": (
        "",
        """
@hookimpl
def hami_read_request(container: ContainerView, pod: PodView, family: Family) -> Sequence[DeviceRequest]:
    return (DeviceRequest(family="Acme", count=1),) if "acme.example/npu" in container.limits else ()
""",
    ),
    "test_admitting_twice_equals_admitting_once": (
        "",
        """
@hookimpl
def hami_admit_container(container: ContainerView, pod: PodView) -> Admission:
    return Admission(env={"N": str(len(container.env))})
""",
    ),
    "test_rules_read_only_the_fields_they_declare": (
        "",
        """
@hookimpl
def hami_filter_rules(request: DeviceRequest) -> Sequence[DeviceRule]:
    return (DeviceRule(reason=Reason.BACKEND_RULE, sentence="odd", reads=("index",),
                       refuses=lambda c: c.index % 2 == 1 and c.used_slots > 0),)
""",
    ),
    "test_selection_is_so_many_distinct_seats_or_a_refusal": (
        "",
        """
@hookimpl
def hami_select_devices(request: DeviceRequest, candidates: Sequence[Candidate]) -> Sequence[int]:
    return (0,)
""",
    ),
    "test_score_is_between_0_and_1": (
        "",
        """
@hookimpl
def hami_score_placement(view: PlacementView) -> float:
    return 1.5
""",
    ),
    "test_record_has_only_announced_annotations": (
        "",
        """
@hookimpl
def hami_write_record(placed: PlacedPod) -> Mapping[str, str]:
    return {"acme.example/other": "0"}
""",
    ),
    "test_decisions_open_nothing": (
        "",
        """
@hookimpl
def hami_score_placement(view: PlacementView) -> float:
    open("/dev/null").close()
    return 0.5
""",
    ),
    "test_decisions_change_no_argument": (
        "",
        """
@hookimpl
def hami_admit_container(container: ContainerView) -> Admission:
    container.limits["x"] = "1"
    return Admission()
""",
    ),
    "test_decisions_agree_across_threads": (
        "",
        """
import itertools
counter = itertools.count()

@hookimpl
def hami_score_placement(view: PlacementView) -> float:
    return (next(counter) % 7) / 7
""",
    ),
    "test_without_hardware_it_discovers_nothing": (
        "",
        """
@hookimpl
def hami_discover_devices() -> Sequence[Device]:
    return (Device(id="npu-0", family="Acme"),)
""",
    ),
    "test_discovered_devices_are_of_its_own_families": (
        "",
        """
@hookimpl
def hami_discover_devices() -> Sequence[Device]:
    return (Device(id="npu-0", family="Other"),)
""",
    ),
    "test_same_allocation_gives_the_same_grant": (
        'return Grant(env={"ACME_VISIBLE": ',
        'import uuid; return Grant(env={"ACME_CACHE": str(uuid.uuid4()), "ACME_VISIBLE": ',
    ),
    "test_grant_overrides_what_closes_a_container": (
        'return Grant(env={"ACME_VISIBLE"',
        'return Grant(env={"ACME_SEEN"',
    ),
    "test_metrics_carry_units_and_vanish_with_their_pod": (
        "",
        """
seen = {}
@hookimpl
def hami_collect_metrics(allocations: Sequence[Allocation]) -> Sequence[Sample]:
    seen.update((a.pod, 1) for a in allocations)
    return tuple(Sample(name="acme_used_bytes", value=1, help="x", labels={"pod": pod}) for pod in seen)
""",
    ),
}


def install(site: Path, name: str, text: str, entry_point: str = "") -> None:
    """A distribution of its own for one plugin, and the suite its author wrote."""
    info = site / f"hami_backend_{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hami-backend-{name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[hami]\n{entry_point or name} = {name}_plugin\n")
    (site / f"{name}_plugin.py").write_text(text.replace('name="acme"', f'name="{name}"'))
    (site / f"test_{name}.py").write_text(SUITE.replace("acme_plugin", f"{name}_plugin"))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each plugin's suite, run as authors run it: ``test_<plugin>.py::<check>`` → ``PASSED``, ``FAILED`` or ``ERROR``."""
    site = tmp_path_factory.mktemp("site")
    (site / "acme_sdk.py").write_text("")
    (site / "pytest.ini").write_text("[pytest]\n")
    install(site, "good", GOOD)
    install(site, "misnamed", GOOD, entry_point="other")
    wanted = ["test_good.py", "test_misnamed.py::TestContract::test_its_name_is_its_entry_points"]
    for number, (check, (old, new)) in enumerate(BREACHES.items()):
        install(site, f"bad{number}", GOOD.replace(old, new, 1) if old else GOOD + new)
        wanted.append(f"test_bad{number}.py::TestContract::{check}")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *wanted],
        cwd=site,
        env={"PYTHONPATH": str(site), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [
        line.split(" ", 2) for line in result.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))
    ]
    assert lines, result.stdout + result.stderr
    return {line[1].replace("TestContract::", "").partition("[")[0]: line[0] for line in lines}


def test_good_backend_passes(outcomes: dict[str, str]) -> None:
    good = {node: outcome for node, outcome in outcomes.items() if node.startswith("test_good.py")}
    assert len(good) > 15
    assert set(good.values()) == {"PASSED"}


@pytest.mark.parametrize("check", BREACHES)
def test_breach_is_found_by_its_check(outcomes: dict[str, str], check: str) -> None:
    number = list(BREACHES).index(check)
    assert outcomes[f"test_bad{number}.py::{check}"] in ("FAILED", "ERROR")


def test_name_that_is_not_the_entry_points_is_found(outcomes: dict[str, str]) -> None:
    assert outcomes["test_misnamed.py::test_its_name_is_its_entry_points"] == "FAILED"
