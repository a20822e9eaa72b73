"""Processes of other users, other roots and other pid namespaces: one container, one limit, whatever they see of each other."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hami_core_py.servers import hostpids
from hami_core_py.services.agent.holdings import Holdings

from .conftest import CONTEXT_MIB, MIB, SANITIZE, Container, Node, line, needs_root, said, start

OUT_OF_MEMORY = 2
MakeNode, Make = Callable[..., Node], Callable[..., Container]
PID_SPACE = ("unshare", "--pid", "--fork", "--kill-child")

pytestmark = needs_root


def test_processes_that_bear_the_same_pid_share_one_limit(
    pair: Container, zoo: Path, judged: Callable[[], None]
) -> None:
    one = start(pair, zoo, "hold", "500", before=PID_SPACE)
    assert line(one) == "took 0"
    two = start(pair, zoo, "hold", "600", before=PID_SPACE)
    assert line(two) == "took 2"
    assert pid_in(pair, 0) == pid_in(pair, 1) == 1
    one.kill()
    one.wait()
    three = start(pair, zoo, "hold", "1000", before=PID_SPACE)
    assert line(three) == "took 0"  # the dead one's share is there, though a process of its pid lives
    judged()


def pid_in(container: Container, slot: int) -> int:
    at = 1856 + 1960 * slot
    return int.from_bytes(container.region.read_bytes()[at : at + 4], "little")


REUSE = """
set -e
began() { echo $(($1 - 1)) > /proc/sys/kernel/ns_last_pid; "$2" hold "$3" <> "$4/in" > "$4/told.$5" & }
told() { until grep -q took "$1"; do sleep 0.02; done; }
mkfifo "$2/in"
began 1000 "$1" 10 "$2" a; first=$!; told "$2/told.a"
began 2000 "$1" 900 "$2" b; second=$!; told "$2/told.b"
kill -9 $second $first
wait $second $first || true
began 2000 "$1" 1300 "$2" c; third=$!; told "$2/told.c"
cat "$2"/told.*
[ $third = $second ] && echo same 1
"""


def test_a_pid_that_is_used_again_keeps_nobodys_memory_alive(
    pair: Container, zoo: Path, tmp_path: Path, judged: Callable[[], None]
) -> None:
    command = [*PID_SPACE, "--mount-proc", "bash", "-c", REUSE, "bash", str(zoo), str(tmp_path)]
    done = subprocess.run(command, env=pair.environment(), capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:4] == ["took 0", "took 0", "took 0", "same 1"], (done.stdout, done.stderr)
    judged()


# ---- with the library named in /etc/ld.so.preload, as in a container


class Machine:
    """A container whose files lie where every user can reach them, and whose loader knows the library by its own file."""

    def __init__(self, container: Container, zoo: Path, tmp_path: Path) -> None:
        self.container, node = container, container.node
        (node.folder / "etc").mkdir()
        for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
            shutil.copy(f"/etc/{name}", node.folder / "etc" / name)
        (node.folder / "etc" / "ld.so.preload").write_text(f"/mnt/{container.name}/libvgpu.so\n")
        container.library.unlink()
        shutil.copy(container.tools / "limiter" / "libvgpu.so", container.library)
        shutil.copy(zoo, node.folder / "zoo")
        shutil.copy(container.tools / "sim" / "libcuda.so.1", node.folder / "libcuda.so.1")
        shutil.copy(container.tools / "sim" / "libnvidia-ml.so.1", node.folder / "libnvidia-ml.so.1")
        for path in (node.folder, container.folder):
            path.chmod(0o777)
        (node.folder / "sim").chmod(0o666)
        limits = container.folder / "limits"
        limits.write_text(limits.read_text().replace(str(container.region), f"/mnt/{container.name}/region.cache"))
        self.folder = node.folder

    def run(self, *words: str, script: str = 'exec "$@"', **more: str) -> dict[str, int]:
        # A program with raised rights believes no variable, so the devices lie where they are by default.
        default = "mount -t tmpfs -o mode=755 none /tmp && ln -s /mnt/sim /tmp/hami-sim-65533.state"
        inside = f"mount --bind {self.folder} /mnt && mount --bind /mnt/etc /etc && {default} && {{ {script}; }}"
        env = {
            "PATH": os.environ["PATH"],
            "HAMI_SIM_STATE": "/mnt/sim",
            "HAMI_SIM_CONTAINER": self.container.name,
            "HAMI_CLIENT_DRIVER": "/mnt/libcuda.so.1",
            "LD_LIBRARY_PATH": "/mnt",
            **more,
        }
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", inside, "sh", "/mnt/zoo", *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return said(done.stdout)


@pytest.fixture
def machine(tenant: Container, zoo: Path, tmp_path: Path) -> Machine:
    if SANITIZE:
        pytest.skip("a sanitizer's runtime must come first, and the loader's file names the library alone")
    return Machine(tenant, zoo, tmp_path)


EMPTY = "env -i HAMI_SIM_STATE=/mnt/sim HAMI_SIM_CONTAINER=tenant HAMI_CLIENT_DRIVER=/mnt/libcuda.so.1"


@pytest.mark.parametrize(
    "script",
    [
        'exec "$@"',
        f'exec {EMPTY} "$@"',
        f'exec {EMPTY} LD_LIBRARY_PATH=/nowhere CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/mine "$@"',
        'exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"',
        'chown 65533 /mnt/zoo; chmod 4755 /mnt/zoo; exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"',
    ],
    ids=["as it is", "empty environment", "other paths", "other user", "raised rights"],
)
def test_whoever_runs_it_and_however_it_is_the_same_limit(machine: Machine, script: str) -> None:
    assert machine.run("take", "1001", script=script)["took"] == OUT_OF_MEMORY
    assert machine.run("take", "1000", script=script)["took"] == 0
    assert machine.run("take", "1001", script=script)["took"] == OUT_OF_MEMORY


def test_processes_of_several_users_share_it(machine: Machine) -> None:
    first = 'mkfifo /mnt/in; "$1" hold 100 <> /mnt/in > /mnt/first & until grep -q took /mnt/first; do sleep 0.02; done'
    second = 'setpriv --reuid 65534 --regid 65534 --clear-groups "$1" take 600'
    # 1000 MiB, less 100 and another context
    assert machine.run("unused", script=f"{first}; {second}; kill $!")["took"] == OUT_OF_MEMORY


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="needs musl-gcc")
def test_programs_of_another_c_library_run_as_if_there_were_no_limiter(machine: Machine, tmp_path: Path) -> None:
    """musl's loader does not read the file; with the library in the environment instead, its programs would not start."""
    (tmp_path / "hello.c").write_text('#include <stdio.h>\nint main(void) { return printf("hello 7\\n") < 0; }')
    program = machine.folder / "hello"
    subprocess.run(["musl-gcc", str(tmp_path / "hello.c"), "-o", str(program)], check=True)
    assert machine.run("unused", script="exec /mnt/hello 2>&1") == {"hello": 7}
    assert machine.run("take", "1001")["took"] == OUT_OF_MEMORY
    refused = subprocess.run([program], env={"LD_PRELOAD": str(machine.container.library)}, capture_output=True)
    assert refused.returncode == 127


# ---- the agent's socket


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path as short as a container's; that of a socket may not be long."""
    with tempfile.TemporaryDirectory(prefix="hami-", dir="/tmp") as folder:
        yield Path(folder)


def test_work_in_a_pid_namespace_is_counted_as_the_containers_own(
    make_node: MakeNode, make_container: Make, tmp_path: Path, short: Path
) -> None:
    """The driver's samples bear host pids, which a process learns from the agent alone."""
    node = make_node("1xA100-40G", nvml="fast")
    one = make_container(node)
    holdings = Holdings(short)
    holdings.open()
    holding = holdings.create("Acme", ["a"])
    one.region = holdings.directory(holding.name) / "shared" / "region.cache"
    one.limits(f"{node.uuids()[0]} memory={8000 * MIB} cores=50 context={CONTEXT_MIB * MIB}", policy="force")
    host = tmp_path / "proc" / "self" / "ns"
    host.mkdir(parents=True)
    (host / "pid").symlink_to(hostpids.FIRST_NAMESPACE)
    server = hostpids.HostPids(holdings, tmp_path / "proc")
    server.start()
    try:
        outer = one.popen([*PID_SPACE, str(one.tools / "client")], one.environment(HAMI_CLIENT_LOOKUP="dlsym"))
        outer.start()
        children = Path(f"/proc/{outer.process.pid}/task/{outer.process.pid}/children").read_text().split()
        at = 1856
        told = [int.from_bytes(one.region.read_bytes()[at + i : at + i + 4], "little") for i in (0, 4)]
        assert told == [1, int(children[0])]
        outer.send("work 20 0 spin_5000us")
        deadline = time.monotonic() + 60
        while not int.from_bytes(one.region.read_bytes()[at + 1160 + 16 : at + 1160 + 24], "little"):
            assert time.monotonic() < deadline, "no sample was counted as ours"
            time.sleep(0.05)
    finally:
        server.stop()
