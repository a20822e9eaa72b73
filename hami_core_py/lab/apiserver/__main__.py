"""`python -m hami_core_py.lab.apiserver`: the API server as a process of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hami_core_py.lab.apiserver.journal import Journal
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from hami_core_py.lab.apiserver.listfile import objects_in
from hami_core_py.lab.apiserver.logs import logs_below
from hami_core_py.lab.apiserver.server import ApiServer
from hami_core_py.lab.apiserver.store import Store
from hami_core_py.process import configure_logging


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hami_core_py.lab.apiserver", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one (default)")
    parser.add_argument("--data", type=Path, help="directory that keeps the objects; without it they end with it")
    parser.add_argument("--pod-logs", type=Path, help="directory of <namespace>_<pod>_<uid>/<container>/<n>.log")
    parser.add_argument("--kubeconfig", type=Path, help="file to write for kubectl once the port is known")
    parser.add_argument(
        "--load", type=Path, action="append", default=[], help="file saved by kubectl get -o json to begin with"
    )
    options = parser.parse_args(arguments)
    configure_logging()
    store = Store()
    journal = Journal(options.data / "objects.jsonl", store.objects) if options.data else None
    store.seed_defaults()
    for path in options.load:
        store.load(objects_in(path))
    logs = logs_below(options.pod_logs) if options.pod_logs else None
    server = ApiServer(store, port=options.port, logs=logs)

    def tell() -> None:
        if options.kubeconfig:
            write_kubeconfig(options.kubeconfig, server.url)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()

    try:
        server.serve(on_listening=tell)
    finally:
        if journal is not None:
            journal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
