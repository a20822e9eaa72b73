"""Programs that nobody here wrote run on the simulated driver: the vendor's bindings and numba's CUDA target."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PACKAGES = (
    "cuda-bindings==13.5.0",
    "numba-cuda==0.30.4",
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-nvrtc",
    "nvidia-nvvm",
)


@pytest.fixture(scope="session")
def python() -> Path:
    """An interpreter that has the clients; kept between runs, as it takes a minute to make."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hami" / "clients"
    folder = cache / "-".join(one.replace("==", "-") for one in PACKAGES[:2])
    interpreter = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        done = subprocess.run([interpreter, "-m", "pip", "install", "-q", *PACKAGES], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"the clients cannot be installed here: {done.stderr.splitlines()[-1]}")
        (folder / "ready").touch()
    return interpreter


@pytest.fixture
def run(bare, python):
    """Runs a program with the clients on two cards; gives back what it prints."""
    bare.command("start", "A100-40G,H100")

    def on_it(program: str) -> str:
        log = bare.state.with_name("calls")
        variables = bare.environment(LD_LIBRARY_PATH=str(bare.libraries), HAMI_SIM_LOG=str(log))
        done = subprocess.run([python, "-c", program], env=variables, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        assert "refused" not in log.read_text()
        return done.stdout.strip()

    return on_it


def test_the_vendor_s_driver_bindings_work(run):
    program = """
from cuda.bindings import driver as d
def ok(answer):
    assert answer[0] == 0, answer
    return answer[1] if len(answer) == 2 else answer[1:]
ok(d.cuInit(0))
device = ok(d.cuDeviceGet(1))
context = ok(d.cuDevicePrimaryCtxRetain(device))
ok(d.cuCtxSetCurrent(context))
free, total = ok(d.cuMemGetInfo())
stream = ok(d.cuStreamCreate(0))
block, later = ok(d.cuMemAlloc(1 << 30)), ok(d.cuMemAllocAsync(1 << 20, stream))
ok(d.cuMemFreeAsync(later, stream))
module = ok(d.cuModuleLoadData(b".visible .entry k_1ms()\\n\\0"))
ok(d.cuLaunchKernel(ok(d.cuModuleGetFunction(module, b"k_1ms")), 1, 1, 1, 1, 1, 1, 0, stream, 0, 0))
ok(d.cuStreamSynchronize(stream))
print(ok(d.cuDeviceGetCount()), (free - ok(d.cuMemGetInfo())[0]) >> 20, total >> 20)
"""
    assert run(program) == "2 1026 40350"


def test_numba_finds_devices_and_keeps_arrays_on_them(run):
    program = """
import numpy as np
from numba import cuda
numbers = np.arange(100000, dtype=np.float32)
there = cuda.to_device(numbers)
stream = cuda.stream()
beside = cuda.to_device(numbers[::-1].copy(), stream=stream)
stream.synchronize()
same = (there.copy_to_host() == numbers).all() and (beside.copy_to_host() == numbers[::-1]).all()
card, memory = cuda.gpus[0], cuda.current_context().get_memory_info()
print(len(cuda.gpus), card.name, card.compute_capability.major, memory.total >> 20, same)
"""
    assert run(program) == "2 NVIDIA H100 80GB HBM3 9 81006 True"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_the_vendor_s_management_binding_reads_everything_it_is_asked_for(bare):
    pytest.importorskip("pynvml")
    bare.command("start", "A100-40G")
    program = """
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
kinds = "PowerUsage EccMode ComputeMode BAR1MemoryInfo EnforcedPowerLimit CudaComputeCapability Architecture"
asked = [getattr(n, "nvmlDeviceGet" + kind)(h) for kind in kinds.split()]
asked += [n.nvmlDeviceGetTemperature(h, 0), n.nvmlDeviceGetClockInfo(h, 0)]
asked += [getattr(n, "nvmlSystemGet" + kind)() for kind in ("DriverVersion", "NVMLVersion", "CudaDriverVersion")]
print(all(one is not None for one in asked))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=bare.environment(LD_LIBRARY_PATH=str(bare.libraries)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout.strip(), done.stderr) == ("True", "")
