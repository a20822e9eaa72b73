"""Ports of this machine's loopback address, and whether somebody answers there."""

import contextlib
import random
import socket
import urllib.error
import urllib.request
from pathlib import Path

FIRST_PORT = 20000
CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Ports that the kernel gives to the near ends of connections: whoever listens there again after a break may find one taken."""
TRIES = 500

_chance = random.SystemRandom()
_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, and that no connection takes before somebody does. None is given twice.

    Where the machine has no port that connections leave alone, it is any free one.
    """
    below = [port for port in range(FIRST_PORT, _first_of_connections()) if port not in _given]
    tried = iter(_chance.sample(below, min(TRIES, len(below))))
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            trial = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                trial.bind(("127.0.0.1", next(tried, 0)))
                found.append(trial.getsockname()[1])
    _given.update(found)
    return found


def _first_of_connections() -> int:
    try:
        return int(CONNECTIONS.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def listens(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as trial:
        trial.settimeout(1)
        return trial.connect_ex(("127.0.0.1", port)) == 0


def answers(url: str) -> bool:
    """Whether a URL answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - a loopback URL of our own
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
