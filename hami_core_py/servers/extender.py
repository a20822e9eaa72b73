"""The kube-scheduler extender protocol, version 1: raw JSON in, raw JSON out, around ``services.scheduling``.

Field names are taken in any case and answered capitalised, as kube-scheduler does. What cannot be read is answered in the
protocol's ``Error`` field with status 200, since kube-scheduler shows that text and not the body of another status.

Decisions run on the event loop, one at a time: they are short and hold the interpreter's lock anyway. Measured beside 300 pod
events a second, worker threads cost a fifth more at the median and twice as much at the 99th percentile. Bind waits for the
API server, so it has threads of its own.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.services.scheduling import FilterAnswer, Scheduling

log = logging.getLogger(__name__)

BIND_THREADS = 16
"""kube-scheduler itself binds up to its ``parallelism`` (16) pods at once."""

DRAINED_TIMES = 4
"""A body over the limit is read and thrown away up to so many times the limit, so that the sender gets our answer."""

JSON = "application/json"

JsonObject = dict[str, Any]
Answer = tuple[int, bytes]
"""Status and body."""
Verb = Callable[[Receive], Awaitable[Answer]]


class ExtenderMetrics:
    """What the extender counts of itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seconds = Histogram(
            "hami_extender_duration_seconds",
            "Time from a call's complete body to its answer.",
            ("verb",),
            registry=registry,
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0, 5.0),
        )
        self.calls = Counter("hami_extender_calls_total", "Calls by outcome.", ("verb", "outcome"), registry=registry)


class Extender:
    """The verbs of the protocol.

    :param max_body_bytes: longer bodies are refused.
    """

    def __init__(self, scheduling: Scheduling, registry: CollectorRegistry, *, max_body_bytes: int) -> None:
        self._scheduling, self._max_body_bytes = scheduling, max_body_bytes
        self._metrics = ExtenderMetrics(registry)
        self._binders = ThreadPoolExecutor(BIND_THREADS, thread_name_prefix="bind")

    def router(self) -> APIRouter:
        """Routes of all verbs, at the root and below ``/scheduler``."""
        router = APIRouter()
        for path, verb in self._verbs().items():
            router.add_route(path, _endpoint(verb), methods=["POST"])
        return router

    def around(self, app: ASGIApp) -> ASGIApp:
        """An application that answers the verbs without a detour and leaves everything else to ``app``.

        The layers of a framework cost as much CPU time as a decision, three times for each pod.
        """
        verbs = self._verbs()

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            is_post = scope["type"] == "http" and scope["method"] == "POST"
            verb = verbs.get(scope["path"]) if is_post else None
            if verb is None:
                await app(scope, receive, send)
                return
            status, body = await verb(receive)
            headers = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

        return answer

    def _verbs(self) -> dict[str, Verb]:
        verbs: dict[str, Verb] = {
            "/filter": self.filter,
            "/score": self.score,
            "/prioritize": self.score,
            "/preempt": self.preempt,
            "/bind": self.bind,
        }
        return {prefix + path: verb for prefix in ("", "/scheduler") for path, verb in verbs.items()}

    def close(self) -> None:
        """Wait for the binds in flight."""
        self._binders.shutdown(wait=True)

    async def filter(self, receive: Receive) -> Answer:
        """Which of these nodes can hold the pod, and why not the others."""

        def decide(body: JsonObject) -> tuple[JsonObject, str]:
            pod, names, nodes = _pod(body), _names(body), _nodes(body)
            answer = self._scheduling.filter(pod, names, nodes)
            return _filter_result(answer, nodes), answer.outcome

        return await self._serve(receive, "filter", decide, lambda text: _filter_result(FilterAnswer(error=text), None))

    async def score(self, receive: Receive) -> Answer:
        """How good each of these nodes is, as ranks from 10 to 0."""

        def decide(body: JsonObject) -> tuple[list[JsonObject], str]:
            names, nodes = _names(body), _nodes(body)
            if names is None:
                names = [_node_name(node) for node in nodes or ()]
            ranks = self._scheduling.score(_pod(body), names)
            return [{"Host": name, "Score": rank} for name, rank in ranks], "ranked"

        return await self._serve(receive, "score", decide, None)

    async def preempt(self, receive: Receive) -> Answer:
        """On which of these nodes would the pod fit once exactly these victims are gone."""

        def decide(body: JsonObject) -> tuple[JsonObject, str]:
            victims = _victims(body)
            kept = self._scheduling.preempt(_pod(body), {node: uids for node, (uids, _) in victims.items()})
            result = {
                node: {"Pods": [{"UID": uid} for uid in victims[node][0]], "NumPDBViolations": victims[node][1]}
                for node in kept
            }
            return {"NodeNameToMetaVictims": result}, "kept" if kept else "none"

        return await self._serve(receive, "preempt", decide, None)

    async def bind(self, receive: Receive) -> Answer:
        """Reserve the devices and create the Binding."""

        def decide(body: JsonObject) -> tuple[JsonObject, str]:
            namespace, name, uid, node = (_text(body, f) for f in ("PodNamespace", "PodName", "PodUID", "Node"))
            error = self._scheduling.bind(namespace, name, uid, node)
            return {"Error": error}, "refused" if error else "bound"

        return await self._serve(receive, "bind", decide, lambda text: {"Error": text}, threaded=True)

    async def _serve(
        self,
        receive: Receive,
        verb: str,
        decide: Callable[[JsonObject], tuple[Any, str]],
        error_result: Callable[[str], Any] | None,
        *,
        threaded: bool = False,
    ) -> Answer:
        """Read, decide, answer; whatever goes wrong becomes an answer.

        :param error_result: how the verb's answer carries an error; ``None``: it cannot, and a status of 400 or 500 does.
        """
        began = time.perf_counter()
        status = 200
        result: Any
        try:
            raw = await self._read(receive)
            began = time.perf_counter()
            if threaded:
                result, outcome = await asyncio.get_running_loop().run_in_executor(
                    self._binders, lambda: decide(_parse(raw))
                )
            else:
                result, outcome = decide(_parse(raw))
        except BadInputError as problem:
            result, outcome, status = str(problem), "bad-input", 400
        except HamiError as problem:
            result, outcome, status = str(problem), "failed", 500
        except ClientDisconnect:
            result, outcome, status = "the client went away", "gone", 400
        except Exception as problem:
            log.exception("call failed", extra={"verb": verb})
            result, outcome, status = f"internal error: {type(problem).__name__}: {problem}", "failed", 500
        if status != 200:
            if error_result is not None:
                result, status = error_result(result), 200
            else:
                result = {"Error": result}
        self._metrics.calls.labels(verb, outcome).inc()
        self._metrics.seconds.labels(verb).observe(time.perf_counter() - began)
        return status, orjson.dumps(result)

    async def _read(self, receive: Receive) -> bytes:
        """The whole body. :raises BadInputError: it is too long. :raises ClientDisconnect: it did not come to its end."""
        chunks: list[bytes] = []
        size = 0
        is_more = True
        while is_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            is_more = message.get("more_body", False)
            size += len(chunk)
            if size <= self._max_body_bytes:
                chunks.append(chunk)
            else:
                chunks.clear()
                if size > self._max_body_bytes * DRAINED_TIMES:
                    break
        if size > self._max_body_bytes:
            raise BadInputError("request body", f"at most {self._max_body_bytes} bytes", f"{size} or more")
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _endpoint(verb: Verb) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        status, body = await verb(request.receive)
        return Response(body, status_code=status, media_type=JSON)

    return answer


def _parse(raw: bytes) -> JsonObject:
    """The body's fields, their names in lower case."""
    if not raw.strip():
        raise BadInputError("request body", "a JSON object", "nothing")
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as problem:
        raise BadInputError("request body", "a JSON object", f"text that is not JSON ({problem})") from problem
    if not isinstance(body, dict):
        raise BadInputError("request body", "a JSON object", type(body).__name__)
    return _lower(body)


def _lower(fields: Mapping[str, Any]) -> JsonObject:
    return {name.lower(): value for name, value in fields.items()}


def _pod(body: JsonObject) -> JsonObject:
    pod = body.get("pod")
    if not isinstance(pod, dict):
        raise BadInputError("extender args: Pod", "a pod object", "nothing" if pod is None else type(pod).__name__)
    return pod


def _names(body: JsonObject) -> list[str] | None:
    names = body.get("nodenames")
    if names is None:
        return None
    # A set of types is made in C: thousands of names are checked in the time that a loop takes for a hundred.
    if not isinstance(names, list) or not set(map(type, names)) <= {str}:
        raise BadInputError("extender args: NodeNames", "a list of node names", "something else")
    return names


def _nodes(body: JsonObject) -> list[JsonObject] | None:
    nodes = body.get("nodes")
    if nodes is None:
        return None
    items = _lower(nodes).get("items") if isinstance(nodes, dict) else nodes
    items = [] if items is None else items
    if not isinstance(items, list) or not all(isinstance(node, dict) for node in items):
        raise BadInputError("extender args: Nodes", "a list of node objects", "something else")
    return items


def _node_name(node: JsonObject) -> str:
    metadata = node.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _text(body: JsonObject, field: str) -> str:
    value = body.get(field.lower())
    if not isinstance(value, str) or not value:
        raise BadInputError(f"extender binding args: {field}", "a text that is not empty", repr(value)[:80])
    return value


def _victims(body: JsonObject) -> dict[str, tuple[list[str], int]]:
    """Node → uids of its victims and the number of disruption budgets they break."""
    found: dict[str, tuple[list[str], int]] = {}
    for field in ("nodenametometavictims", "nodenametovictims"):
        given = body.get(field) or {}
        if not isinstance(given, dict):
            raise BadInputError(f"extender preemption args: {field}", "an object by node name", type(given).__name__)
        for node, entry in given.items():
            if node not in found:
                found[node] = _victims_of(entry, f"extender preemption args: {field}: {node}")
    return found


def _victims_of(entry: Any, where: str) -> tuple[list[str], int]:
    fields = _lower(entry) if isinstance(entry, dict) else {}
    pods = fields.get("pods") or []
    violations = fields.get("numpdbviolations") or 0
    if not isinstance(entry, dict) or not isinstance(pods, list) or not isinstance(violations, int):
        raise BadInputError(where, "victims: Pods and NumPDBViolations", repr(entry)[:80])
    uids = []
    for pod in pods:
        inner = _lower(pod) if isinstance(pod, dict) else {}
        metadata = inner.get("metadata")
        uid = inner.get("uid") or (metadata.get("uid") if isinstance(metadata, dict) else None)
        if not isinstance(uid, str):
            raise BadInputError(where, "a UID for every victim", repr(pod)[:80])
        uids.append(uid)
    return uids, violations


def _filter_result(answer: FilterAnswer, nodes: list[JsonObject] | None) -> JsonObject:
    result: JsonObject = {
        "Nodes": None,
        "NodeNames": answer.names,
        "FailedNodes": answer.failed or None,
        "FailedAndUnresolvableNodes": answer.unresolvable or None,
        "Error": answer.error,
    }
    if nodes is not None and not answer.error:
        kept = set(answer.names or ())
        result["Nodes"] = {"metadata": {}, "items": [node for node in nodes if _node_name(node) in kept]}
        result["NodeNames"] = None
    return result
