"""Processes learn their host pid from the agent, whatever a container does with its folder."""

import contextlib
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hami_core_py.servers import hostpids
from hami_core_py.servers.hostpids import HostPids
from hami_core_py.services.agent.holdings import Holdings

ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
s.connect(sys.argv[1])
print(s.recv(16).decode().strip(), flush=True)
"""


def proc_of_a_host(tmp_path: Path) -> Path:
    own = tmp_path / "proc" / "self" / "ns"
    own.mkdir(parents=True)
    (own / "pid").symlink_to(hostpids.FIRST_NAMESPACE)
    return tmp_path / "proc"


@pytest.fixture
def holdings(tmp_path):
    made = Holdings(tmp_path / "state")
    made.open()
    return made


@pytest.fixture
def serve(holdings, tmp_path):
    running = []
    proc = proc_of_a_host(tmp_path)

    def start(**options):
        running.append(HostPids(holdings, proc, **options))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def socket_of(holdings, holding):
    return holdings.directory(holding.name) / "shared" / hostpids.SOCKET


def ask(path):
    """A process of its own asks. :returns: its pid, and what it was told."""
    # The folder may be deeper than a socket's path can be long.
    program = subprocess.Popen(
        [sys.executable, "-c", ASK, hostpids.SOCKET], cwd=path.parent, stdout=subprocess.PIPE, text=True
    )
    told, _ = program.communicate(timeout=60)
    return program.pid, int(told or -1)


def test_a_process_is_told_its_own_pid(holdings, serve):
    serve()
    path = socket_of(holdings, holdings.create("Acme", ["a"]))
    pid, told = ask(path)
    assert told == pid
    assert stat.S_IMODE(path.stat().st_mode) == 0o666


def test_folders_of_an_earlier_run_are_served(holdings, serve):
    holding = holdings.create("Acme", ["a"])
    stale = socket.socket(socket.AF_UNIX)
    at = os.open(holdings.directory(holding.name) / "shared", os.O_PATH)
    stale.bind(f"/proc/self/fd/{at}/{hostpids.SOCKET}")
    stale.close()
    os.close(at)
    serve()
    pid, told = ask(socket_of(holdings, holding))
    assert told == pid


def test_the_socket_goes_with_its_container_and_with_the_agent(holdings, serve):
    server = serve()
    first, second = holdings.create("Acme", ["a"]), holdings.create("Acme", ["b"])
    before = len(os.listdir("/proc/self/fd"))
    holdings.remove(first.name)
    assert len(os.listdir("/proc/self/fd")) == before - 1
    assert socket_of(holdings, second).exists()
    server.stop()
    assert not socket_of(holdings, second).exists()


def test_a_link_in_place_of_the_socket_is_replaced_and_not_followed(holdings, serve, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    precious.chmod(0o600)
    holding = holdings.create("Acme", ["a"])
    socket_of(holdings, holding).symlink_to(precious)
    serve()
    pid, told = ask(socket_of(holdings, holding))
    assert told == pid
    assert stat.S_IMODE(precious.stat().st_mode) == 0o600
    assert precious.read_text() == "precious"


def test_a_container_that_spoils_its_folder_spoils_no_other(holdings, serve):
    spoilt, good = holdings.create("Acme", ["a"]), holdings.create("Acme", ["b"])
    socket_of(holdings, spoilt).mkdir()
    serve()
    pid, told = ask(socket_of(holdings, good))
    assert told == pid


def test_who_asks_without_end_and_never_listens_holds_up_nobody(holdings, serve):
    serve()
    hostile, other = holdings.create("Acme", ["a"]), holdings.create("Acme", ["b"])
    at = os.open(socket_of(holdings, hostile).parent, os.O_PATH)
    ended = threading.Event()

    def flood():
        while not ended.is_set():
            with contextlib.ExitStack() as kept:
                for _ in range(50):
                    one = kept.enter_context(socket.socket(socket.AF_UNIX))
                    one.settimeout(0.2)
                    with contextlib.suppress(OSError):
                        one.connect(f"/proc/self/fd/{at}/{hostpids.SOCKET}")

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        pid, told = ask(socket_of(holdings, other))
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        os.close(at)
    assert told == pid


def test_a_second_agent_of_the_node_leaves_the_first_ones_containers_alone(holdings, serve):
    holding = holdings.create("Acme", ["a"])
    first = serve()
    second = serve()
    second.stop()
    pid, told = ask(socket_of(holdings, holding))
    assert told == pid
    first.stop()
    assert not socket_of(holdings, holding).exists()


def test_containers_of_an_agent_that_ended_are_taken_over_by_the_other(holdings, serve):
    holding = holdings.create("Acme", ["a"])
    first = serve()
    serve(sweep_seconds=0.05)
    first.stop()
    until = time.monotonic() + 60
    while not socket_of(holdings, holding).exists():
        assert time.monotonic() < until, "nobody listens any more"
        time.sleep(0.01)
    pid, told = ask(socket_of(holdings, holding))
    assert told == pid


def test_an_agent_that_does_not_see_the_host_tells_nothing(holdings, tmp_path):
    (tmp_path / "elsewhere" / "self" / "ns").mkdir(parents=True)
    (tmp_path / "elsewhere" / "self" / "ns" / "pid").symlink_to("pid:[4026532999]")
    server = HostPids(holdings, tmp_path / "elsewhere")
    server.start()
    assert not socket_of(holdings, holdings.create("Acme", ["a"])).exists()
    server.stop()
