"""The command ``hami``: one sub-command per process, and those that serve people."""

import logging
from importlib import import_module

import click

COMMANDS = {
    "admit": "what the webhook would do with a pod",
    "backends": "which backends are loaded, their versions and hooks",
    "bench": "measure the real servers",
    "certificates": "make and renew an installation's certificates",
    "certify": "try a limiter, anybody's, on simulated devices",
    "config": "check a configuration file",
    "device-plugin": "run the node agent",
    "doctor": "what is wrong with an installation",
    "explain": "where a pod fits, and why not elsewhere",
    "lab": "the whole system on this machine, without a cluster or a GPU",
    "monitor": "run the monitor",
    "run": "hold a program of this machine to a share of a device",
    "scheduler": "run the kube-scheduler extender",
    "status": "nodes, devices and shares",
    "support-bundle": "what to attach to a question, without secrets",
    "webhook": "run the admission webhook",
}


class LazyGroup(click.Group):
    """Imports a sub-command when it is run, so that ``hami status`` does not load the servers."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Names of all sub-commands."""
        return sorted(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """The sub-command ``hami_core_py.commands.<name>:command``."""
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"hami_core_py.commands.{name.replace('-', '_')}").command
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="hami", prog_name="hami")
def main() -> None:
    """Share, isolate and schedule accelerators on Kubernetes."""
    # What a person asked for goes to standard output; the processes set up their own log.
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s: %(message)s")
