"""Entry points: every exported name, every version, every variant, every refusal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"

LOOK = """
d.library.cuInit(0)
names = {c.cast(getattr(d.library, n), c.c_void_p).value: n for n in NAMES}
def look(name, version, flags=0):
    at, told = c.c_void_p(), c.c_int(-1)
    code = d.library.cuGetProcAddress_v2(name.encode(), c.byref(at), version, c.c_uint64(flags), c.byref(told))
    return [code, names.get(at.value), told.value]
"""


def looking(names, body):
    return f"NAMES = {names!r}\n" + LOOK + body


@pytest.fixture(scope="module")
def surface(libraries):
    return json.loads((libraries / "surface.json").read_text())


def test_exactly_the_names_of_the_headers_are_exported(libraries, surface):
    for library, kind in (("libcuda.so.1", "cuda"), ("libnvidia-ml.so.1", "nvml")):
        shown = subprocess.run(
            ["nm", "-D", "--defined-only", libraries / library], check=True, capture_output=True, text=True
        ).stdout
        exported = {line.split()[-1] for line in shown.splitlines()}
        assert exported == {one["name"] for one in surface if one["library"] == kind}


def test_two_hundred_entry_points_of_the_driver_have_semantics(surface):
    assert len({one["base"] for one in surface if one["library"] == "cuda" and one["semantics"]}) >= 200


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (("cuMemAlloc", 13000), [0, "cuMemAlloc_v2", 0]),
        (("cuMemAlloc", 3010), [0, "cuMemAlloc", 0]),
        (("cuCtxCreate", 12000), [0, "cuCtxCreate_v3", 0]),
        (("cuCtxCreate", 13000), [0, "cuCtxCreate_v4", 0]),
        (("cuCtxGetDevice", 12090), [0, "cuCtxGetDevice", 0]),
        (("cuCtxGetDevice", 13000), [0, "cuCtxGetDevice_v2", 0]),
        (("cuLaunchKernel", 13000, 2), [0, "cuLaunchKernel_ptsz", 0]),
        (("cuLaunchKernel", 13000, 1), [0, "cuLaunchKernel", 0]),
        (("cuMemAlloc", 13000, 2), [0, "cuMemAlloc_v2", 0]),
        (("cuMemcpyHtoD", 13000, 2), [0, "cuMemcpyHtoD_v2_ptds", 0]),
        (("cuGraphInstantiate", 12000), [0, "cuGraphInstantiateWithFlags", 0]),
        (("cuMemAllocAsync", 11010), [0, None, 2]),
        (("cuNothing", 13000), [0, None, 1]),
        (("", 13000), [0, None, 1]),
        (("cuMemAlloc", 13010), [1, None, -1]),
    ],
)
def test_a_look_up_is_answered_by_version_and_flags(node, request_, answer):
    names = [
        "cuMemAlloc",
        "cuMemAlloc_v2",
        "cuCtxCreate_v3",
        "cuCtxCreate_v4",
        "cuCtxGetDevice",
        "cuCtxGetDevice_v2",
        "cuLaunchKernel",
    ]
    names += ["cuLaunchKernel_ptsz", "cuMemcpyHtoD_v2_ptds", "cuGraphInstantiateWithFlags"]
    assert node.ask(looking(names, f"print(json.dumps(look{request_!r}))")) == answer


def test_every_name_can_be_looked_up_at_its_own_version(bare, surface):
    bare.command("start", "T4", "driver=13050")
    wanted = [
        (one["base"], one["introduced"], 2 if one["per_thread_stream"] else 1, one["name"])
        for one in surface
        if one["library"] == "cuda"
    ]
    wanted = [one for one in wanted if one[1] <= 13050]
    body = f"wanted = {wanted!r}\nprint(json.dumps([w[3] for w in wanted if look(*w[:3])[1] != w[3]]))"
    names = [one["name"] for one in surface if one["library"] == "cuda"]
    assert bare.ask(looking(names, body)) in ([], ["cuGraphInstantiate"])


def test_an_older_driver_knows_fewer_names(bare):
    bare.command("start", "T4", "driver=12040", "lookup=old")
    assert bare.ask(
        looking(
            [],
            "print(json.dumps([look('cuCtxSynchronize', 13000)[0], look('cuCtxGetId', 12000)[0], look('cuNothing', 12000)[0]]))",
        )
    ) == [1, 0, 500]


def test_what_has_no_semantics_says_so(node, surface):
    refused = [one["name"] for one in surface if one["library"] == "cuda" and not one["semantics"]]
    body = f"d.start()\nnames = {refused!r}\nprint(json.dumps(sorted({{d.code(n, *[None] * 8) for n in names}})))"
    assert node.ask(body) == [801]


def test_nothing_answers_before_initialisation(node):
    assert node.ask("n = c.c_int(); print(d.code('cuDeviceGetCount', c.byref(n)))") == 3


def test_private_tables_are_not_had(node):
    assert node.ask("t = c.c_void_p(); u = (c.c_char * 16)(); print(d.code('cuGetExportTable', c.byref(t), u))") == 500


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A driver of 12.9 that lacks some names."""
    folder = tmp_path_factory.mktemp("old")
    words = [folder, "--api", "12.9.79", "--omit", "cuGetProcAddress_v2,cuMemAllocAsync,cuMemAllocAsync_ptsz"]
    subprocess.run([sys.executable, SIMULATOR / "build.py", *words], check=True)
    return folder


def test_a_driver_can_lack_names(bare, old):
    bare.command("start", "T4", "driver=12090")
    program = """
d.start()
names = ['cuMemAlloc_v2', 'cuMemAllocAsync', 'cuGetProcAddress_v2', 'cuMemcpyBatchAsync_v2', 'cuCtxGetDevice_v2']
at = c.c_void_p()
code = d.code('cuGetProcAddress', b'cuMemAllocAsync', c.byref(at), 12090, c.c_uint64(0))
print(json.dumps([[hasattr(d.library, n) for n in names], code]))
"""
    assert bare.ask(program, HAMI_SIM_LIBRARIES=str(old)) == [[True, False, False, False, False], 500]


def test_a_shim_tells_addresses_of_an_inner_library(node):
    program = """
d.start()
at = c.c_void_p()
d.cuGetProcAddress_v2(b'cuMemAlloc', c.byref(at), 13000, c.c_uint64(0), None)
inner = c.CFUNCTYPE(c.c_int, c.POINTER(c.c_uint64), c.c_size_t)(at.value)
p = c.c_uint64()
outer = c.cast(d.library.cuMemAlloc_v2, c.c_void_p)
print(json.dumps([inner(c.byref(p), 100), d.code('cuMemFree_v2', p), at.value != outer.value]))
"""
    assert node.ask(program, HAMI_SIM_LIBRARIES=str(node.libraries / "shim")) == [0, 0, True]
