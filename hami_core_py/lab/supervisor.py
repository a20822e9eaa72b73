"""``python -m hami_core_py.lab.supervisor``: keep a lab running until SIGTERM."""

from pathlib import Path

import click

from hami_core_py.hooks.manager import load_backends
from hami_core_py.lab.cluster import LabCluster
from hami_core_py.lab.scenario import default_shape, load_scenario
from hami_core_py.lab.state import LabState
from hami_core_py.process import stop_event


@click.command()
@click.option("--dir", "directory", type=click.Path(path_type=Path), required=True)
@click.option("--scenario", type=click.Path(path_type=Path))
def main(directory: Path, scenario: Path | None) -> None:
    """Start a lab, say when it is ready, end it on SIGTERM."""
    stopped = stop_event()
    state = LabState(directory)
    state.begin()
    backends = load_backends()
    families = tuple(backends.families.values())
    own = sorted(f.name for b in backends.loaded if not b.info.stands_in for f in b.families)
    shape = load_scenario(scenario, backends.families).shape if scenario else default_shape(own)
    lab = LabCluster(directory, shape, families, state.tell)
    try:
        lab.start()
        state.ready({name: process.pid for name, process in lab.processes.items()})
        stopped.wait()
    finally:
        lab.stop()


if __name__ == "__main__":
    main()
