"""Lists in pages that show one moment: later pages come from the snapshot the first one was cut from."""

from __future__ import annotations

import base64
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from hami_core_py.lab.apiserver.status import Object, bad_request, expired, too_large, too_old

_KEPT_SNAPSHOTS = 64
_EXPIRED_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
)


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects of a list, and the version at which all of the list was current."""

    items: list[Object]
    version: int
    continue_token: str = ""  # empty on the last page
    remaining: int | None = None  # how many follow; None when a selector hides that

    def copied(self, copy: Callable[[Object], Object]) -> Page:
        return replace(self, items=[copy(one) for one in self.items])


class Pages:
    """Snapshots of lists that have been begun; the oldest are forgotten, which their readers learn as 410."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshots: OrderedDict[int, tuple[list[Object], int, bool]] = OrderedDict()
        self._numbers = itertools.count(1)

    def first(self, items: list[Object], version: int, limit: int, *, counts_rest: bool) -> Page:
        if limit <= 0 or len(items) <= limit:
            return Page(items, version)
        with self._lock:
            number = next(self._numbers)
            self._snapshots[number] = items, version, counts_rest
            while len(self._snapshots) > _KEPT_SNAPSHOTS:
                self._snapshots.popitem(last=False)
        return self._cut(number, 0, limit, items, version, counts_rest)

    def resume(self, token: str, limit: int) -> Page:
        """:raises StatusError: 400 for a token that is not ours, 410 for one whose snapshot is forgotten."""
        try:
            number, start = (int(part) for part in base64.urlsafe_b64decode(token.encode()).split(b":"))
        except ValueError as error:
            raise bad_request(f"continue key is not valid: {error}") from error
        with self._lock:
            snapshot = self._snapshots.get(number)
        if snapshot is None:
            raise expired(_EXPIRED_PAGE)
        return self._cut(number, start, limit, *snapshot)

    def forget(self) -> None:
        with self._lock:
            self._snapshots.clear()

    @staticmethod
    def check_version(wanted: int | None, current: int, *, exact: bool) -> None:
        """Whether a list can be as new (or, with `exact`, just as old) as asked. :raises StatusError: 410 or 504."""
        if wanted is not None and wanted > current:
            raise too_large(wanted, current)
        if exact and wanted != current:
            raise too_old(wanted or 0, current)

    @staticmethod
    def _cut(number: int, start: int, limit: int, items: list[Object], version: int, counts_rest: bool) -> Page:
        end = start + limit if limit > 0 else len(items)
        if end >= len(items):
            return Page(items[start:], version)
        token = base64.urlsafe_b64encode(f"{number}:{end}".encode()).decode()
        return Page(items[start:end], version, token, len(items) - end if counts_rest else None)
