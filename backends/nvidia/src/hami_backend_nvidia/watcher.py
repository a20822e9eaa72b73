"""Following the driver's events through a child process that is replaced when it dies or falls silent."""

import json
import logging
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from hami_backend_nvidia.child import COMMAND

log = logging.getLogger(__name__)

SILENCE_SECONDS = 20.0
"""The child speaks every two seconds; one that is silent for so long hangs in the driver."""
PAUSE_SECONDS = 3.0
"""Pause before a child that ended is replaced."""


@dataclass(frozen=True)
class Critical:
    """The driver reports a critical event of a device."""

    device: str
    xid: int


@dataclass(frozen=True)
class Unreachable:
    """The driver fails on a device."""

    device: str
    why: str


@dataclass(frozen=True)
class Lost:
    """The driver itself does not answer; nothing is known of any device."""

    why: str


@dataclass(frozen=True)
class Alive:
    """The driver answers."""


@dataclass(frozen=True)
class NoDriver:
    """There is nothing to follow."""


Event: TypeAlias = Critical | Unreachable | Lost | Alive | NoDriver


class Watcher:
    """The stream of events. One thread may read it at a time."""

    def __init__(self, command: Sequence[str] = (*COMMAND, "watch"), silence_seconds: float = SILENCE_SECONDS) -> None:
        self._command, self._silence = tuple(command), silence_seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._heard = 0.0
        self._start_at = 0.0

    def events(self, timeout_seconds: float) -> tuple[Event, ...]:
        """What happened since the last call; waits for the first event, at most so long."""
        if self._child is None:
            time.sleep(max(0.0, min(self._start_at - time.monotonic(), timeout_seconds)))
            self._start()
        line = self._next(timeout_seconds)
        if line == b"":
            silent = time.monotonic() - self._heard
            return (self._give_up(f"the driver has been silent for {silent:.0f} s"),) if silent > self._silence else ()
        found: list[Event] = []
        while line:
            self._heard = time.monotonic()
            found.append(read_event(json.loads(line)))
            line = self._next(0)
        if line is None:
            if NoDriver() in found:
                self._end()
            else:
                found.append(self._give_up("the health probe ended"))
        return tuple(found)

    def stop(self) -> None:
        """End the child."""
        self._end()

    def _start(self) -> None:
        self._lines = SimpleQueue()
        self._heard = time.monotonic()
        self._child = subprocess.Popen(  # noqa: S603 - our own module, no shell
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        threading.Thread(target=_pump, args=(self._child, self._lines), name="nvml-events", daemon=True).start()

    def _next(self, timeout_seconds: float) -> bytes | None:
        """The child's next line; empty when there is none in time, ``None`` when the child has ended."""
        try:
            return self._lines.get(timeout=timeout_seconds) if timeout_seconds else self._lines.get_nowait()
        except Empty:
            return b""

    def _give_up(self, why: str) -> Lost:
        log.warning("health probe is started anew", extra={"problem": why})
        self._end()
        self._start_at = time.monotonic() + PAUSE_SECONDS
        return Lost(why)

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def read_event(answer: Mapping[str, Any]) -> Event:
    """One line of the probe."""
    if "xid" in answer:
        return Critical(answer["uuid"], answer["xid"])
    if "unreachable" in answer:
        return Unreachable(answer["unreachable"], answer["problem"])
    if answer.get("absent"):
        return NoDriver()
    if "lost" in answer or "problem" in answer:
        return Lost(answer.get("lost") or answer["problem"])
    return Alive()


def _pump(child: subprocess.Popen[bytes], lines: SimpleQueue[bytes | None]) -> None:
    assert child.stdout is not None
    with child.stdout:
        for line in child.stdout:
            lines.put(line)
    lines.put(None)
