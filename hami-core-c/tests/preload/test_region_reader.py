"""The monitor's reader on regions that the limiter writes."""

import time

import pytest

region = pytest.importorskip("hami_backend_nvidia.region")
MIB = 2**20


def test_reader_sees_what_live_processes_hold_and_forgets_who_was_killed(pair, node):
    first, second = pair.run(), pair.run()
    assert first("alloc 0 100") == 0
    assert second("alloc 0 50") == 0
    seen = region.read_region(pair.region)
    index = seen.uuids.index(node.uuids()[0])
    assert {slot.pid for slot in seen.slots} == {first.process.pid, second.process.pid}
    data = seen.use(index).data
    assert data >= 150 * MIB
    assert seen.use(index).total == first.used() * MIB
    second.kill()
    deadline = time.monotonic() + 20
    while len((seen := region.read_region(pair.region)).slots) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {slot.pid for slot in seen.slots} == {first.process.pid}
    assert seen.use(index).data == data - 50 * MIB
