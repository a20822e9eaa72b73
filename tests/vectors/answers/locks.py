"""The node lock, put to a real API server: the lab's."""

import atexit
import re
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import NotFound
from hami_core_py.cluster.locks import LockHeld, LockUnreadable, NodeLocks
from hami_core_py.codecs.locks import parse_lock
from hami_core_py.errors import BadInputError
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from hami_core_py.lab.apiserver.server import ApiServer
from hami_core_py.models.families import SHARED_LOCK
from tests.vectors.files import Vector

Json = dict[str, Any]

NODE = "n"
PATH = f"/api/v1/nodes/{NODE}"
RELATIVE_TIME = re.compile(r"\{now-(\d+)s\}")


@lru_cache(maxsize=1)
def _client() -> Client:
    server = ApiServer().start()
    atexit.register(server.stop)
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    path = Path(folder.name) / "kubeconfig"
    write_kubeconfig(path, server.url)
    client = Client.from_kubeconfig(path)
    for namespace in ("x", "y"):
        client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    return client


def nodelock(vector: Vector) -> Json:
    client = _client()
    _prepare(client, vector.input)
    locks = NodeLocks(client)
    steps = []
    for number, op in enumerate(vector.input["ops"]):
        steps.append(_step(client, locks, op, vector.expected["steps"][number]))
    return {"steps": steps}


def _prepare(client: Client, given: Json) -> None:
    with suppress(NotFound):
        client.delete(PATH)
    text = RELATIVE_TIME.sub(_stamp, given["lock"])
    annotations = {SHARED_LOCK.key: text} if text else {}
    client.create("/api/v1/nodes", {"metadata": {"name": NODE, "annotations": annotations}})
    for name in ("x/p", "x/q", "y/q"):
        with suppress(NotFound):
            client.delete(_pod_path(name), {"gracePeriodSeconds": 0})
    for name in given["existingPods"]:
        collection, _, pod = _pod_path(name).rpartition("/")
        client.create(collection, {"metadata": {"name": pod}, "spec": {"containers": [{"name": "c", "image": "c"}]}})


def _pod_path(name: str) -> str:
    namespace, pod = name.split("/")
    return f"/api/v1/namespaces/{namespace}/pods/{pod}"


def _stamp(match: re.Match[str]) -> str:
    return (datetime.now(UTC) - timedelta(seconds=int(match[1]))).strftime("%Y-%m-%dT%H:%M:%SZ")


def _step(client: Client, locks: NodeLocks, op: Json, expected: Json) -> Json:
    before = _text(client)
    held = failed = False
    try:
        if op["op"] == "lock":
            locks.take(NODE, op["namespace"], op["pod"])
        else:
            locks.release(NODE, op["namespace"], op["pod"])
    except LockHeld:
        held = failed = True
    except LockUnreadable:
        failed = True
    after = _text(client)
    step: Json = {
        "ok": not failed,
        "contention": held,
        "lockPresent": after is not None,
        "unchanged": before == after,
    }
    if after is not None:
        with suppress(BadInputError):
            lock = parse_lock(after)
            step["owner"] = f"{lock.namespace}/{lock.pod}"
    if failed:
        step["message"] = expected.get("message")
    return step


def _text(client: Client) -> str | None:
    text: str | None = (client.get(PATH)["metadata"].get("annotations") or {}).get(SHARED_LOCK.key)
    return text


KINDS = {"nodelock": nodelock}
