"""The monitor's reader on regions that the limiter writes."""

import subprocess
import time

import pytest

from .conftest import compile_c

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


def test_semaphores_of_the_old_layout_are_the_c_library_s(pair, tmp_path):
    """v2.10's library takes them in whatever process it meets our file: each must be what sem_init would have left."""
    source = tmp_path / "semaphore.c"
    source.write_text(
        "#include <semaphore.h>\n#include <stdio.h>\n#include <string.h>\n"
        "int main(void) { sem_t s; memset(&s, 0, sizeof s); sem_init(&s, 1, 1); return fwrite(&s, sizeof s, 1, stdout) != 1; }"
    )
    fresh = subprocess.run([compile_c([source], tmp_path / "semaphore")], capture_output=True, check=True).stdout
    assert len(fresh) == 32
    pair.run()
    written = pair.region.read_bytes()
    assert (written[24:56], written[2008920:2008952]) == (fresh, fresh)
