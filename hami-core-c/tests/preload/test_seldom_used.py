"""Entry points that few programs call and that hold memory all the same: code of libraries, contexts of part of a device."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import CONTEXT_MIB, HERE, Container

OUT_OF_MEMORY = 2
LIBRARY = """
def library(mib):
    text = f'//sim kernel k fixed_ns=1 wave_ns=1 blocks_per_sm=1 local=0\\n//sim global big {mib * 2**20 - 4096}\\n'.encode()
    return d.out('cuLibraryLoadData', text, None, None, 0, None, None, 0)
def use(name, *arguments): return d.code(name, c.byref(c.c_void_p()), *arguments)
def take(mib): return d.code('cuMemAlloc_v2', c.byref(c.c_uint64()), c.c_size_t(mib * 2**20))
def used():
    free, total = d.memory()
    return (total - free) // 2**20
"""


@pytest.fixture
def ask(tenant: Container) -> Callable[[str], Any]:
    """Run a program of the simulator's own test client in the container. :returns: what it prints, read as JSON."""

    def go(program: str) -> Any:
        folders = {
            "PYTHONPATH": str(HERE.parent / "simulator"),
            "HAMI_SIM_LIBRARIES": str(tenant.tools / "sim"),
        }
        done = subprocess.run(
            [sys.executable, "-c", "import json\nfrom client import *\nd = Driver()\n" + LIBRARY + program],
            env=tenant.environment(**folders),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return go


def test_code_of_libraries_is_charged_when_a_context_first_uses_it(
    ask: Callable[[str], Any], judged: Callable[[], None]
) -> None:
    told = ask("""
d.start()
one, two = library(300), library(200)
loaded = used()
first = use('cuLibraryGetModule', one), use('cuLibraryGetKernel', one, b'k'), use('cuLibraryGetModule', one)
with_one = used()
d.code('cuLibraryGetGlobal', c.byref(c.c_uint64()), c.byref(c.c_size_t()), two, b'big')
with_two, refused = used(), take(600)
d.cuLibraryUnload(one)
print(json.dumps([loaded, first, with_one, with_two, refused, used(), take(600)]))
""")
    own = CONTEXT_MIB
    assert told == [own, [0, 0, 0], own + 300, own + 500, OUT_OF_MEMORY, own + 200, 0]
    judged()


def test_code_that_does_not_fit_is_owed_until_it_does(ask: Callable[[str], Any]) -> None:
    told = ask("""
d.start()
large, other, block = library(500), library(100), d.alloc(600 * 2**20)
refused = use('cuLibraryGetModule', large), use('cuLibraryGetKernel', other, b'k'), take(2), d.memory()[0]
d.free(block)
paid = use('cuLibraryGetKernel', other, b'k'), used(), take(500)
d.cuLibraryUnload(large)
print(json.dumps([refused, paid, used(), take(500)]))
""")
    own = CONTEXT_MIB
    no = OUT_OF_MEMORY
    assert told == [[no, no, no, 0], [0, own + 600, no], own + 100, 0]


def test_a_library_that_never_fits_costs_nothing_once_it_is_unloaded(ask: Callable[[str], Any]) -> None:
    told = ask("""
d.start()
large = library(2000)
refused = use('cuLibraryGetModule', large), take(2)
d.cuLibraryUnload(large)
print(json.dumps([refused, used(), take(1000)]))
""")
    assert told == [[OUT_OF_MEMORY, OUT_OF_MEMORY], CONTEXT_MIB, 0]


def test_contexts_of_part_of_a_device_cost_the_primary_one_once_while_there_is_one(
    ask: Callable[[str], Any], judged: Callable[[], None]
) -> None:
    told = ask("""
d.cuInit(0)
resource = (c.c_char * 512)()
d.cuDeviceGetDevResource(0, resource, 1)
part = lambda: d.out('cuGreenCtxCreate', d.out('cuDevResourceGenerateDesc', resource, 1), 0, 1)
parts = [part() for _ in range(3)]
d.cuCtxSetCurrent(d.out('cuCtxFromGreenCtx', parts[0]))
three, refused, fits = used(), take(1002), take(1000)
for one in parts: d.cuGreenCtxDestroy(one)
own = d.out('cuCtxCreate_v2', 0, 0)
print(json.dumps([three, refused, fits, used()]))
""")
    assert told == [CONTEXT_MIB, OUT_OF_MEMORY, 0, CONTEXT_MIB]
    judged()
