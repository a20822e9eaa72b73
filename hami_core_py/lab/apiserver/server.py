"""The API server as something to start and stop: in this process, or (by `__main__`) as one of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hami_core_py.lab.apiserver.admission import WebhookAdmission
from hami_core_py.lab.apiserver.faults import Faults
from hami_core_py.lab.apiserver.http import TRANSPORT, Api
from hami_core_py.lab.apiserver.logs import LogFile
from hami_core_py.lab.apiserver.store import Store
from hami_core_py.lab.loopback import free_ports

_START_LIMIT_S = 30.0
_STOP_LIMIT_S = 5.0  # for requests that have begun
_KEEP_ALIVE_S = 600  # idle connections stay, as on a real server: a client never finds one just closed


class ApiServer:
    """A store served on a loopback port.

    Stopping and starting again on the same port with the same store is an API server that was away for a while.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        port: int = 0,
        logs: LogFile | None = None,
        bookmark_s: float = 30.0,
    ) -> None:
        """
        :param store: what to serve; None for an empty cluster with its first namespaces. A store without admission
            gets the webhooks that are configured in it.
        :param port: 0 takes a free one.
        :param logs: where containers' logs are.
        :param bookmark_s: pause between bookmarks of a watch.
        """
        if store is None:
            store = Store()
            store.seed_defaults()
        self.store = store
        self.faults = Faults()
        self._logs = logs
        self._bookmark_s = bookmark_s
        self.port = port
        self._api: Api | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where the server listens. :raises RuntimeError: before the first start when the port was left open."""
        if not self.port:
            raise RuntimeError("API server: its port is not known before start(); call start() first")
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> ApiServer:
        """Serve from a thread; returns once requests are answered. :raises RuntimeError: when it cannot."""
        server, listener = self._prepare()
        self._thread = threading.Thread(target=server.run, args=([listener],), name="apiserver", daemon=True)
        self._thread.start()
        if not server.is_serving.wait(_START_LIMIT_S):
            raise RuntimeError(f"API server: expected it to serve within {_START_LIMIT_S:.0f} s; see the log")
        return self

    def stop(self) -> None:
        """End all watches, answer what has begun, and stop. Does nothing when it is not running."""
        if self._server is not None:
            self._server.ask_to_stop()
        if self._thread is not None:
            self._thread.join()
        if self._api is not None:
            self._api.close()
        self._api = self._server = self._thread = None

    def serve(self, *, on_listening: Callable[[], None] | None = None) -> None:
        """Serve in the calling (main) thread until SIGTERM or SIGINT.

        :param on_listening: called once `url` is known and connections are accepted.
        """
        server, listener = self._prepare()
        if on_listening is not None:
            on_listening()
        try:
            server.run([listener])
        finally:
            self.stop()

    @property
    def open_watches(self) -> int:
        """How many watches clients have open."""
        return self._api.open_watches if self._api is not None else 0

    def end_watches(self, *, is_expired: bool = False) -> int:
        """Cut every open watch, after a 410 when `is_expired`; answers how many there were."""
        return self._api.end_watches(is_expired=is_expired) if self._api is not None else 0

    def __enter__(self) -> ApiServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> tuple[_Server, socket.socket]:
        if self.store.admission is None:
            self.store.admission = WebhookAdmission(self.store.objects)
        admission = self.store.admission if isinstance(self.store.admission, WebhookAdmission) else None
        api = Api(self.store, admission=admission, faults=self.faults, logs=self._logs, bookmark_s=self._bookmark_s)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Not a port that a client's end of some connection may have when we come back to it.
        listener.bind(("127.0.0.1", self.port or free_ports(1)[0]))
        listener.listen(512)
        self.port = listener.getsockname()[1]
        config = uvicorn.Config(
            api,
            http=_Protocol,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        self._api, self._server = api, _Server(config, api)
        return self._server, listener


class _Server(uvicorn.Server):
    """Uvicorn that stops when told, not at its next look, and ends the watches before it waits for connections."""

    def __init__(self, config: uvicorn.Config, api: Api) -> None:
        super().__init__(config)
        self.is_serving = threading.Event()
        self._api = api
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = asyncio.Event()

    def ask_to_stop(self) -> None:
        """From any thread, or a signal handler."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._asked.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.ask_to_stop()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.on_tick(0)
        self.is_serving.set()
        if not self.should_exit:
            await self._asked.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Uvicorn's own waits in steps of 0.1 s, which tests that start many servers would feel."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        self._api.end()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        deadline = time.monotonic() + _STOP_LIMIT_S
        while (state.connections or state.tasks) and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        for task in state.tasks:
            task.cancel()


class _Protocol(HttpToolsProtocol):
    """HTTP that hands its connection to the application, for faults that cut it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope: Any = self.scope
        scope[TRANSPORT] = self.transport
