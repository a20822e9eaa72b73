"""Many processes that do anything, in any order, and are stopped and killed in the middle of it.

``HAMI_STORM=PROCESSES,SECONDS[,SEED]`` makes it longer, or the same again.
"""

import ctypes
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from .conftest import MIB, Container, Node, line, start

USED_AT = 2008960 + 64 + 64 + 8
"""Where the first device's sum is in the region."""
MISTAKE = (5, 6, 7)
"""What a process says of itself when the driver answered what it must not."""
SUBREAPER = 36


def test_whatever_processes_do_and_whoever_ends_them_the_limit_holds(
    make_node: Callable[..., Node], make_container: Callable[..., Container], zoo: Path
) -> None:
    told = os.environ.get("HAMI_STORM", "12,4").split(",")
    count, seconds = int(told[0]), float(told[1])
    seed = int(told[2]) if len(told) > 2 else random.SystemRandom().randrange(10**6)
    print(f"HAMI_STORM={count},{seconds:g},{seed}")
    dice = random.Random(seed)
    node = make_node("1xA100-80G", nvml="fast")
    one = make_container(node)
    limit = 412 * (count // 2) + 1000
    one.limits(f"{node.uuids()[0]} memory={limit * MIB} cores=60 context={412 * MIB}", policy="force")
    node.sim("limit", one.name, "0", f"memory_mib={limit}", f"slack_mib={6 * count}")
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    first = start(one, zoo, "hold", "2")
    assert line(first) == "took 0"
    env = one.environment()

    def begin() -> "subprocess.Popen[bytes]":
        words = [str(zoo), "storm", str(dice.randrange(10**6)), "3000"]
        return subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=group
        )

    leader = subprocess.Popen(["sleep", "600"], process_group=0)
    group = leader.pid
    everybody = [begin()]
    stopped: set[int] = set()
    ended = time.monotonic() + seconds
    try:
        with one.region.open("rb", buffering=0) as region:
            while time.monotonic() < ended:
                alive = [process for process in everybody if process.poll() is None]
                assert not [p.returncode for p in everybody if p.returncode in MISTAKE or p.returncode in (-11, -6, -7)]
                if len(alive) < count:
                    everybody.append(begin())
                victim = dice.choice(alive)
                if victim.pid in stopped:
                    stopped.discard(victim.pid)
                    victim.send_signal(signal.SIGCONT)
                elif dice.random() < 0.3:
                    victim.kill()
                elif len(stopped) < 3:
                    stopped.add(victim.pid)
                    victim.send_signal(signal.SIGSTOP)
                stopped &= {process.pid for process in alive}
                used = int.from_bytes(os.pread(region.fileno(), 8, USED_AT), "little")
                assert used <= limit * MIB
                time.sleep(dice.random() * 0.02)
    finally:
        os.killpg(group, signal.SIGKILL)
        for process in [leader, *everybody]:
            process.wait(60)
        while reap_orphan(first.pid):
            pass
        ctypes.CDLL(None).prctl(SUBREAPER, 0, 0, 0, 0)
    assert len(everybody) > count
    assert first.stdin is not None
    first.stdin.close()
    assert first.wait(60) == 0
    verdict = json.loads(node.sim("judge", check=False))
    assert all(judged["violations"] == 0 for judged in verdict), verdict
    last = one.run()
    assert last.used() == 412
    assert last(f"alloc 0 {limit - 412}") == 0


def reap_orphan(but: int) -> bool:
    """Take one that has ended and whose parent has, too, or wait for one that is about to. :returns: whether there was one."""
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        status = Path(f"/proc/{child}/cmdline")
        if int(child) != but and (not status.exists() or b"storm" in status.read_bytes() or not status.read_bytes()):
            try:
                os.waitpid(int(child), 0)
            except ChildProcessError:
                continue
            return True
    return False
