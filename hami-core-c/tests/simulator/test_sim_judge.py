"""The judge of device time: a container that had more than its share in a window is told, with how much and when."""

import subprocess

import pytest

WORK = """
d.start()
f = d.function('spin_1ms')
for _ in range(MANY): d.launch(f)
d.cuCtxSynchronize()
"""


@pytest.fixture
def judged(bare):
    """A virtual clock, and a tenant that may have 30 % and 5 points of slack."""
    bare.command("start", "A100-40G", "clock=virtual")
    bare.command("limit", "tenant", "0", "cores=30", "cores_slack=5")
    return bare


def second_passes(node):
    now = node.command("clock")["clock_ns"]
    node.command("clock", f"+{(now // 10**9 + 1) * 10**9 - now}")


def judge(node):
    done = subprocess.run(
        [node.libraries / "hami-sim", "judge"], env=node.environment(), capture_output=True, text=True
    )
    return done.returncode, node.container("tenant")["devices"][0]


def test_more_than_the_share_and_the_slack_in_a_window_is_a_violation(judged):
    judged.run(WORK.replace("MANY", "500"), HAMI_SIM_CONTAINER="tenant")
    second_passes(judged)
    status, told = judge(judged)
    assert status == 1
    assert (told["windows_over"], told["worst_share"], told["first_share"]) == (1, 50.0, 50.0)
    assert 10**9 < told["first_share_at_ns"] <= 2 * 10**9


def test_a_share_within_the_slack_is_none(judged):
    judged.run(WORK.replace("MANY", "340"), HAMI_SIM_CONTAINER="tenant")
    second_passes(judged)
    status, told = judge(judged)
    assert (status, told["windows_over"], told["worst_share"]) == (0, 0, 34.0)


def test_what_others_had_does_not_count(judged):
    judged.run(WORK.replace("MANY", "800"), HAMI_SIM_CONTAINER="neighbour")
    second_passes(judged)
    assert judge(judged)[1]["worst_share"] == 0


def test_processes_of_one_container_are_judged_together_and_after_their_end(judged):
    for _ in range(2):
        judged.run(WORK.replace("MANY", "200"), HAMI_SIM_CONTAINER="tenant")
    second_passes(judged)
    assert judge(judged)[1]["worst_share"] == 40.0


def test_nobody_is_judged_without_a_stated_slack(bare):
    bare.command("start", "A100-40G", "clock=virtual")
    bare.command("limit", "tenant", "0", "cores=30")
    bare.run(WORK.replace("MANY", "900"), HAMI_SIM_CONTAINER="tenant")
    second_passes(bare)
    status, told = judge(bare)
    assert (status, "windows" in told) == (0, False)
