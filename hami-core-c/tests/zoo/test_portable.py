"""The library on another processor, as far as this machine can show it: compiled and linked, and run where an emulator is.

Needs gcc-aarch64-linux-gnu, and qemu-user-static to run it; says what was left out where they are not here.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import MIB, said

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COMPILER = "aarch64-linux-gnu-gcc"
EMULATOR = next((name for name in ("qemu-aarch64-static", "qemu-aarch64") if shutil.which(name)), None)
SYSROOT = "/usr/aarch64-linux-gnu"
UUID = "GPU-11111111-1111-1111-1111-111111111111"

pytestmark = pytest.mark.skipif(not shutil.which(COMPILER), reason=f"there is no {COMPILER} here")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with library, a little driver and the zoo's program."""
    folder = tmp_path_factory.mktemp("aarch64")
    env = {**os.environ, "CC": COMPILER, "HAMI_LIMITER_ARCH": "aarch64"}
    subprocess.run([sys.executable, str(ROOT / "compile.py"), str(folder)], env=env, check=True, capture_output=True)
    shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-Wl,-Bsymbolic"]
    subprocess.run([COMPILER, *shared, str(HERE / "little_driver.c"), "-o", str(folder / "libcuda.so.1")], check=True)
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", f"-I{ROOT / 'src'}"]
    subprocess.run([COMPILER, *flags, str(HERE / "zoo.c"), "-o", str(folder / "zoo"), "-ldl", "-pthread"], check=True)
    limits = f"hami-limits 1\nregion={folder}/region.cache\ndevice={UUID} memory={1002 * MIB} context={2 * MIB}\n"
    (folder / "limits").write_text(limits)
    return folder


def test_it_needs_an_old_c_library_alone(machine: Path) -> None:
    library = str(machine / "libvgpu.so")
    read = subprocess.run(
        [f"{COMPILER[:-3]}readelf", "-dW", library], capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"NEEDED.*\[(.+)\]", read) == ["libc.so.6"]
    table = subprocess.run(
        [f"{COMPILER[:-3]}readelf", "--dyn-syms", "-W", library], capture_output=True, text=True, check=True
    ).stdout
    wanted = {tuple(map(int, v.split("."))) for v in re.findall(r"UND \w+@GLIBC_([\d.]+)", table)}
    assert max(wanted) <= (2, 17)
    exported = set(re.findall(r"\b(dlv?sym@@?GLIBC_[\d.]+)", table))
    assert exported == {f"{name}@{at}" for name in ("dlsym", "dlvsym") for at in ("GLIBC_2.17", "@GLIBC_2.34")}


@pytest.mark.skipif(EMULATOR is None, reason="no emulator of aarch64 is here: it was compiled and linked, and not run")
@pytest.mark.parametrize(("mib", "answer"), [("1000", 0), ("1001", 2)])
def test_it_holds_a_program_to_its_limit(machine: Path, mib: str, answer: int) -> None:
    settings = ["-E", f"LD_PRELOAD={machine}/libvgpu.so", "-E", f"LD_LIBRARY_PATH={machine}"]
    command = [EMULATOR or "", "-L", SYSROOT, *settings, str(machine / "zoo"), "take", mib]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, said(done.stdout)) == (0, {"took": answer}), done.stderr
    assert (machine / "region.cache").stat().st_size > 2008952
