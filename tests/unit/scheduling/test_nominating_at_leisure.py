"""A crowd of refused pods does not keep filters waiting: whoever looks for room for them rests in between."""

import threading
import time
from typing import Any

import pytest
from kubernetes.client import Configuration

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.connection import Connection
from hami_core_py.services.scheduling.nominating import REST, Nominator
from hami_core_py.services.scheduling.recent import Asked
from tests.unit.scheduling.books import Books, asking

LOOKS = 10
BUSY_SECONDS = 0.005


def test_looks_for_a_crowd_leave_most_of_the_time_to_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    books, looks, done = Books(), [], threading.Event()
    books.add_node("node", [])
    evaluate = books.engine.evaluate

    def busy(*args: Any, **fields: Any) -> Any:
        until = time.thread_time() + BUSY_SECONDS
        while time.thread_time() < until:
            pass
        looks.append(time.monotonic())
        if len(looks) == LOOKS:
            done.set()
        return evaluate(*args, **fields)

    monkeypatch.setattr(books.engine, "evaluate", busy)
    nowhere = Client(Connection(Configuration(host="http://127.0.0.1:9")))
    nominator = Nominator(nowhere, books.engine, settle_seconds=0.0)
    for number in range(LOOKS):
        pod = asking(f"p{number}", 10**6, uid=f"p{number}")
        nominator.refused(Asked(pod=pod, request=books.request(pod)), ["node"])
    assert done.wait(60)
    nominator.stop()
    # Each pod is looked at twice, for nodes outside and inside the sample, and then comes one rest.
    rests = LOOKS // 2 - 1
    assert looks[LOOKS - 1] - looks[0] >= rests * 2 * BUSY_SECONDS * REST
