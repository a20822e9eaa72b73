"""``hami support-bundle``: what to attach to a question, in one file, without secrets."""

import io
import platform
import tarfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.commands.backends import describe
from hami_core_py.commands.common import EXIT_BAD_INPUT, configure_logging, fail
from hami_core_py.commands.doctor import API_SECONDS, FOLDER, as_json, backend_facts, examine_cluster, settings_of
from hami_core_py.commands.explain import as_json as explanation_as_json
from hami_core_py.commands.sources import FILE, default_policies
from hami_core_py.errors import HamiError
from hami_core_py.models.views import pod_view
from hami_core_py.services.bundle import bundle_files
from hami_core_py.services.doctor.cluster import Gathered, gather
from hami_core_py.services.snapshot import Snapshot


@click.command(name="support-bundle")
@click.option(
    "-o", "--output", type=FOLDER, default=Path("hami-support.tar.gz"), show_default=True, help="File to write."
)
@click.option("--kubeconfig", type=FOLDER, envvar="KUBECONFIG", help="Cluster to ask; default: the one this runs in.")
@click.option("--config", type=FILE, help="Device configuration (YAML); default: the one that lies in the cluster.")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Where HAMi runs, if nothing there tells; may be repeated."
)
def command(output: Path, kubeconfig: Path | None, config: Path | None, namespaces: tuple[str, ...]) -> None:
    """Collect versions, settings, relevant objects, the doctor's findings and why pods are pending.

    Secrets stay out; look into it all the same before you send it. Exits 2 when the cluster cannot be asked.
    """
    configure_logging("critical")
    try:
        client = Client.from_kubeconfig(kubeconfig, timeout_seconds=API_SECONDS, agent="hami-support-bundle")
        files = collect(gather(client, namespaces, events=True), config)
        output.write_bytes(pack(files, int(time.time())))
    except (HamiError, ApiError, OSError) as problem:
        fail(str(problem), EXIT_BAD_INPUT)
    click.echo(f"{output}: {len(files)} files; read it before you send it")


def collect(gathered: Gathered, config: Path | None) -> dict[str, str]:
    """The files of a bundle by name. :raises HamiError: the given configuration cannot be used."""
    findings, unseen = examine_cluster(gathered, config)
    loaded, _, _ = settings_of(gathered, config)
    settings, ask = loaded.settings, loaded.ask
    snapshot = Snapshot(
        gathered.of("nodes"),
        gathered.of("pods"),
        ask,
        policies=default_policies(settings.placement),
        trust_v210=settings.wire.trust,
        needs_allocatable=settings.nodes.liveness == "allocatable",
    )

    def explain(pod: Mapping[str, Any]) -> dict[str, Any]:
        return explanation_as_json(snapshot.explain(pod_view(pod)), ask.families)

    more = {
        "versions.json": {
            "hami": version("hami"),
            "python": platform.python_version(),
            "api_server": gathered.version,
            "namespaces": sorted(gathered.namespaces),
            **describe(ask.backends),
        },
        "doctor.json": {"findings": [as_json(one) for one in findings], "unseen": unseen},
    }
    backends = [backend_facts(backend) for backend in ask.backends.loaded]
    return bundle_files(gathered, ask, backends, explain=explain, more=more)


def pack(files: Mapping[str, str], at: int) -> bytes:
    """A compressed archive with one folder. :param at: time of all files, seconds since the Unix epoch."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"hami-support/{name}")
            entry.size, entry.mtime, entry.mode = len(content), at, 0o600
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
