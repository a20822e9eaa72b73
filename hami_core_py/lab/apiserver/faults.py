"""Faults on demand: requests that fail, wait, or are cut off before or after they were carried out.

A fault *before* leaves the cluster as it was. A fault *after* carries the request out and hides the answer, which is
how a client meets an unknown outcome.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from hami_core_py.lab.apiserver.calls import Call, Consult
from hami_core_py.lab.apiserver.status import StatusError, bad_request


@dataclass(slots=True)
class Fault:
    """Which requests it meets (empty: any) and what happens to them: stall first, then drop or answer `status`."""

    verbs: tuple[str, ...] = ()
    resource: str = ""  # plural, or plural and group
    subresource: str | None = None  # "" for the objects themselves
    namespace: str = ""
    name: str = ""
    user: str = ""
    when: Literal["before", "after"] = "before"
    stall_s: float = 0.0
    drop: bool = False  # cut the connection without an answer
    status: int = 0  # HTTP status to answer; 0 lets the request pass after the stall
    reason: str = ""
    message: str = "injected fault"
    retry_after_s: int | None = None
    times: int | None = None  # how often it strikes; None until it is removed
    probability: float = 1.0
    id: int = field(default=0)

    def meets(self, call: Call) -> bool:
        return (
            (not self.verbs or call.verb in self.verbs)
            and self.resource in ("", call.resource.plural, call.resource.qualified)
            and self.subresource in (None, call.subresource)
            and self.namespace in ("", call.namespace)
            and self.name in ("", call.name)
            and self.user in ("", call.user)
        )

    def error(self) -> StatusError | None:
        """What to answer; None when the request passes."""
        if not self.status:
            return None
        reason = self.reason or _REASONS.get(self.status, "InternalError")
        return StatusError(self.status, reason, self.message, retry_after_s=self.retry_after_s)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "verbs": list(self.verbs)}


_REASONS = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_FIELDS = {one.name for one in fields(Fault)} - {"id"}


class Faults:
    """The faults in force, in the order they were added. Safe for threads."""

    def __init__(self, seed: int = 0) -> None:
        """:param seed: makes faults with a probability strike the same requests each time."""
        self._lock = threading.Lock()
        self._faults: dict[int, Fault] = {}
        self._ids = itertools.count(1)
        self._chance = random.Random(seed)

    def add(self, fault: Fault) -> int:
        """Put a fault in force; its number is for `remove`."""
        with self._lock:
            fault.id = next(self._ids)
            self._faults[fault.id] = fault
            return fault.id

    def remove(self, number: int) -> bool:
        with self._lock:
            return self._faults.pop(number, None) is not None

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def all(self) -> list[Fault]:
        with self._lock:
            return list(self._faults.values())

    def strike(self, call: Call, when: Literal["before", "after"]) -> Fault | None:
        """The first fault that meets `call` now; it has then struck once more."""
        if not self._faults:
            return None
        with self._lock:
            for number, fault in list(self._faults.items()):
                if fault.when != when or not fault.meets(call):
                    continue
                if fault.probability < 1 and self._chance.random() >= fault.probability:
                    continue
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        del self._faults[number]
                return fault
        return None


def consult(faults: Faults, when: Literal["before", "after"], sleep: Callable[[float], None] = time.sleep) -> Consult:
    """The faults as a hook of a store that is used in one process, without HTTP.

    A drop raises ConnectionError, a status its StatusError.

    :param sleep: how stalls pass time; give a virtual clock's.
    """

    def strike(call: Call) -> None:
        fault = faults.strike(call, when)
        if fault is None:
            return
        if fault.stall_s > 0:
            sleep(fault.stall_s)
        if fault.drop:
            raise ConnectionError(f"{call.verb} {call.resource.qualified}: cut off by an injected fault")
        if (error := fault.error()) is not None:
            raise error

    return strike


def fault_from_json(values: Mapping[str, Any]) -> Fault:
    """:raises StatusError: 400, naming fields that no fault has."""
    unknown = sorted(set(values) - _FIELDS)
    if unknown:
        raise bad_request(f"fault: unknown field {unknown[0]!r}; expected some of {', '.join(sorted(_FIELDS))}")
    if values.get("when", "before") not in ("before", "after"):
        raise bad_request(f"fault: when: expected before or after, got {values['when']!r}")
    return Fault(**{**values, "verbs": tuple(values.get("verbs") or ())})
