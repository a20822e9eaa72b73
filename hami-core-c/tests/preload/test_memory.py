"""Memory: what is granted, what is refused, and that nothing is lost or gained whoever dies when."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import CONTEXT_MIB, MIB, Container, Node

OUT_OF_MEMORY, INVALID = 2, 1
LOOKUPS = ("direct", "dlsym", "gpa", "ptsz", "gpa-ptsz")


@pytest.mark.parametrize("how", LOOKUPS)
def test_what_fits_is_granted_and_one_more_is_refused(tenant: Container, judged: Callable[[], None], how: str) -> None:
    program = tenant.run(how)
    assert program.ask("info")[1:] == (1000 * MIB, (1000 + CONTEXT_MIB) * MIB)
    assert program("alloc 0 600") == 0
    assert program("alloc 1 500") == OUT_OF_MEMORY
    assert program("alloc 1 400") == 0
    assert program("alloc 2 1b") == OUT_OF_MEMORY
    assert program("free 0") == 0
    assert program.used() == CONTEXT_MIB + 400
    judged()


@pytest.mark.parametrize("how", LOOKUPS)
@pytest.mark.parametrize(
    ("take", "give", "mib"),
    [
        ("managed 0 300", "free 0", 300),
        ("pitch 0 1000b 300000", "free 0", 294),
        ("async 0 300", "freeasync 0", 300),
        ("create 0 300 0", "release 0", 300),
        ("array 0 8192 9600", "endarray 0", 300),
        ("array3d 0 256 300", "endarray 0", 300),
        ("mipmap 0 4096 1", "endmipmap 0", 256),
    ],
)
def test_every_family_is_charged_and_given_back(
    tenant: Container, judged: Callable[[], None], how: str, take: str, give: str, mib: int
) -> None:
    program = tenant.run(how)
    assert program(take) == 0
    assert program.used() == pytest.approx(CONTEXT_MIB + mib, abs=8)
    assert program("alloc 1 800") == OUT_OF_MEMORY
    assert program(give) == 0
    program("sync")
    assert program.used() == CONTEXT_MIB
    assert program("alloc 1 1000") == 0
    assert program(take) == OUT_OF_MEMORY
    judged()


def test_the_ledger_of_user_reports(tenant: Container, node: Node, judged: Callable[[], None]) -> None:
    """Case T37."""
    program = tenant.run()
    used = lambda: program.used() - CONTEXT_MIB  # noqa: E731
    assert program("alloc 0 600") == 0
    assert program("alloc 1 500") == OUT_OF_MEMORY
    assert program("freeat 12345") == INVALID
    assert used() == 600
    assert program("async 1 300") == 0
    assert used() == 900
    assert program("free 1") == 0
    program("sync")
    assert used() == 600
    assert program("free 1") != 0
    assert used() == 600
    assert program("threshold 0 4096") == 0
    assert program("async 1 300") == 0
    assert program("freeasync 1") == 0
    program("sync")
    assert used() == 900
    assert program("alloc 2 300") == 0
    assert used() == 900
    assert program("free 2") == 0
    assert program("threshold 0 0") == 0
    node.sim("fault", "cuMemPoolGetAttribute", "999", "times=1")
    assert program("async 1 100") == 999
    program("sync")
    assert used() == 600
    judged()


def test_two_processes_ask_for_the_rest_and_one_wins(pair: Container, judged: Callable[[], None]) -> None:
    one, two = pair.run(), pair.run()
    free = one.ask("info")[1] // MIB
    one.send(f"alloc 0 {free // 2 + 2}")
    two.send(f"alloc 0 {free // 2 + 2}")
    assert sorted([one.answer()[0], two.answer()[0]]) == [0, OUT_OF_MEMORY]
    judged()


def test_what_a_killed_process_held_is_there_before_the_next_refusal(
    pair: Container, judged: Callable[[], None]
) -> None:
    one, two = pair.run(), pair.run()
    assert one("alloc 0 500") == 0
    assert two("alloc 0 600") == OUT_OF_MEMORY
    one.process.kill()
    os.waitid(os.P_PID, one.process.pid, os.WEXITED | os.WNOWAIT)  # a zombie that nobody reaps
    assert two("alloc 0 1000") == 0
    judged()


def test_what_a_killed_process_held_is_told_to_be_free(pair: Container) -> None:
    """Programs plan by it: a worker that starts anew after a crash takes what it is told."""
    one, two = pair.run(), pair.run()
    free = one.ask("info")[1]
    assert two("alloc 0 600") == 0
    assert one.ask("info")[1] == free - 600 * MIB
    two.kill()
    end = time.monotonic() + 20
    while one.ask("info")[1] != free + CONTEXT_MIB * MIB:
        assert time.monotonic() < end, "nobody was asked"
        time.sleep(0.02)


def test_refusals_are_told_once(tenant: Container) -> None:
    told = {}
    for level in ("0", "1", "3"):
        program = subprocess.run(
            [str(tenant.tools / "client")],
            env=tenant.environment(HAMI_CLIENT_LOOKUP="dlsym", LIBCUDA_LOG_LEVEL=level),
            input="init\ncontext 0\n" + "alloc 0 2000\n" * 5,
            capture_output=True,
            text=True,
            check=True,
        )
        assert [int(line.split()[0]) for line in program.stdout.splitlines()] == [0, 0, *[OUT_OF_MEMORY] * 5]
        told[level] = program.stderr.count(" OOM ")
    assert told == {"0": 0, "1": 1, "3": 5}


def test_free_tells_what_an_allocation_can_have(tenant: Container) -> None:
    program = tenant.run()
    for size in ("100", "1b", "3k", "1048577b", "77"):
        assert program(f"alloc 0 {size}") == 0
        free = program.ask("info")[1]
        assert program(f"alloc 1 {free}b") == 0
        assert program("free 1") == 0


def test_many_small_blocks_cannot_add_up_to_more(pair: Container, judged: Callable[[], None]) -> None:
    one, two = pair.run(), pair.run()
    code, first, _ = one.ask("grab 300k")
    assert code == OUT_OF_MEMORY
    assert first * 300 // 1024 < 1000
    assert two("alloc 0 4k") == OUT_OF_MEMORY
    judged()


def test_memory_is_charged_to_the_card_of_the_current_context(tenant: Container, judged: Callable[[], None]) -> None:
    program = tenant.run()
    assert program("context 1") == 0
    assert program("alloc 0 200") == 0
    assert program("push 0") == 0
    assert program.used() == CONTEXT_MIB
    assert program("alloc 1 100") == 0
    assert program("newcontext 2 1") == 0
    assert program.used() == 2 * CONTEXT_MIB + 200
    assert program("endcontext 2") == 0
    assert program.used() == CONTEXT_MIB + 100
    assert program("alloc 2 950") == OUT_OF_MEMORY
    assert program("pop") == 0
    assert program.used() == CONTEXT_MIB + 200
    judged()


def test_contexts_are_paid_before_they_exist(tenant: Container, judged: Callable[[], None]) -> None:
    one = tenant.run()
    assert one("alloc 0 800") == 0
    other = tenant.spawn()
    assert other("init") == 0
    assert other("context 0") == OUT_OF_MEMORY
    assert one("free 0") == 0
    assert other("context 0") == 0
    assert one.used() == 2 * CONTEXT_MIB
    assert other("newcontext 1 0") == 0
    assert one.used() == 3 * CONTEXT_MIB
    assert other("alloc 5 100") == 0
    assert other("endcontext 1") == 0
    assert one.used() == 2 * CONTEXT_MIB
    assert other("leave 0") == 0
    assert one.used() == CONTEXT_MIB
    judged()


def test_heap_and_stack_are_paid(tenant: Container, judged: Callable[[], None]) -> None:
    program = tenant.run()
    assert program("limit 2 900") == 0
    assert program("alloc 0 200") == OUT_OF_MEMORY
    assert program("limit 2 1200") == OUT_OF_MEMORY
    assert program("limit 0 64k") == OUT_OF_MEMORY
    judged()


def test_virtual_memory_lives_as_long_as_handle_or_mapping(tenant: Container, judged: Callable[[], None]) -> None:
    program = tenant.run()
    assert program("create 0 300 0") == 0
    assert program("map 1 300 0") == 0
    assert program("release 0") == 0
    assert program.used() == CONTEXT_MIB + 300
    assert program("unmap 1") == 0
    assert program.used() == CONTEXT_MIB
    assert program("create 0 300 1") == 0  # of the other card
    assert program.used() == CONTEXT_MIB
    judged()


def test_pools_of_ones_own_are_charged_for_what_they_keep(tenant: Container, judged: Callable[[], None]) -> None:
    program = tenant.run()
    assert program("pool 0 0") == 0
    assert program("frompool 0 300 0") == 0
    assert program.used() == CONTEXT_MIB + 300
    assert program("frompool 1 800 0") == OUT_OF_MEMORY
    assert program("freeasync 0") == 0
    program("sync")
    assert program("endpool 0") == 0
    assert program.used() == CONTEXT_MIB
    judged()


def test_a_refused_request_of_a_pool_leaves_the_books_as_they_were(pair: Container, judged: Callable[[], None]) -> None:
    one, two = pair.run(), pair.run()
    assert two("alloc 0 500") == 0
    assert one("alloc 0 500") == 0
    for key in range(20):
        assert one(f"async {key + 1} 1b") == OUT_OF_MEMORY
    assert one.used() == 2 * CONTEXT_MIB + 1000
    assert one("async 1 100") == OUT_OF_MEMORY
    assert two("alloc 1 10") == OUT_OF_MEMORY
    judged()


@pytest.mark.parametrize("how", ["fork", "rawclone"])
def test_a_child_has_a_slot_of_its_own(pair: Container, judged: Callable[[], None], how: str) -> None:
    parent = pair.spawn()
    assert parent(how) == 0  # from here on the child answers
    parent.start()
    assert parent("alloc 0 600") == 0
    other = pair.run()
    assert other("alloc 0 500") == OUT_OF_MEMORY
    parent.send("stop")
    assert parent.answer()[1] == 0  # the parent: its child ended well
    assert other("alloc 0 1000") == 0
    judged()


def test_a_child_of_an_initialised_process_is_not_charged_for_its_parent(
    tenant: Container, judged: Callable[[], None]
) -> None:
    program = tenant.run()
    assert program("alloc 0 600") == 0
    assert program("rawclone") == 0
    assert program("alloc 1 10") != 0  # the driver does not work in such a child
    program.send("vanish")
    assert program.answer()[1] == 0
    assert program.used() == CONTEXT_MIB + 600
    judged()


def test_a_program_may_close_every_descriptor(pair: Container, judged: Callable[[], None]) -> None:
    one, two = pair.run(), pair.run()
    assert one("closeall") == 0
    assert one("alloc 0 500") == 0
    assert two("alloc 0 600") == OUT_OF_MEMORY
    one.kill()
    assert two("alloc 0 1000") == 0
    judged()


def test_threads_share_their_process_ledger(tenant: Container, judged: Callable[[], None]) -> None:
    program = tenant.run()
    assert program("churn 8") == 0
    assert program.used() == CONTEXT_MIB
    judged()


def test_many_processes_that_die_at_any_time_never_go_over(
    make_node: Callable[..., Node], make_container: Callable[..., Container]
) -> None:
    node = make_node("1xA100-40G")
    tenant = make_container(node)
    limit = 9 * CONTEXT_MIB + 300
    tenant.limits(f"{node.uuids()[0]} memory={limit * MIB} context={CONTEXT_MIB * MIB}")
    node.sim("limit", tenant.name, "0", f"memory_mib={limit}", "slack_mib=16")
    programs = [tenant.spawn() for _ in range(8)]
    for program in programs:
        program.start()
        program.send("grind 30 20")
    deadline = time.monotonic() + 2
    for program in programs[:7]:
        time.sleep(max(0.0, (deadline - time.monotonic()) / 8))
        program.kill()
    programs[7].process.send_signal(signal.SIGKILL)
    programs[7].process.wait()
    last = tenant.run()
    assert last.used() in (CONTEXT_MIB, *range(CONTEXT_MIB, limit + 1))
    assert last(f"alloc 0 {limit - CONTEXT_MIB}") == 0
    assert last.used() == limit
    assert 'violations": 0' in node.sim("judge", check=False)


def test_memory_handed_over_stays_charged_when_its_creator_ends(
    pair: Container, tmp_path: Path, judged: Callable[[], None]
) -> None:
    creator, importer = pair.run(), pair.run()
    assert importer.used() == 2 * CONTEXT_MIB
    assert creator("create 0 300 0") == 0
    importer.send(f"import 0 {tmp_path / 'socket'}")
    assert importer.line() == "listening"
    assert creator(f"export 0 {tmp_path / 'socket'}") == 0
    assert importer.answer()[0] == 0
    assert importer("map 1 300 0") == 0
    creator.kill()
    assert importer("alloc 2 1120") == OUT_OF_MEMORY
    assert importer.used() == CONTEXT_MIB + 300
    assert importer("unmap 1") == 0
    assert importer("release 0") == 0
    assert importer("alloc 2 1000") == 0
    judged()


def test_a_loop_of_exports_gets_no_more_than_the_limit(
    tenant: Container, tmp_path: Path, judged: Callable[[], None]
) -> None:
    keepers = []
    for i in range(5):
        creator = tenant.run()
        size = 300
        if creator(f"create 0 {size} 0") != 0:
            creator.kill()
            break
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / f"keep{i}"))
        listener.listen(1)
        assert creator(f"export 0 {tmp_path / f'keep{i}'}") == 0
        peer, _ = listener.accept()
        keepers.append(socket.recv_fds(peer, 1, 1)[1][0])  # a descriptor without any GPU program
        creator.kill()
        peer.close()
        listener.close()
    assert len(keepers) == 3
    judged()
    for fd in keepers:
        os.close(fd)
    last = tenant.run()
    assert last("alloc 0 900") == 0
    judged()


def test_addresses_handed_over_stay_charged_when_their_creator_ends(
    pair: Container, tmp_path: Path, judged: Callable[[], None]
) -> None:
    creator, importer = pair.run(), pair.run()
    assert creator("alloc 0 300") == 0
    assert creator(f"ipcget 0 {tmp_path / 'handle'}") == 0
    assert importer(f"ipcopen 0 {tmp_path / 'handle'}") == 0
    assert importer.used() == 2 * CONTEXT_MIB + 300
    creator.kill()
    assert importer("alloc 2 1120") == OUT_OF_MEMORY
    assert importer("ipcclose 0") == 0
    assert importer("alloc 2 1000") == 0
    judged()


def test_export_can_be_forbidden(node: Node, make_container: Callable[..., Container], tmp_path: Path) -> None:
    tenant = make_container(node)
    tenant.limits(f"{node.uuids()[0]} memory={2000 * MIB}", export=0)
    program = tenant.run()
    assert program("create 0 10 0") == 0
    assert program(f"export 0 {tmp_path / 'nobody'}") == 800
    assert program("alloc 1 10") == 0
    assert program(f"ipcget 1 {tmp_path / 'handle'}") == 800


def test_devices_are_told_apart_by_identity(
    make_node: Callable[..., Node], make_container: Callable[..., Container]
) -> None:
    node = make_node("3xT4")
    uuids = node.uuids()
    tenant = make_container(node)
    tenant.limits(*(f"{uuid} memory={(i + 1) * 1000 * MIB}" for i, uuid in enumerate(uuids)))
    for visible, totals in (("2,0", [3000, 1000]), (uuids[1], [2000]), ("1,2,0", [2000, 3000, 1000])):
        program = tenant.spawn(CUDA_VISIBLE_DEVICES=visible)
        assert program("init") == 0
        assert [program.ask(f"total {i}")[1] // MIB for i in range(len(totals))] == totals


def test_management_library_shows_the_share(tenant: Container, node: Node) -> None:
    program = tenant.run()
    assert program("alloc 0 300") == 0
    code = (
        "import pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0); a = n.nvmlDeviceGetMemoryInfo(h);"
        "b = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2); print(a.total, a.used, a.free, b.total, b.used, b.free)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=tenant.environment(), capture_output=True, text=True, check=True
    )
    total, used = (1000 + CONTEXT_MIB) * MIB, (300 + CONTEXT_MIB) * MIB
    assert [int(n) for n in done.stdout.split()] == [total, used, total - used] * 2


@pytest.mark.parametrize("card", ["A100-40G", "A100-80G", "H100", "H200", "L40S", "T4", "B200"])
def test_contexts_of_unknown_cost_never_pass_the_limit(
    make_node: Callable[..., Node], make_container: Callable[..., Container], judged: Callable[[], None], card: str
) -> None:
    node = make_node(f"1x{card}")
    tenant = make_container(node)
    tenant.limits(f"{node.uuids()[0]} memory={1600 * MIB}")
    node.sim("limit", tenant.name, "0", "memory_mib=1600", "slack_mib=8")
    programs = [tenant.spawn() for _ in range(4)]
    for program in programs:
        assert program("init") == 0
    for program in programs:
        program.send("context 0")
    living = [program for program in programs if program.answer()[0] == 0]
    assert len(living) >= 2
    for program in living:
        program.send("grab 32")
    for program in living:
        assert program.answer()[0] == OUT_OF_MEMORY
    held = json.loads(node.sim("judge", check=False))
    assert max(device["peak_bytes"] for one in held for device in one["devices"]) > 1500 * MIB
    judged()


def test_a_context_larger_than_the_limit_is_refused_and_gone(
    node: Node, make_container: Callable[..., Container]
) -> None:
    tenant = make_container(node)
    tenant.limits(f"{node.uuids()[0]} memory={200 * MIB}")
    program = tenant.spawn()
    assert program("init") == 0
    for _ in range(2):
        assert program("context 0") == OUT_OF_MEMORY
        assert program("newcontext 1 0") == OUT_OF_MEMORY
    shown = [c for c in json.loads(node.sim("show"))["containers"] if c["container"] == tenant.name]
    assert all(device["bytes"] == 0 for c in shown for device in c["devices"])


def test_what_a_context_costs_is_seen_where_nobody_told(node: Node, make_container: Callable[..., Container]) -> None:
    tenant = make_container(node)
    tenant.limits(f"{node.uuids()[0]} memory={2000 * MIB}")
    one = tenant.run()
    assert one.used() == CONTEXT_MIB
    assert one("alloc 0 1300") == 0
    other = tenant.spawn()
    assert other("init") == 0
    assert other("context 0") == OUT_OF_MEMORY  # reserved before it is made
    assert one("leave 0") == 0
    assert other("context 0") == 0
    assert other.used() == CONTEXT_MIB
