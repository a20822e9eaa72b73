"""Where the commands that answer questions get their objects from: files saved by ``kubectl get -o json``, or a cluster."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import orjson
import yaml

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import NotFound
from hami_core_py.codecs.loaders import FAST, leave_times
from hami_core_py.codecs.policies import parse_chain
from hami_core_py.decisions.admission import Rules
from hami_core_py.decisions.pod_shape import kind_of, misshapen
from hami_core_py.errors import BackendError, BadInputError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import PodView, node_view, pod_view
from hami_core_py.services.snapshot import JsonObject, Snapshot, identified, items_of
from hami_core_py.settings import PlacementSettings, Settings


class _Loader(FAST):  # type: ignore[misc]
    pass


leave_times(_Loader)

FILE = click.Path(path_type=Path)
"""A file to read. Whoever reads it says what is wrong with it, so that programs are told in the way they can read."""


def read_objects(path: Path, kind: str) -> Sequence[JsonObject]:
    """Objects of one kind from a file, JSON or YAML. :raises BadInputError: names file, and line or object."""
    found = items_of(_read(path), str(path))
    for number, item in enumerate(found, start=1):
        where = f"{path}: object {number}"
        # Saved lists, and hand-made objects, may leave out their kind.
        if item.get("kind", kind) != kind:
            raise BadInputError(where, f"a {kind}", str(item["kind"]))
        metadata = item.get("metadata")
        if not (isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str) and metadata["name"]):
            raise BadInputError(where, f"a {kind} with metadata.name", "one without")
        if not _has_shape(item, kind):
            problem = (misshapen(item) if kind == "Pod" else None) or "fields of other types"
            raise BadInputError(f"{where} ({metadata['name']})", f"a {kind} as the API spells it", problem)
    return found


def _has_shape(item: JsonObject, kind: str) -> bool:
    """Whether the parts that we read are texts and objects where the API has them."""
    try:
        view = node_view(item) if kind == "Node" else pod_view(item)
        texts = [*view.annotations.values(), *([view.uid, view.node] if isinstance(view, PodView) else [])]
    except (TypeError, AttributeError, KeyError):
        return False
    return all(isinstance(text, str) for text in texts)


def read_pod(text: str, client: Client | None) -> JsonObject:
    """The pod that a command names: the first of a manifest file, or ``namespace/name`` of a cluster.

    :raises BadInputError: neither is there.
    """
    path = Path(text)
    if path.is_file():
        documents = _read_all(path)
        found = [item for document in documents for item in _pods(document)]
        if not found:
            raise BadInputError(text, "a Pod", ", ".join(sorted(set(map(_kind_named, documents)))) or "nothing")
        return found[0]
    namespace, slash, name = text.partition("/")
    if not slash or not name or path.suffix in (".yaml", ".yml", ".json"):
        raise BadInputError(text, "a manifest file that exists, or namespace/name", "neither")
    if client is None:
        raise BadInputError(text, "a cluster to read it from", "none", "give --kubeconfig, or a manifest file")
    try:
        return client.get(join_path("api", "v1", "namespaces", namespace, "pods", name))
    except NotFound as problem:
        raise BadInputError(text, "a pod that exists", "none") from problem


def find_pod(text: str, pods: Sequence[JsonObject]) -> JsonObject | None:
    """The pod of a saved list that a command names as ``namespace/name``; ``None``: it is not in there."""
    found = (
        pod for pod in pods if f"{pod['metadata'].get('namespace') or 'default'}/{pod['metadata']['name']}" == text
    )
    return next(map(identified, found), None)


def read_cluster(
    client: Client | None, nodes: Path | None, pods: Path | None
) -> tuple[Sequence[JsonObject], Sequence[JsonObject]]:
    """Nodes and pods, from files where given, else from the cluster. Without pods no device is in use."""
    if nodes is not None:
        return read_objects(nodes, "Node"), read_objects(pods, "Pod") if pods else []
    if client is None:
        raise BadInputError("--nodes", "a file of nodes, or a cluster", "neither", "give --nodes or --kubeconfig")
    return client.list("/api/v1/nodes")[0], read_objects(pods, "Pod") if pods else client.list("/api/v1/pods")[0]


def snapshot_of(nodes: Sequence[JsonObject], pods: Sequence[JsonObject], ask: Ask, settings: Settings) -> Snapshot:
    """The cluster that these objects make up, judged as the running scheduler would under the same settings."""
    return Snapshot(
        nodes,
        pods,
        ask,
        policies=default_policies(settings.placement),
        trust_v210=settings.wire.trust,
        needs_allocatable=settings.nodes.liveness == "allocatable",
    )


def default_policies(placement: PlacementSettings) -> Policies:
    """The configured policies of pods that name none. :raises BadInputError: a word is not known."""
    chain = parse_chain(placement.device_policy, "placement.devicePolicy")
    return Policies(node=placement.node_policy, device=chain or ("spread",))


def admission_rules(settings: Settings) -> Rules:
    """What the settings say about admission, as the decision wants it. :raises BadInputError: a policy is not known."""
    webhook = settings.webhook
    return Rules(
        scheduler_name=webhook.scheduler_name,
        force_overwrite_default_scheduler=webhook.force_overwrite_default_scheduler,
        min_annotation_room_bytes=webhook.min_annotation_room_bytes,
        policies=default_policies(settings.placement),
        trusted_users=webhook.trusted_users,
    )


def _pods(document: Any) -> Sequence[JsonObject]:
    if isinstance(document, Mapping) and document.get("kind") == "Pod":
        return [document]
    if isinstance(document, Mapping) and isinstance(document.get("items"), list):
        return [item for item in document["items"] if isinstance(item, Mapping) and item.get("kind", "Pod") == "Pod"]
    # Saved objects of a list, and hand-made ones, may leave out their kind.
    if isinstance(document, Mapping) and "kind" not in document and isinstance(document.get("spec"), Mapping):
        return [document]
    return []


def _kind_named(document: Any) -> str:
    kind = document.get("kind") if isinstance(document, Mapping) else None
    return str(kind) if kind is not None else kind_of(document)


def _read(path: Path) -> Any:
    documents = _read_all(path)
    return documents[0] if len(documents) == 1 else documents


def _read_all(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return [orjson.loads(text)]
        documents = [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
        # YAML has values that no object of the API can hold: bytes, sets, objects within themselves.
        return [orjson.loads(orjson.dumps(document)) for document in documents]
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInputError(str(path), "a readable file", str(problem)) from problem
    except (yaml.YAMLError, ValueError, TypeError) as problem:
        mark = getattr(problem, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise BadInputError(where, "JSON or YAML", " ".join(str(problem).split())) from problem


def say_bad_input(problem: Exception, output: str, command: str) -> None:
    """What was wrong with the input: an object for programs on standard output, a sentence for people on the other."""
    if output == "json":
        fields = {"where": command, "expected": "a call that succeeds", "got": str(problem), "hint": ""}
        if isinstance(problem, BackendError):
            what = f"backend {problem.backend!r}" + (f", {problem.hook}" if problem.hook else "")
            fields |= {"where": what, "expected": "a backend that can be used", "got": problem.problem}
        if isinstance(problem, BadInputError):
            fields = {name: getattr(problem, name) for name in ("where", "expected", "got", "hint")}
        click.echo(json.dumps({"error": fields}, indent=2))
    else:
        click.echo(f"error: {problem}", err=True)
