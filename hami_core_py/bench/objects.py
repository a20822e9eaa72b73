"""``python -m hami_core_py.bench.objects``: the least API server that a scheduler can learn its cluster from.

It lists and watches nodes and pods from files, makes events at a steady rate, and accepts every write without keeping it.
"""

import asyncio
import itertools
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import orjson

from hami_core_py.services.snapshot import items_of

JsonObject = dict[str, Any]


class Objects:
    """The cluster that is served, and the events made of it.

    A pod event is one bound pod that ends, or its successor that takes its place, in turns. A node change turns the health of
    the node's first device, where our own agent states it.
    """

    def __init__(self, nodes: list[JsonObject], pods: list[JsonObject], seed: int = 0) -> None:
        self.collections = {"/api/v1/nodes": nodes, "/api/v1/pods": pods}
        self.watches: dict[str, set[asyncio.Queue[bytes]]] = {path: set() for path in self.collections}
        self._chance = random.Random(seed)  # noqa: S311 - made-up load, not a secret
        self._versions = itertools.count(1000)
        self._serial = itertools.count(1)
        self._gone: JsonObject | None = None
        for items in self.collections.values():
            for item in items:
                item["metadata"]["resourceVersion"] = str(next(self._versions))
        self._bound = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName")]

    def change_pod(self) -> None:
        """One pod event."""
        if self._gone is not None:
            pod, self._gone = self._gone, None
            serial = next(self._serial)
            metadata = {**pod["metadata"], "uid": f"uid-again-{serial}", "name": f"again-{serial}"}
            pod = {**pod, "metadata": metadata}
            self._bound.append(pod)
            self._tell("/api/v1/pods", "ADDED", pod)
        elif self._bound:
            position = self._chance.randrange(len(self._bound))
            self._bound[position], self._bound[-1] = self._bound[-1], self._bound[position]
            self._gone = self._bound.pop()
            self._tell("/api/v1/pods", "DELETED", self._gone)

    def change_node(self) -> None:
        """One node event."""
        node = self._chance.choice(self.collections["/api/v1/nodes"])
        annotations = node["metadata"].setdefault("annotations", {})
        for key, text in annotations.items():
            if key.endswith("-inventory"):
                inventory = json.loads(text)
                first = inventory["devices"][0]
                first["healthy"] = not first["healthy"]
                annotations[key] = json.dumps(inventory, separators=(",", ":"))
        annotations["bench.hami.io/change"] = str(next(self._serial))
        self._tell("/api/v1/nodes", "MODIFIED", node)

    def page(self, path: str, limit: int, offset: int) -> bytes:
        """One page of a list."""
        items = self.collections[path]
        page = items[offset : offset + limit]
        following = str(offset + limit) if offset + limit < len(items) else ""
        metadata = {"resourceVersion": "1000", "continue": following}
        return orjson.dumps({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page})

    def _tell(self, path: str, kind: str, item: JsonObject) -> None:
        item["metadata"]["resourceVersion"] = str(next(self._versions))
        line = orjson.dumps({"type": kind, "object": item}) + b"\n"
        for queue in self.watches[path]:
            queue.put_nowait(line)


async def _answer(objects: Objects, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, request after request."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode("latin-1").split("\r\n")
            method, target, _ = lines[0].split(" ", 2)
            fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = await reader.readexactly(int(fields.get("content-length", "0")))
            url = urlsplit(target)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            if method == "GET" and url.path in objects.collections:
                if query.get("watch") == "true":
                    await _watch(objects, url.path, writer)
                    return
                limit, offset = int(query.get("limit", "500")), int(query.get("continue", "0"))
                _write(writer, objects.page(url.path, limit, offset))
            else:
                _write(writer, body if body.startswith(b"{") else b"{}")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _watch(objects: Objects, path: str, writer: asyncio.StreamWriter) -> None:
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    objects.watches[path].add(queue)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    try:
        while True:
            line = await queue.get()
            writer.write(b"%x\r\n%s\r\n" % (len(line), line))
            await writer.drain()
    finally:
        objects.watches[path].discard(queue)


def _write(writer: asyncio.StreamWriter, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


async def _every(rate: float, change: Any) -> None:
    """Call so many times a second."""
    while rate > 0:
        await asyncio.sleep(1 / rate)
        change()


async def _serve(objects: Objects, pod_events: float, node_changes: float) -> None:
    server = await asyncio.start_server(lambda r, w: _answer(objects, r, w), "127.0.0.1", 0, limit=2**20)
    host, port = server.sockets[0].getsockname()[:2]
    click.echo(f"http://{host}:{port}")
    async with server, asyncio.TaskGroup() as tasks:
        tasks.create_task(_every(pod_events, objects.change_pod))
        tasks.create_task(_every(node_changes, objects.change_node))
        tasks.create_task(server.serve_forever())


@click.command()
@click.option("--nodes", type=click.Path(path_type=Path), required=True)
@click.option("--pods", type=click.Path(path_type=Path), required=True)
@click.option("--pod-events", type=float, default=0.0, help="Per second.")
@click.option("--node-changes", type=float, default=0.0, help="Per second.")
def main(nodes: Path, pods: Path, pod_events: float, node_changes: float) -> None:
    """Serve objects from files until the process is ended."""
    found = [[dict(item) for item in items_of(orjson.loads(p.read_bytes()), str(p))] for p in (nodes, pods)]
    asyncio.run(_serve(Objects(found[0], found[1]), pod_events, node_changes))


if __name__ == "__main__":
    main()
