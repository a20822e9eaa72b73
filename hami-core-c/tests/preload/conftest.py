"""Real processes under the limiter, on the simulated driver; one container is one limits file with the library beside it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MIB = 1024 * 1024
sys.path.insert(0, str(ROOT))

import compile as limiter  # noqa: E402

SANITIZE = os.environ.get("HAMI_SANITIZE", "")
"""``address,undefined`` or ``thread``: limiter, simulated driver and programs are all built so."""
SANITIZER_FLAGS = [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"] if SANITIZE else []


def runtimes() -> list[str]:
    """What must come first among the preloaded libraries."""
    found = []
    for kind in filter(None, SANITIZE.split(",")):
        name = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}[kind]
        told = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        found.append(str(Path(told.stdout.strip()).resolve()))
    return found


def reports(folder: Path) -> dict[str, str]:
    """Settings under which a sanitizer leaves a file of its own for whatever it finds."""
    if not SANITIZE:
        return {}
    common = f"log_path={folder / 'report'}:exitcode=99"
    return {
        "ASAN_OPTIONS": f"{common}:detect_leaks=0:detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": f"{common}:print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": f"{common}:die_after_fork=0:history_size=4",
    }


class Program:
    """A client that answers line by line: the driver's code and two numbers."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise EOFError(f"the client ended with {self.process.wait()}")
        return answer.strip()

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command: str) -> tuple[int, int, int]:
        self.send(command)
        return self.answer()

    def answer(self) -> tuple[int, int, int]:
        code, first, second = self.line().split()
        return int(code), int(first), int(second)

    def __call__(self, command: str) -> int:
        """The driver's code alone."""
        return self.ask(command)[0]

    def start(self, device: int = 0) -> "Program":
        assert self("init") == 0
        assert self(f"context {device}") == 0
        return self

    def used(self) -> int:
        """What the container holds, in MiB, by the program's own view."""
        _, free, total = self.ask("info")
        return (total - free) // MIB

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.send("stop")
        return self.process.wait(120)


class Node:
    """A machine with simulated cards."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder, self.tools = folder, tools
        self.environment = {
            "PATH": os.environ["PATH"],
            "HAMI_SIM_STATE": str(folder / "sim"),
            "LD_LIBRARY_PATH": str(tools / "sim"),
            **reports(folder),
        }

    def sim(self, *words: str, check: bool = True) -> str:
        command = [str(self.tools / "sim" / "hami-sim"), *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def uuids(self) -> list[str]:
        return [card["uuid"] for card in json.loads(self.sim("show"))["devices"]]


class Container:
    """A folder with the library and, where limits are given, the limits file beside it."""

    def __init__(self, node: Node, name: str, tools: Path) -> None:
        self.node, self.name, self.tools = node, name, tools
        self.folder = node.folder / name
        self.folder.mkdir()
        self.library = self.folder / "libvgpu.so"
        self.library.symlink_to(tools / "limiter" / "libvgpu.so")
        self.region = self.folder / "region.cache"
        self.programs: list[Program] = []

    def limits(self, *devices: str, **settings: object) -> None:
        lines = [
            "hami-limits 1",
            f"region={self.region}",
            *(f"{k}={v}" for k, v in settings.items()),
            *(f"device={d}" for d in devices),
        ]
        (self.folder / "limits").write_text("\n".join(lines) + "\n")

    def environment(self, **more: str) -> dict[str, str]:
        preload = " ".join([*runtimes(), str(self.library)])
        return {**self.node.environment, "HAMI_SIM_CONTAINER": self.name, "LD_PRELOAD": preload, **more}

    def popen(self, command: list[str], env: dict[str, str]) -> Program:
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.programs.append(Program(process))
        return self.programs[-1]

    def spawn(self, how: str = "dlsym", **more: str) -> Program:
        client = self.tools / ("client-direct" if how == "direct" else "client")
        return self.popen([str(client)], self.environment(HAMI_CLIENT_LOOKUP=how, **more))

    def run(self, how: str = "dlsym", device: int = 0, **more: str) -> Program:
        return self.spawn(how, **more).start(device)

    def end(self) -> None:
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
            for stream in (program.process.stdin, program.process.stdout):
                if stream:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()
        for report in self.node.folder.glob("report*"):
            raise AssertionError(report.read_text())


@pytest.fixture(scope="session")
def tools() -> Path:
    """Everything compiled, once."""
    folder = Path(
        os.environ.get("HAMI_LIMITER_BUILD")
        or ROOT / "build" / (f"preload-{SANITIZE.replace(',', '-')}" if SANITIZE else "")
    )
    limiter.build(folder / "limiter", sanitize=SANITIZE)
    command = [sys.executable, str(ROOT / "simulator" / "build.py"), str(folder / "sim")]
    subprocess.run([*command, f"--flags={' '.join(SANITIZER_FLAGS)}"], check=True, capture_output=True)
    source = HERE / "client.c"
    for name, flags in (("client", ["-ldl"]), ("client-direct", ["-DDIRECT", f"-L{folder / 'sim'}", "-lcuda"])):
        target = folder / name
        if not target.exists() or target.stat().st_mtime < max(
            source.stat().st_mtime, (ROOT / "src" / "driver.h").stat().st_mtime
        ):
            compile_c([source], target, *flags)
    return folder


def compile_c(sources: list[Path], target: Path, *flags: str) -> Path:
    """One small program or library of a test."""
    common = [
        "-std=c11",
        "-D_GNU_SOURCE",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{ROOT / 'src'}",
        f"-I{ROOT / 'include'}",
        *([] if "-shared" in flags else SANITIZER_FLAGS),  # others' libraries run before a sanitizer's runtime does
    ]
    subprocess.run(["cc", *common, *map(str, sources), "-o", str(target), *flags, "-pthread"], check=True)
    return target


@pytest.fixture
def make_node(tmp_path: Path, tools: Path) -> Callable[..., Node]:
    def make(cards: str = "2xA100-40G", **settings: object) -> Node:
        folder = tmp_path / "node"
        folder.mkdir(exist_ok=True)
        node = Node(folder, tools)
        node.sim("start", cards, "host=test", *(f"{k}={v}" for k, v in settings.items()))
        return node

    return make


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node()


@pytest.fixture
def make_container(tools: Path) -> Iterator[Callable[..., Container]]:
    made: list[Container] = []

    def make(node: Node, name: str = "tenant") -> Container:
        made.append(Container(node, name, tools))
        return made[-1]

    yield make
    for one in made:
        one.end()


CONTEXT_MIB = 408
"""What a context costs on the simulated A100, in whole granules."""


def tenant_for(processes: int, node: Node, make_container: Callable[..., Container]) -> Container:
    """One container with 1000 MiB beside the contexts of so many processes, judged by the simulator."""
    one = make_container(node)
    mib = 1000 + processes * CONTEXT_MIB
    one.limits(*(f"{uuid} memory={mib * MIB} context={CONTEXT_MIB * MIB}" for uuid in node.uuids()))
    for device in ("0", "1"):
        node.sim("limit", one.name, device, f"memory_mib={mib}", "slack_mib=8")
    return one


@pytest.fixture
def tenant(node: Node, make_container: Callable[..., Container]) -> Container:
    return tenant_for(1, node, make_container)


@pytest.fixture
def pair(node: Node, make_container: Callable[..., Container]) -> Container:
    return tenant_for(2, node, make_container)


@pytest.fixture
def judged(node: Node) -> Callable[[], None]:
    """Fail when the simulator ever saw a container above its limit."""

    def judge() -> None:
        verdict = json.loads(node.sim("judge", check=False))
        assert all(one["violations"] == 0 for one in verdict), verdict

    return judge


__all__ = ["MIB", "Container", "Node", "Program", "compile_c", "shutil", "signal"]
