"""``python -m hami_core_py.lab.kubescheduler``: run the loop until SIGTERM."""

from pathlib import Path

import click

from hami_core_py.cluster.client import Client
from hami_core_py.lab.kubescheduler.extender import Extender, ExtenderConfig
from hami_core_py.lab.kubescheduler.loop import SchedulerLoop
from hami_core_py.process import configure_logging, stop_event


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path), required=True)
@click.option("--extender", required=True, help="Base URL of the extender.")
@click.option("--managed", multiple=True, help="Resource whose pods are sent to the extender.")
@click.option("--ignored", multiple=True, help="Managed resource that is left out of the loop's own filter.")
@click.option("--name", "names", multiple=True, default=("default-scheduler", "hami-scheduler"), show_default=True)
def main(
    kubeconfig: Path, extender: str, managed: tuple[str, ...], ignored: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """Run a small scheduler with one extender."""
    configure_logging()
    stopped = stop_event()
    config = ExtenderConfig(url=extender, managed=frozenset(managed), ignored=frozenset(ignored))
    asked = Extender(config)
    loop = SchedulerLoop(Client.from_kubeconfig(kubeconfig, agent="lab-scheduler"), asked, names)
    loop.start()
    stopped.wait()
    loop.stop()
    asked.close()


if __name__ == "__main__":
    main()
