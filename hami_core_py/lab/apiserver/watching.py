"""Watch streams: events of the store as lines of a chunked answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from hami_core_py.lab.apiserver.history import Event, error_event
from hami_core_py.lab.apiserver.objects import Watch
from hami_core_py.lab.apiserver.status import StatusError, expired

Encode = Callable[[Event], bytes]


class WatchStream:
    """One open watch. Made and iterated on the server's event loop; may be ended and woken from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._awake = asyncio.Event()
        self._is_woken = False
        self._last_words: bytes | None = None  # set: the stream says this and ends

    def wake(self) -> None:
        """There may be something to deliver. Cheap when nobody has reacted to an earlier call yet."""
        if self._is_woken:
            return
        self._is_woken = True
        with suppress(RuntimeError):  # the loop is gone, and the watch with it
            self._loop.call_soon_threadsafe(self._awake.set)

    def end(self, *, is_expired: bool = False) -> None:
        """Close the stream; with `is_expired` after a 410, so that the client has to list again."""
        last_words = error_event(expired("The resourceVersion for the provided watch is too old.")).line()
        self._last_words = last_words if is_expired else b""
        self.wake()

    async def lines(
        self, watch: Watch, encode: Encode, *, timeout_s: float, bookmark_s: float | None, tells_initial_end: bool
    ) -> AsyncGenerator[bytes]:
        """What the answer's body consists of.

        :param bookmark_s: pause between bookmarks; None when the client did not ask for them.
        :param tells_initial_end: send a marked bookmark once the existing objects have been told.
        """
        deadline = time.monotonic() + timeout_s
        next_bookmark = time.monotonic() + bookmark_s if bookmark_s is not None else deadline
        try:
            while self._last_words is None:
                self._awake.clear()
                self._is_woken = False
                if events := watch.poll():
                    yield b"".join(map(encode, events))
                if tells_initial_end:
                    tells_initial_end = False
                    yield encode(watch.bookmark(initial_events_end=True))
                now = time.monotonic()
                if bookmark_s is not None and now >= min(next_bookmark, deadline):
                    yield encode(watch.bookmark())
                    next_bookmark = now + bookmark_s
                if now >= deadline:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._awake.wait(), min(next_bookmark, deadline) - now)
            yield self._last_words
        except StatusError as error:  # the history has moved past this watch
            yield error_event(error).line()
        finally:
            watch.close()
