"""Where a case plays: simulated cards, containers on them, and programs that do as they are told."""

import contextlib
import os
import select
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hami_backend_mock import sim

MIB = 2**20
CONTEXT_MIB = 408
"""What a context costs on the card of most cases."""
CARD = "A100-40G"
PATIENCE_SECONDS = 8.0
"""A program that has not answered by then hangs."""
SLACK_MIB = 8
OUT_OF_MEMORY = 2


class Failed(Exception):
    """What a case expected, and what it saw."""

    def __init__(self, expected: str, seen: str) -> None:
        super().__init__(f"expected {expected}, saw {seen}")
        self.expected, self.seen = expected, seen


class Answer(NamedTuple):
    """The driver's code and two numbers."""

    code: int
    first: int
    second: int


class Program:
    """A program of the driver that takes orders line by line."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as told:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told
            )
        self._rest = b""

    def send(self, order: str) -> None:
        """:raises Failed: it has ended."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(order.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self._ended(order)

    def answer(self, order: str = "", patience: float = PATIENCE_SECONDS) -> Answer:
        """:raises Failed: it has ended or does not answer in time."""
        assert self.process.stdout is not None
        descriptor, deadline = self.process.stdout.fileno(), time.monotonic() + patience
        while b"\n" not in self._rest:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Failed(f"an answer to {order!r}", f"none in {patience:g} s")
            more = os.read(descriptor, 65536)
            if not more:
                self._ended(order)
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        code, first, second = line.split()
        return Answer(int(code), int(first), int(second))

    def _ended(self, order: str) -> None:
        code = self.process.wait(PATIENCE_SECONDS)
        told = self._errors.read_text(errors="replace").strip().splitlines()
        raise Failed(f"an answer to {order!r}", f"the program's end with {code}{f': {told[-1]}' if told else ''}")

    def ask(self, order: str, patience: float = PATIENCE_SECONDS) -> Answer:
        """:raises Failed: it has ended or does not answer in time."""
        self.send(order)
        return self.answer(order, patience)

    def __call__(self, order: str) -> int:
        """The driver's code alone."""
        return self.ask(order).code

    def must(self, *orders: str) -> "Program":
        """:raises Failed: one of them is refused."""
        for order in orders:
            code = self(order)
            if code:
                raise Failed(f"{order!r} to succeed", f"code {code}")
        return self

    def start(self, device: int = 0) -> "Program":
        """Initialise the driver and make a context."""
        return self.must("init", f"context {device}")

    def used(self) -> int:
        """MiB that the container holds by the program's own view."""
        code, free, total = self.ask("info")
        if code:
            raise Failed("memory info", f"code {code}")
        return (total - free) // MIB

    def free(self) -> int:
        """MiB that are free by the program's own view."""
        return self.ask("info").first // MIB

    def kill(self) -> None:
        """SIGKILL, and wait for it."""
        self.process.kill()
        self.process.wait()

    def end(self, order: str = "stop") -> int:
        """:returns: its exit status. :raises Failed: it does not end."""
        self.send(order)
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as problem:
            raise Failed("the program to end", "it runs on") from problem

    def close(self) -> None:
        """End it whatever it does."""
        if self.process.poll() is None:
            self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Node:
    """A machine with simulated cards."""

    def __init__(self, folder: Path, cards: str, settings: Mapping[str, object]) -> None:
        self.folder, self.drivers = folder, sim.libraries()
        folder.mkdir()
        self.log = folder / "log"
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HAMI_SIM_STATE": str(folder / "cards"),
            "LD_LIBRARY_PATH": str(self.drivers),
        }
        self.sim("start", cards, "host=certify", *(f"{key}={value}" for key, value in settings.items()))

    def sim(self, *words: str, accept: Sequence[int] = (0,)) -> Any:
        """Ask the simulator's command."""
        return sim.ask(*words, state=self.folder / "cards", accept=accept)

    def uuids(self) -> list[str]:
        """Of the cards, in the order of the management library."""
        return [card["uuid"] for card in self.sim("show")["devices"]]

    def _on(self, container: str, device: int) -> dict[str, int]:
        for one in self.sim("judge", accept=(0, 1)):
            for seen in one["devices"]:
                if one["container"] == container and seen["device"] == device:
                    return dict(seen)
        return {}

    def held(self, container: str, device: int = 0) -> int:
        """MiB of the card that the container really has."""
        return self._on(container, device).get("bytes", 0) // MIB

    def busy(self, container: str, device: int = 0) -> int:
        """Nanoseconds of the card that the container really had."""
        return self._on(container, device).get("busy_ns", 0)

    def calls(self) -> list[str]:
        """Functions of the driver that were called, where the log is on."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.removeprefix("call ") for line in lines if line.startswith("call ")]


class Container:
    """What the limiter takes for one container: a library, a region file, and limits told in one of two ways."""

    def __init__(self, node: Node, name: str, library: Path) -> None:
        self.node, self.name = node, name
        self.folder = node.folder / name
        self.folder.mkdir()
        self.library = self.folder / "libvgpu.so"
        self.library.symlink_to(library)
        self.region = self.folder / "region.cache"
        self.told: dict[str, str] = {}
        self.programs: list[Program] = []
        self._agent: socket.socket | None = None

    def tell(
        self, by: str, memory_mib: Sequence[int | None], cores: int | None, settings: Mapping[str, object]
    ) -> None:
        """Limits of the cards, in the order of the management library; ``None``: no limit.

        A file lists them in the opposite order: it tells by UUID.
        """
        if by == "environment":
            self.told = {
                "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(self.region),
                **{f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{mib}m" for i, mib in enumerate(memory_mib) if mib is not None},
                **({} if cores is None else {"CUDA_DEVICE_SM_LIMIT": str(cores)}),
                **{{"policy": "GPU_CORE_UTILIZATION_POLICY"}[key]: str(value) for key, value in settings.items()},
            }
            return
        lines = ["hami-limits 1", f"region={self.region}", *(f"{key}={value}" for key, value in settings.items())]
        for uuid, mib in reversed(list(zip(self.node.uuids(), memory_mib, strict=False))):
            lines.append(f"device={uuid} memory={(mib or 0) * MIB} cores={cores or 0}")
        (self.folder / "limits").write_text("\n".join(lines) + "\n")

    def environment(self, **more: str) -> dict[str, str]:
        """Variables of a program in this container."""
        own = {"HAMI_SIM_CONTAINER": self.name, "LD_PRELOAD": str(self.library), "CUDA_REDIRECT": str(self.library)}
        return {**self.node.environment, **own, **self.told, **more}

    def spawn(self, how: str = "dlsym", **more: str) -> Program:
        """A program that has done nothing yet.

        :param how: it finds functions: linked, per-thread (linked), dlsym, lookup, with or without -per-thread.
        """
        build = {"linked": "-linked", "per-thread": "-per-thread"}.get(how, "")
        command = [str(self.node.drivers / "certify" / f"hami-sim-probe{build}")]
        errors = self.folder / f"errors-{len(self.programs)}"
        self.programs.append(Program(command, self.environment(HAMI_PROBE_LOOKUP=how, **more), errors))
        return self.programs[-1]

    def run(self, how: str = "dlsym", device: int = 0, **more: str) -> Program:
        """A program with a context."""
        return self.spawn(how, **more).start(device)

    def serve_pids(self) -> None:
        """Stand in for the node's agent: tell whoever connects its pid as the cards know it."""
        listener = self._agent = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.folder / "agent.sock"))
        listener.listen(16)

        def serve() -> None:
            with listener, contextlib.suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer, contextlib.suppress(OSError):
                        pid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                        peer.sendall(str(pid).encode())

        threading.Thread(target=serve, daemon=True).start()

    def close(self) -> None:
        """End everything in it."""
        for program in self.programs:
            program.close()
        if self._agent:
            with contextlib.suppress(OSError):
                self._agent.shutdown(socket.SHUT_RDWR)

    def number(self, at: int, size: int = 8) -> int:
        """A number in the region file, whose layout is that of HAMI v2.10."""
        with self.region.open("rb") as file:
            file.seek(at)
            return int.from_bytes(file.read(size), "little", signed=True)

    def write(self, at: int, value: int, size: int = 8) -> None:
        """Change a number there, as monitors do."""
        with self.region.open("r+b", buffering=0) as file:
            file.seek(at)
            file.write(value.to_bytes(size, "little", signed=True))


class Stand:
    """Everything of one case."""

    def __init__(self, library: Path, told: str, folder: Path) -> None:
        self.library, self.told, self.folder = library, told, folder
        self._nodes: list[Node] = []
        self._containers: list[Container] = []

    def node(self, cards: str = f"2x{CARD}", **settings: object) -> Node:
        """A new machine."""
        self._nodes.append(Node(self.folder / f"node-{len(self._nodes)}", cards, settings))
        return self._nodes[-1]

    def container(
        self,
        node: Node,
        *,
        mib: int | Sequence[int | None] | None = None,
        contexts: int = 1,
        cores: int | None = None,
        name: str = "tenant",
        told: str | None = None,
        slack_mib: int = SLACK_MIB,
        **settings: object,
    ) -> Container:
        """A container that the simulator judges.

        :param mib: of each card beside so many contexts; a list: of each card, all told.
        :param slack_mib: that it may have beyond for a moment.
        """
        one = Container(node, name, self.library)
        self._containers.append(one)
        cards = len(node.uuids())
        if mib is None or isinstance(mib, int):
            limits: list[int | None] = [None if mib is None else mib + contexts * CONTEXT_MIB] * cards
        else:
            limits = list(mib)
        one.tell(told or self.told, limits, cores, settings)
        for device, limit in enumerate(limits):
            if limit is not None:
                node.sim("limit", name, str(device), f"memory_mib={limit}", f"slack_mib={slack_mib}")
        return one

    def judge(self) -> None:
        """:raises Failed: a container ever had more of a card than its limit."""
        for node in self._nodes:
            for one in node.sim("judge", accept=(0, 1)):
                if one["violations"]:
                    over = one["first"]["over_bytes"] // MIB
                    raise Failed(
                        "no more of the card than the limit, ever", f"{over} MiB more, by the simulator's count"
                    )

    def close(self) -> None:
        """End every program."""
        for container in self._containers:
            container.close()


def share_percent(node: Node, container: Container, seconds: float, device: int = 0) -> float:
    """Part of the next seconds in which a container keeps a card busy, in percent."""
    before, began = node.busy(container.name, device), time.monotonic()
    time.sleep(seconds)
    after, took = node.busy(container.name, device), time.monotonic() - began
    return (after - before) / took / 1e7
