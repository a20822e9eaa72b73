"""Kubernetes events, written in the background."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.events import LONGEST_MESSAGE, About, Events
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.faults import Fault

POD = About("Pod", "train", "default", "uid-1")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def written(client: Client) -> Callable[[], list[Any]]:
    return lambda: client.list("/api/v1/events")[0]


def test_same_sentence_is_counted_rather_than_repeated(
    client: Client, clock: Clock, written: Callable[[], list[Any]]
) -> None:
    events = Events(client, "hami-scheduler", clock=clock)
    for _ in range(3):
        events.say(POD, "Warning", "FilteringFailed", "no room")
    events.say(POD, "Normal", "Scheduled", "bound")
    events.stop()

    found = {event["reason"]: event for event in written()}
    assert (found["FilteringFailed"]["count"], found["Scheduled"]["count"]) == (3, 1)
    assert found["FilteringFailed"]["involvedObject"]["uid"] == "uid-1"
    assert found["FilteringFailed"]["source"]["component"] == "hami-scheduler"


def test_sentence_is_said_anew_after_a_while(client: Client, clock: Clock, written: Callable[[], list[Any]]) -> None:
    for _ in range(2):
        events = Events(client, "hami-scheduler", clock=clock)
        events.say(POD, "Warning", "FilteringFailed", "no room")
        events.stop()
        clock.now += timedelta(minutes=11)

    assert len(written()) == 2


def test_event_that_cannot_be_written_is_dropped_and_the_next_is_written(
    client: Client, api: ApiServer, written: Callable[[], list[Any]]
) -> None:
    api.faults.add(Fault(verbs=("create",), resource="events", status=500, times=1))
    events = Events(client, "hami-scheduler")
    events.say(POD, "Warning", "First", "one")
    events.say(POD, "Warning", "Second", "two")
    events.stop()

    assert [event["reason"] for event in written()] == ["Second"]
    assert events.dropped == 1


def test_message_is_cut_to_what_the_api_accepts(client: Client, written: Callable[[], list[Any]]) -> None:
    events = Events(client, "hami-scheduler")
    events.say(POD, "Warning", "Long", "x" * 5000)
    events.stop()

    assert len(written()[0]["message"]) == LONGEST_MESSAGE


def test_event_about_a_node_is_kept_in_the_default_namespace(client: Client, written: Callable[[], list[Any]]) -> None:
    events = Events(client, "hami-scheduler")
    events.say(About("Node", "n1", uid="n1"), "Warning", "NodeLockUnreadable", "taken over")
    events.stop()

    (event,) = written()
    assert (event["metadata"]["namespace"], event["involvedObject"]["name"]) == ("default", "n1")
