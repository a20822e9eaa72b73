"""``python -m tests.cluster [PYTEST ARGUMENT ...]``: build what is missing, then run the cluster tests.

As root they run in mount, network and process namespaces of their own: the node's folders lie over the machine's only
there, its bridge exists only there, and whatever a test has started ends with the tests, even when they are killed.
Without root, or on a machine that refuses namespaces, the tests that need a node are skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.build import build
from tests.cluster.node import INSIDE
from tests.cluster.our_images import OUTSIDE
from tests.cluster.releases import Release

ASKED = "HAMI_CLUSTER_TESTS"
NAMESPACES = (
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--propagation",
    "private",
)
# The shell is the first process of the namespace and so the one that buries orphans; it must not replace itself.
SCRIPT = 'ip link set lo up && "$@"; exit $?'


def main(arguments: list[str]) -> int:
    """Build, then run pytest; its exit status."""
    build(Release.chosen())
    folder = Path(__file__).parent
    pytest = [sys.executable, "-m", "pytest", *(arguments or [str(folder)])]
    env = {**os.environ, ASKED: "1"}
    if os.geteuid() == 0:
        network = os.open("/proc/self/ns/net", os.O_RDONLY)
        env |= {INSIDE: "1", OUTSIDE: str(network)}
        command = [*NAMESPACES, "sh", "-c", SCRIPT, "sh", *pytest]
        return subprocess.run(command, env=env, pass_fds=[network], check=False).returncode
    return subprocess.run(pytest, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
