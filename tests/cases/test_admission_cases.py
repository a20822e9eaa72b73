"""What users reported about admission: cases T01 to T06, with their values."""

import pytest

from hami_core_py.decisions.admission import Rules
from hami_core_py.models.families import MemoryRule
from hami_core_py.testing.builders import COUNT as NPU
from hami_core_py.testing.builders import MEMORY as NPU_MEMORY
from hami_core_py.testing.builders import family
from hami_core_py.testing.plugins import make_plugin
from tests.cases.scene import CORES, GPU, MEMORY, PERCENT, ask_of, container, created, limits, pod


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (pod(container("log", privileged=True), container("train", gpu=2)), "log"),
        (pod(container("train", gpu=1), init=[container("prep", privileged=True)]), "prep"),
    ],
    ids=["a", "b"],
)
def test_t01_privileged_neighbour_of_a_card_is_refused_by_name(asked, named):
    verdict = created(asked)
    assert (verdict.allowed, verdict.patch) == (False, ())
    assert named in verdict.message


def test_t01_privileged_pod_without_a_card_keeps_its_scheduler():
    verdict = created(pod(container("log", privileged=True), schedulerName="default-scheduler"))
    assert (verdict.allowed, verdict.patch) == (True, ())


@pytest.mark.parametrize(
    ("overwrite", "given", "ends_as"),
    [
        (True, None, "vgpu-sched"),
        (True, "default-scheduler", "vgpu-sched"),
        (True, "volcano", None),
        (True, "vgpu-sched", "vgpu-sched"),
        (False, None, "vgpu-sched"),
        (False, "default-scheduler", None),
        (False, "volcano", None),
        (False, "vgpu-sched", "vgpu-sched"),
    ],
)
def test_t02_scheduler_names(overwrite, given, ends_as):
    rules = Rules(scheduler_name="vgpu-sched", force_overwrite_default_scheduler=overwrite)
    verdict = created(pod(container(gpu=1), **({"schedulerName": given} if given else {})), rules=rules)
    assert verdict.allowed
    if ends_as is None:
        assert verdict.patch == ()
        assert "not managed by HAMi" in verdict.warnings[0]
    else:
        assert verdict.pod["spec"]["schedulerName"] == ends_as
        assert limits(verdict)[CORES] == "100"


def test_t03_node_name_is_refused_with_advice_where_a_card_is_asked():
    verdict = created(pod(container(gpu=1), nodeName="n7"))
    assert not verdict.allowed
    assert "spec.nodeSelector" in verdict.message
    daemon = created(pod(container(), nodeName="n7"))
    assert (daemon.allowed, daemon.patch) == (True, ())


@pytest.mark.parametrize(
    ("asked", "cores"),
    [
        ({"gpu": 1}, "100"),
        ({"gpu": 1, "mem": 9000}, None),
        ({"gpu": 1, "percent": 100}, "100"),
        ({"gpu": 1, "percent": 60}, None),
        ({"gpu": 1, "cores": 35}, "35"),
        ({"mem": 4000}, None),
    ],
)
def test_t04_whole_cards_are_exclusive_by_default(asked, cores):
    found = limits(created(pod(container(**asked))))
    assert found.get(CORES) == cores
    assert found[GPU] == "1"


@pytest.mark.parametrize("memory", ["12Gi", "1500m", "-200", "3000000000"])
def test_t05_memory_that_is_no_number_of_mib_is_refused(memory):
    verdict = created(pod(container(gpu=1, mem=memory)))
    assert not verdict.allowed
    assert MEMORY in verdict.message
    assert memory in verdict.message


def test_t05_gibibytes_are_answered_with_the_number_to_write():
    assert "write 12288" in created(pod(container(gpu=1, mem="12Gi"))).message


@pytest.mark.parametrize(("memory", "cores"), [("6k", None), ("0", "100")])
def test_t05_thousands_are_a_number_and_zero_asks_for_the_whole_card(memory, cores):
    verdict = created(pod(container(gpu=1, mem=memory)))
    assert verdict.allowed
    assert limits(verdict)[MEMORY] == memory


@pytest.mark.parametrize(("percent", "allowed"), [("0", 1), ("1", 1), ("100", 1), ("101", 0), ("140", 0), ("-5", 0)])
def test_t05_percentages_beyond_a_whole_card_or_below_nothing_are_refused(percent, allowed):
    verdict = created(pod(container(gpu=1, percent=percent)))
    assert verdict.allowed == bool(allowed)
    assert allowed or PERCENT in verdict.message


@pytest.mark.parametrize(("units", "allowed"), [(8388607, True), (8388608, False)])
def test_t05_units_of_256_mib_must_stay_a_number_of_mib(units, allowed):
    ask = ask_of(make_plugin("acme", [family(memory=MemoryRule(unit_mib=256))]))
    asked = pod({"name": "main", "resources": {"limits": {NPU: "1", NPU_MEMORY: str(units)}}})
    assert created(asked, ask=ask).allowed == allowed


FORGED = {"hami.io/vgpu-devices-allocated": "g9,NVIDIA,10,0:;", "hami.io/vgpu-node": "n2"}


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "volcano"])
def test_t06_forged_record_is_refused_and_named(scheduler):
    verdict = created(pod(container(), annotations=FORGED, schedulerName=scheduler))
    assert not verdict.allowed
    assert "hami.io/vgpu-devices-allocated" in verdict.message
    assert "hami.io/vgpu-node" in verdict.message


def test_t06_policy_is_no_bookkeeping():
    assert created(pod(container(gpu=1), annotations={"hami.io/gpu-scheduler-policy": "binpack"})).allowed
