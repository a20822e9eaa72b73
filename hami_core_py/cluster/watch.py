"""Following one collection of the API: list, then watch, for as long as the process lives.

A break resumes where it stopped, an expired resource version lists anew, an API server that is away is asked again with
growing pauses. What is handed on is complete: after every list ``on_sync`` gets all there is.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from hami_core_py.cluster.client import Client, JsonObject, Params, WatchStream
from hami_core_py.cluster.errors import ApiError, Expired

log = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""Life of one watch call; the server ends it then and we ask again, so that connections spread over API servers."""


class Watcher:
    """Keeps somebody informed about a collection.

    :param on_sync: gets every object of a list, after a start and after each relist; what is not in it is gone.
    :param on_list: called before each list; what happens after it may be newer than what ``on_sync`` then gets.
    :param on_event: gets type (``ADDED``, ``MODIFIED``, ``DELETED``) and object; a failure in it is logged, and the next
        event follows.
    :param transform: applied to each decoded object before it is handed on or kept, so that a long list need not be held
        whole; an object that it fails on is logged and left out.
    :param name: of the thread.

    Both callbacks run on the watcher's thread, one at a time.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        params: Params | None = None,
        *,
        on_event: Callable[[str, Any], None],
        on_sync: Callable[[list[Any]], None],
        transform: Callable[[JsonObject], Any] | None = None,
        on_list: Callable[[], None] = lambda: None,
        name: str = "",
        back_off_seconds: tuple[float, float] = (0.2, 5.0),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.synced = threading.Event()
        self._client, self._path, self._params = client, path, dict(params or {})
        self._on_list, self._on_event, self._on_sync, self._transform = on_list, on_event, on_sync, transform
        self._first_pause, self._longest_pause = back_off_seconds
        self._jitter = jitter
        self._stopped = threading.Event()
        self._version = ""
        self._stream: WatchStream | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=name or f"watch {path}", daemon=True)

    def start(self) -> "Watcher":
        """Begin; returns at once. ``synced`` is set after the first complete list has been handed on."""
        self._thread.start()
        return self

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the watch and wait for the thread."""
        self._stopped.set()
        if self._stream is not None:
            self._stream.close()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow()
            except Expired as problem:
                log.info("watch expired; listing anew", extra={"path": self._path, "problem": str(problem)})
                self._version = ""
                self._pause_if_again()
            except ApiError as problem:
                log.warning("watch interrupted", extra={"path": self._path, "problem": str(problem)})
                self._failures += 1
                self._pause(problem.retry_after_seconds)
            except Exception:
                log.exception("watch failed; listing anew", extra={"path": self._path})
                self._version = ""
                self._failures += 1
                self._pause()

    def _list(self) -> None:
        found: list[Any] = []
        version = ""
        self._on_list()
        for page in self._client.pages(self._path, self._params):
            items, version = page
            for item in items:
                self._keep(item, found)
            if self._stopped.is_set():
                return
        self._on_sync(found)
        self._version = version
        self.synced.set()

    def _follow(self) -> None:
        """One watch call, from the version we know to its end."""
        began = time.monotonic()
        params = {**self._params, "timeoutSeconds": WATCH_SECONDS}
        heard = False
        stream = self._client.watch(self._path, self._version, params)
        self._stream = stream
        if self._stopped.is_set():
            stream.close()
        for kind, item in stream:
            heard = True
            self._failures = 0
            version = (item.get("metadata") or {}).get("resourceVersion") or ""
            if kind != "BOOKMARK":
                self._hand_on(kind, item)
            self._version = version or self._version
        # A server that ends every watch at once must not be asked in a tight loop.
        if not heard and time.monotonic() - began < 1.0 and not self._stopped.is_set():
            self._failures += 1
            self._pause()

    def _hand_on(self, kind: str, item: JsonObject) -> None:
        found: list[Any] = []
        self._keep(item, found)
        for ready in found:
            try:
                self._on_event(kind, ready)
            except Exception:
                log.exception("event not understood", extra={"path": self._path, "type": kind, **_name(item)})

    def _keep(self, item: JsonObject, into: list[Any]) -> None:
        if self._transform is None:
            into.append(item)
            return
        try:
            into.append(self._transform(item))
        except Exception:
            log.exception("object not understood", extra={"path": self._path, **_name(item)})

    def _pause_if_again(self) -> None:
        """No pause after a first expiry: the list that follows is the cure."""
        self._failures += 1
        if self._failures > 1:
            self._pause()

    def _pause(self, at_least_seconds: float = 0.0) -> None:
        doubled = self._first_pause * 2.0 ** min(self._failures - 1, 16)
        # Half to one and a half of the pause, so that many watchers do not come back at one moment.
        self._stopped.wait(max(at_least_seconds, min(doubled, self._longest_pause) * (0.5 + self._jitter())))


def _name(item: JsonObject) -> dict[str, str]:
    metadata = item.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return {"object": f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}".lstrip("/")}
