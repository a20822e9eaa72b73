"""Anything at all as limits file, environment or region: what reads it goes on, within its bounds, and in a bounded time.

Here the fuzzer's own small driver runs for a moment. ``HAMI_FUZZ_SECONDS`` makes it longer, and where clang is here, libFuzzer
runs the same targets for as long. An input that was a find belongs into ``found/TARGET-NAME``, and is run each time.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGETS = {
    "limits": ("limits", "options"),
    "options": ("options",),
    "region": ("attach", "ledger", "limits", "options", "object", "say", "throttle"),
}
UUID = "GPU-11111111-2222-3333-4444-555555555555"
SEEDS = {
    "limits": (
        f"hami-limits 1\nregion=/r/a b\npolicy=force\npriority=1\noversubscribe=0\nexport=0\ndisable=1\n"
        f"device={UUID} memory=4194304000 cores=30 context=1000\n",
        "hami-limits 1\n# nothing\n\nregion=/r\ndevice=* memory=0 cores=100\n",
    ),
    "options": (
        "CUDA_DEVICE_MEMORY_LIMIT=4g\nCUDA_DEVICE_SM_LIMIT=30\nCUDA_DEVICE_MEMORY_LIMIT_0=0x10Mi\nCUDA_OVERSUBSCRIBE=true\n",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE=/r\nCUDA_TASK_PRIORITY=-1\nGPU_CORE_UTILIZATION_POLICY=FORCE\nLIBCUDA_LOG_LEVEL=4\n"
        "CUDA_DISABLE_CONTROL=1\nCUDA_DEVICE_SM_LIMIT_15=100\n",
    ),
    "region": (
        bytes([1, 0, 3]) + bytes([0x10, 1, 2, 8]) + b"\xff" * 8 + bytes(range(200)),
        bytes([7, 0, 7])
        + b"".join(bytes([kind << 4, 0, 8 * i, 8]) + bytes([i] * 8) for kind in range(7) for i in range(6))
        + bytes(300),
        bytes([6, 0, 1]) + bytes([0x30, 0, 64, 16]) + b"\x01" * 16 + bytes(250),
    ),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    made = Path(os.environ.get("HAMI_LIMITER_BUILD") or ROOT / "build") / "fuzz"
    made.mkdir(parents=True, exist_ok=True)
    return made


def build(target: str, folder: Path, compiler: str, *more: str) -> Path:
    program = folder / f"fuzz_{target}-{compiler}"
    since = ["-DADMIT_SINCE"] if "int64_t since" in (ROOT / "src" / "throttle.h").read_text() else []
    flags = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-DHAMI_STEPS",
        "-g",
        "-O1",
        *since,
        f"-I{ROOT / 'src'}",
        f"-I{ROOT / 'include'}",
        f"-I{HERE}",
    ]
    checks = "-fsanitize=address,undefined,float-cast-overflow"
    sources = [HERE / f"fuzz_{target}.c", *(ROOT / "src" / f"{name}.c" for name in TARGETS[target])]
    subprocess.run(
        [compiler, *flags, checks, "-fno-sanitize-recover=all", *more, *map(str, sources), "-o", str(program), "-lm"],
        check=True,
    )
    return program


def corpus(target: str, tmp_path: Path) -> Path:
    place = tmp_path / "corpus"
    place.mkdir()
    for i, seed in enumerate(SEEDS[target]):
        (place / f"seed{i}").write_bytes(seed if isinstance(seed, bytes) else seed.encode())
    for found in sorted((HERE / "found").glob(f"{target}-*")):
        shutil.copy(found, place / found.name)
    return place


@pytest.mark.parametrize("target", TARGETS)
def test_anything_at_all_is_survived(target: str, folder: Path, tmp_path: Path) -> None:
    seconds, seed = os.environ.get("HAMI_FUZZ_SECONDS", "2"), random.SystemRandom().randrange(2**31)
    program = build(target, folder, "cc", str(HERE / "driver.c"))
    done = subprocess.run(
        [str(program), str(corpus(target, tmp_path)), seconds, str(seed)], cwd=tmp_path, capture_output=True, text=True
    )
    left = tmp_path / "crash"
    assert done.returncode == 0, (
        f"seed {seed}; input {left.read_bytes().hex() if left.exists() else 'not known'}\n{done.stderr}"
    )
    assert int(done.stdout) > 10
    print(f"{target}: {done.stdout.strip()} inputs, seed {seed}")


def libfuzzer() -> str | None:
    return next((name for name in ("clang", "clang-14") if shutil.which(name)), None)


@pytest.mark.skipif(
    not libfuzzer() or "HAMI_FUZZ_SECONDS" not in os.environ, reason="needs clang with libFuzzer, and HAMI_FUZZ_SECONDS"
)
@pytest.mark.parametrize("target", TARGETS)
def test_anything_that_libfuzzer_thinks_of_is_survived(target: str, folder: Path, tmp_path: Path) -> None:
    compiler = libfuzzer()
    assert compiler is not None
    program = build(target, folder, compiler, "-fsanitize=fuzzer")
    seconds = os.environ["HAMI_FUZZ_SECONDS"]
    done = subprocess.run(
        [str(program), f"-max_total_time={seconds}", "-timeout=20", "-max_len=4096", str(corpus(target, tmp_path))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
