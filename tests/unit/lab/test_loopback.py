"""Ports for servers that come and go."""

import socket
from pathlib import Path

import pytest

from hami_core_py.lab import loopback
from hami_core_py.lab.loopback import free_ports, listens


def test_ports_are_free_and_all_different() -> None:
    found = [*free_ports(50), *free_ports(50)]
    assert len(set(found)) == 100
    assert not any(listens(port) for port in found[:5])


def test_no_connection_can_take_a_port_before_its_server_does() -> None:
    first = int(loopback.CONNECTIONS.read_text().split()[0])
    if first <= loopback.FIRST_PORT:
        pytest.skip("this machine leaves no ports alone")
    assert all(port < first for port in free_ports(50))


def test_port_of_another_server_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_ports(2)
    spread = tmp_path / "range"
    spread.write_text(f"{max(taken, free) + 1} 60999\n")
    monkeypatch.setattr(loopback, "CONNECTIONS", spread)
    monkeypatch.setattr(loopback, "_given", set(range(loopback.FIRST_PORT, max(taken, free) + 1)) - {taken, free})
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        found = free_ports(2)
    assert free in found
    assert taken not in found


def test_any_free_port_does_where_connections_may_have_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spread = tmp_path / "range"
    spread.write_text("1024 60999\n")
    monkeypatch.setattr(loopback, "CONNECTIONS", spread)
    assert len(set(free_ports(3))) == 3
