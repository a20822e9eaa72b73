"""Following a collection through every kind of interruption."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.watch import Watcher
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.faults import Fault

NODES = "/api/v1/nodes"


class Names:
    """The names of a collection, by what a watcher tells."""

    def __init__(self, client: Client) -> None:
        self.names: set[str] = set()
        self.lists = 0
        self._changed = threading.Condition()
        self.watcher = Watcher(
            client,
            NODES,
            on_event=self._event,
            on_sync=self._sync,
            transform=lambda node: node["metadata"]["name"],
            back_off_seconds=(0.01, 0.1),
        )

    def _event(self, kind: str, name: str) -> None:
        with self._changed:
            (self.names.discard if kind == "DELETED" else self.names.add)(name)
            self._changed.notify_all()
        if name == "poison":
            raise ValueError("not understood")

    def _sync(self, names: list[str]) -> None:
        with self._changed:
            self.lists += 1
            self.names = set(names)
            self._changed.notify_all()

    def become(self, *names: str) -> bool:
        """Wait until these are the names."""
        with self._changed:
            return self._changed.wait_for(lambda: self.names == set(names), 20)


@pytest.fixture
def names(client: Client) -> Iterator[Names]:
    names = Names(client)
    yield names
    names.watcher.stop()


@pytest.fixture
def add(client: Client) -> Callable[[str], Any]:
    return lambda name: client.create(NODES, {"metadata": {"name": name}})


def test_what_is_there_and_what_comes_is_told(names: Names, client: Client, add: Callable[[str], Any]) -> None:
    add("a")
    names.watcher.start()
    assert names.watcher.synced.wait(60)
    add("b")
    client.delete(f"{NODES}/a")

    assert names.become("b")


def test_event_that_is_not_understood_does_not_stop_the_next(names: Names, add: Callable[[str], Any]) -> None:
    names.watcher.start()
    assert names.watcher.synced.wait(60)
    add("poison")
    add("b")

    assert names.become("poison", "b")
    assert names.lists == 1


def test_cut_watch_resumes_without_a_new_list(names: Names, api: ApiServer, add: Callable[[str], Any]) -> None:
    names.watcher.start()
    assert names.watcher.synced.wait(60)
    add("a")
    assert names.become("a")
    assert api.end_watches() == 1
    add("b")

    assert names.become("a", "b")
    assert names.lists == 1


def test_expired_watch_lists_anew(names: Names, api: ApiServer, client: Client, add: Callable[[str], Any]) -> None:
    add("a")
    names.watcher.start()
    assert names.become("a")
    add("marker")
    assert names.become("a", "marker"), "the watch is open"
    assert api.end_watches(is_expired=True) == 1
    client.delete(f"{NODES}/a")
    add("b")

    assert names.become("marker", "b")
    assert names.lists == 2


def test_server_that_is_away_is_asked_until_it_is_back(names: Names, api: ApiServer, client: Client) -> None:
    names.watcher.start()
    assert names.watcher.synced.wait(60)
    api.stop()
    api.store.create("nodes", {"metadata": {"name": "while-away"}})
    api.start()

    assert names.become("while-away")


def test_server_that_was_away_from_the_start_is_waited_for(client: Client, api: ApiServer) -> None:
    api.stop()
    names = Names(client)
    names.watcher.start()
    assert not names.watcher.synced.wait(0.2)
    api.start()

    assert names.watcher.synced.wait(60)
    names.watcher.stop()


def test_list_that_fails_is_tried_again(names: Names, api: ApiServer, add: Callable[[str], Any]) -> None:
    add("a")
    api.faults.add(Fault(verbs=("list",), resource="nodes", status=500, times=3))
    names.watcher.start()

    assert names.become("a")


def test_stop_ends_a_quiet_watch_at_once(names: Names) -> None:
    names.watcher.start()
    assert names.watcher.synced.wait(60)
    names.watcher.stop(timeout_seconds=5)

    assert not names.watcher._thread.is_alive()
