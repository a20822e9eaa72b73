"""``hami doctor``: what is wrong with an installation, in the cluster or on this node."""

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console
from rich.text import Text

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.cluster.nodes import get_node
from hami_core_py.commands.common import EXIT_BAD_INPUT, EXIT_NO, Loaded, configure_logging, load
from hami_core_py.commands.definitions import definition
from hami_core_py.commands.sources import FILE, default_policies, say_bad_input
from hami_core_py.decisions.doctor.checks import Finding, Severity
from hami_core_py.decisions.doctor.cluster import CLUSTER_CHECKS
from hami_core_py.decisions.doctor.facts import BackendFacts
from hami_core_py.decisions.doctor.host import HOST_CHECKS
from hami_core_py.decisions.doctor.versions import minor_of
from hami_core_py.errors import BackendError, HamiError
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.services.doctor.cluster import Gathered, Settings, facts_of, gather

FOLDER = click.Path(path_type=Path)
API_SECONDS = 30.0


@click.command()
@click.option("--node", "on_node", is_flag=True, help="Look at this node instead: run it where the node agent runs.")
@click.option("--kubeconfig", type=FOLDER, envvar="KUBECONFIG", help="Cluster to ask; default: the one this runs in.")
@click.option("--config", type=FILE, help="Device configuration (YAML); default: the one that lies in the cluster.")
@click.option(
    "--namespace", "namespaces", multiple=True, help="Where HAMi runs, if nothing there tells; may be repeated."
)
@click.option(
    "--scheduler-config", "configs", type=FILE, multiple=True, help="Configuration of a kube-scheduler of your own."
)
@click.option("--node-name", envvar="NODE_NAME", help="With --node: this node's name; default: $NODE_NAME.")
@click.option("--backend", "backends", multiple=True, help="With --node: ask only this backend for devices.")
@click.option("--kubelet-dir", type=FOLDER, help="With --node: holds device-plugins and pod-resources.")
@click.option("--state-dir", type=FOLDER, help="With --node: holds what containers mount.")
@click.option("--cdi-dir", type=FOLDER, help="With --node: where the runtime looks for CDI specs.")
@click.option(
    "--containerd-config",
    type=FOLDER,
    default=Path("/etc/containerd/config.toml"),
    show_default=True,
    help="With --node: configuration of the container runtime.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    on_node: bool,
    kubeconfig: Path | None,
    config: Path | None,
    namespaces: tuple[str, ...],
    configs: tuple[Path, ...],
    node_name: str | None,
    backends: tuple[str, ...],
    kubelet_dir: Path | None,
    state_dir: Path | None,
    cdi_dir: Path | None,
    containerd_config: Path,
    output: str,
) -> None:
    """Find mistakes of an installation. Exits 0 when there are none, 1 when there are, 2 when it cannot be asked.

    Advice alone leaves the exit code at 0. docs/how-to/doctor.md explains every finding.
    """
    configure_logging("critical")  # what would be logged is part of the answer
    try:
        if on_node:
            folders = {"agent.kubelet_dir": kubelet_dir, "agent.state_dir": state_dir, "agent.cdi_dir": cdi_dir}
            loaded = load(config, folders)
            runtime, unseen = _runtime(kubeconfig, node_name)
            findings = examine_node(loaded, backends, containerd_config, runtime)
            checked = [check.code for check in HOST_CHECKS]
        else:
            gathered = gather(
                Client.from_kubeconfig(kubeconfig, timeout_seconds=API_SECONDS, agent="hami-doctor"), namespaces
            )
            texts = [(str(path), path.read_text(encoding="utf-8")) for path in configs]
            findings, unseen = examine_cluster(gathered, config, texts)
            checked = [check.code for check in CLUSTER_CHECKS]
    except (HamiError, ApiError, OSError, UnicodeDecodeError) as problem:
        say_bad_input(problem, output, "hami doctor")
        raise SystemExit(EXIT_BAD_INPUT) from problem
    healthy = not any(one.severity is Severity.PROBLEM for one in findings)
    if output == "json":
        answer = {
            "healthy": healthy,
            "findings": [as_json(one) for one in findings],
            "checked": checked,
            "unseen": unseen,
        }
        click.echo(json.dumps(answer, indent=2))
    else:
        _print(Console(soft_wrap=True, markup=False), findings, len(checked), unseen)
    if not healthy:
        raise SystemExit(EXIT_NO)


def examine_cluster(
    gathered: Gathered, config: Path | None, scheduler_configs: Iterable[tuple[str, str]] = ()
) -> tuple[Sequence[Finding], list[str]]:
    """Findings about a cluster, and what could not be looked at.

    :raises HamiError: the given configuration cannot be used.
    """
    loaded, problem, unseen = settings_of(gathered, config)
    facts = facts_of(gathered, loaded.ask, _cluster_settings(loaded, problem), scheduler_configs=scheduler_configs)
    unseen += [f"{kind}: {why}" for kind, why in sorted(gathered.unseen.items())]
    return CLUSTER_CHECKS.diagnose(facts), unseen + [f"{what}: its shape is not known" for what in facts.unread]


def settings_of(gathered: Gathered, config: Path | None) -> tuple[Loaded, str, list[str]]:
    """The settings of the cluster's processes, why they refuse them, and what of them cannot be known here."""
    text = gathered.device_config()
    if config is not None or not text:
        return load(config), "", [] if config or text else ["device configuration: no ConfigMap of ours holds one"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "device-config.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            return load(path), "", []
        except BackendError as problem:
            # This machine need not have every backend of the cluster.
            return load(None), "", [f"backends of the cluster: {problem}"]
        except HamiError as problem:
            return load(None), str(problem).replace(str(path), path.name), []


def examine_node(
    loaded: Loaded, backends: tuple[str, ...], containerd_config: Path, containerd: tuple[int, int] | None
) -> Sequence[Finding]:
    """Findings about this node."""
    from hami_core_py.servers.deviceplugin import cdi_names
    from hami_core_py.services.doctor.host import HostPlaces, host_facts

    agent = loaded.settings.agent
    places = HostPlaces(
        kubelet_dir=agent.kubelet_dir.absolute(),
        state_dir=agent.state_dir.absolute(),
        cdi_dir=agent.cdi_dir.absolute(),
        runtime_config=containerd_config,
        identity=agent.identity,
        backends=backends,
        containerd=containerd,
        cdi_names=cdi_names,
    )
    return HOST_CHECKS.diagnose(host_facts(loaded.ask, places))


def as_json(finding: Finding) -> dict[str, Any]:
    """One finding for programs."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "subject": finding.subject,
        "problem": finding.problem,
        "fix": finding.fix,
        "page": finding.page,
    }


def _cluster_settings(loaded: Loaded, problem: str) -> Settings:
    settings = loaded.settings
    return Settings(
        backends=tuple(backend_facts(backend) for backend in loaded.ask.backends.loaded),
        policies=default_policies(settings.placement),
        scheduler_names=frozenset({settings.webhook.scheduler_name}),
        publishes_totals=settings.nodes.publish_totals,
        trust_v210=settings.wire.trust,
        problem=problem,
    )


def backend_facts(backend: LoadedBackend) -> BackendFacts:
    """What checks need to know of a backend."""
    stated = definition(backend)
    switch = stated.get("everyPod")
    return BackendFacts(
        name=backend.info.name,
        has_agent="agent" in stated and not backend.info.stands_in,
        every_pod=bool(switch and stated["settings"].get(switch)),
        pod_keys=frozenset(stated["bookkeeping"]["pods"]),
        node_keys=frozenset(stated["bookkeeping"]["nodes"]),
    )


def _runtime(kubeconfig: Path | None, node: str | None) -> tuple[tuple[int, int] | None, list[str]]:
    """containerd's version, by the word of this node's kubelet; a node alone can be looked at as well."""
    if not node:
        return None, ["container runtime's version: give --node-name"]
    try:
        client = Client.from_kubeconfig(kubeconfig, timeout_seconds=3.0, agent="hami-doctor")
        info = (get_node(client, node).get("status") or {}).get("nodeInfo") or {}
    except HamiError as problem:
        return None, [f"container runtime's version: {problem}"]
    stated = str(info.get("containerRuntimeVersion") or "")
    return (minor_of(stated) if stated.startswith("containerd") else None), []


def _print(console: Console, findings: Sequence[Finding], checked: int, unseen: Sequence[str]) -> None:
    styles: dict[Severity, Literal["bold red", "bold yellow"]] = {
        Severity.PROBLEM: "bold red",
        Severity.ADVICE: "bold yellow",
    }
    for one in findings:
        console.print(Text(f"{one.severity.value}  {one.code}", style=styles[one.severity]))
        console.print(Text(f"  {one.subject}: {one.problem}"))
        console.print(Text(f"  {one.fix}", style="dim"))
        console.print(Text(f"  {one.page}", style="dim"))
    for what in unseen:
        console.print(Text(f"not looked at: {what}", style="dim"))
    problems = sum(one.severity is Severity.PROBLEM for one in findings)
    if problems:
        console.print(
            Text(f"{problems} problems, {len(findings) - problems} advice, of {checked} checks", style="bold")
        )
    else:
        console.print(Text(f"no problem found by {checked} checks, {len(findings)} advice", style="bold green"))
