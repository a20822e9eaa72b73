"""The admission webhook over HTTP: ``POST /webhook`` around ``services.admission``."""

import time

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from hami_core_py.servers.backend_errors import BackendErrors
from hami_core_py.servers.http import operations
from hami_core_py.services.admission import JSON, AdmissionService, Answer

DRAINED_TIMES = 4
"""A body over the limit is read and thrown away up to so many times the limit, so that the sender gets our answer."""


class WebhookMetrics:
    """What the webhook counts of itself."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "hami_webhook_requests_total",
            "Admission reviews by outcome: allowed, patched, denied, unreadable or failed.",
            ("outcome",),
            registry=registry,
        )
        self.seconds = Histogram(
            "hami_webhook_request_duration_seconds",
            "Time from a review's complete body to its answer.",
            registry=registry,
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
        )


def create_app(service: AdmissionService, registry: CollectorRegistry) -> FastAPI:
    """The application: the webhook, probes and metrics."""
    metrics = WebhookMetrics(registry)
    BackendErrors(service.ask.errors, registry)

    async def webhook(request: Request) -> Response:
        try:
            body = await _read(request, service.max_body_bytes)
        except ClientDisconnect:
            return Response(status_code=400)
        began = time.perf_counter()
        content_type = request.headers.get("content-type", "")
        # Backends are strangers' code: a slow one must not hold up the probes and its neighbours' reviews.
        answer = service.too_large() if body is None else await run_in_threadpool(service.review, body, content_type)
        _count(metrics, answer, time.perf_counter() - began)
        return Response(answer.body, media_type=JSON)

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_route("/webhook", webhook, methods=["POST"])
    app.include_router(operations(service.missing, registry))
    app.add_exception_handler(HTTPException, _plain_error)
    return app


def _count(metrics: WebhookMetrics, answer: Answer, seconds: float) -> None:
    metrics.requests.labels(answer.outcome).inc()
    metrics.seconds.observe(seconds)


async def _read(request: Request, max_bytes: int) -> bytes | None:
    """The whole body; ``None`` when it is too large to be kept."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size < max_bytes:
            chunks.append(chunk)
        else:
            chunks.clear()
            if size > max_bytes * DRAINED_TIMES:
                break
    return None if size >= max_bytes else b"".join(chunks)


async def _plain_error(_request: Request, problem: Exception) -> Response:
    """Unknown paths and methods, in plain text for whoever tries the port by hand."""
    status, detail = (
        (problem.status_code, problem.detail) if isinstance(problem, HTTPException) else (500, str(problem))
    )
    return PlainTextResponse(f"{detail}\n", status_code=status)
