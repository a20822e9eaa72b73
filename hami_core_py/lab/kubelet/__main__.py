"""``python -m hami_core_py.lab.kubelet``: one kubelet in a process of its own."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from hami_core_py.lab.kubelet.kubelet import Kubelet
from hami_core_py.lab.kubelet.options import KubeletOptions
from hami_core_py.process import configure_logging


def pairs(text: str) -> dict[str, str]:
    """``name=value,name=value`` as a dictionary."""
    found = {}
    for part in filter(None, text.split(",")):
        name, separator, value = part.partition("=")
        if not separator or not name or not value:
            raise argparse.ArgumentTypeError(f"expected NAME=VALUE,NAME=VALUE, got {part!r}")
        found[name] = value
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run until a signal. SIGTERM leaves the containers for the next kubelet, as a real one does; SIGINT ends them."""
    parser = argparse.ArgumentParser(prog="python -m hami_core_py.lab.kubelet", description=main.__doc__)
    parser.add_argument("--node", required=True, help="name of the Node")
    parser.add_argument("--api", required=True, metavar="URL", help="the API server, such as http://127.0.0.1:8001")
    parser.add_argument("--root", required=True, type=Path, metavar="DIR", help="what would be /var/lib/kubelet")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="where containers' output goes (default ROOT/logs)")
    parser.add_argument("--capacity", type=pairs, default={}, metavar="cpu=..,memory=..,pods=..")
    parser.add_argument("--labels", type=pairs, default={}, metavar="NAME=VALUE,..", help="further labels of the Node")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="variable of all containers")
    parser.add_argument("--retry-seconds", type=float, default=1.0, help="between attempts to create a container")
    parser.add_argument("--backoff-seconds", type=float, default=1.0, help="first delay of a crashing container")
    parser.add_argument("--heartbeat-seconds", type=float, default=10.0, help="between node status and Lease updates")
    parser.add_argument("--status-seconds", type=float, default=1.0, help="how long changed devices go unreported")
    parser.add_argument("--seed", type=int, help="makes the order of device ids repeatable")
    given = parser.parse_args(arguments)
    configure_logging()
    options = KubeletOptions(
        node=given.node,
        api_url=given.api,
        root=given.root.resolve(),
        logs=given.logs.resolve() if given.logs else None,
        capacity=given.capacity,
        labels=given.labels,
        env=dict(pair.split("=", 1) for pair in given.env if "=" in pair),
        retry_seconds=given.retry_seconds,
        backoff_seconds=given.backoff_seconds,
        heartbeat_seconds=given.heartbeat_seconds,
        status_seconds=given.status_seconds,
        seed=given.seed,
    )
    try:
        kubelet = Kubelet(options)
    except ValueError as error:
        parser.error(str(error))
    done = threading.Event()
    received: list[int] = []

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        done.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    kubelet.start()
    done.wait()
    kubelet.stop(leave_containers=received[0] == signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main())
