"""Ports of this machine's loopback address, and whether somebody answers there."""

import socket
import urllib.error
import urllib.request


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


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
