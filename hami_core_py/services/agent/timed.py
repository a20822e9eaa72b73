"""Calls into a backend that must not take the agent with them when they hang."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from hami_core_py.errors import BackendError

T = TypeVar("T")

MOST_HUNG = 8
"""Calls of one backend that may hang at a time; beyond it further ones are refused at once."""


class TimedCalls:
    """Runs calls on threads of their own and stops waiting for those that take too long."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._hung: Counter[str] = Counter()

    def run(self, backend: str, hook: str, call: Callable[[], T]) -> T:
        """The call's answer, or the error it raised.

        :raises BackendError: it did not answer in time, or too many earlier ones still hang.
        """
        with self._lock:
            if self._hung[backend] >= MOST_HUNG:
                raise BackendError(backend, hook, f"{MOST_HUNG} earlier calls still hang; restart the agent's pod")
        outcome: _Outcome[T] = _Outcome()

        def work() -> None:
            try:
                outcome.value = [call()]
            except BaseException as problem:  # noqa: BLE001 - handed to whoever waits
                outcome.problem = problem
            outcome.done.set()
            with self._lock:
                if outcome.given_up:
                    self._hung[backend] -= 1

        threading.Thread(target=work, name=f"{hook} {backend}", daemon=True).start()
        if not outcome.done.wait(self._timeout):
            with self._lock:
                if not outcome.done.is_set():
                    outcome.given_up = True
                    self._hung[backend] += 1
            if outcome.given_up:
                raise BackendError(backend, hook, f"no answer within {self._timeout:g} s")
        if outcome.problem is not None:
            raise outcome.problem
        return outcome.value[0]


class _Outcome(Generic[T]):
    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: list[T] = []
        self.problem: BaseException | None = None
        self.given_up = False
