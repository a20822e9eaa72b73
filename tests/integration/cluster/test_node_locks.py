"""The v2.10 node lock against a real API server (T22)."""

from collections.abc import Callable

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError, NotFound
from hami_core_py.cluster.events import About, EventType
from hami_core_py.cluster.locks import LockHeld, LockUnreadable, NodeLocks
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.faults import Fault
from hami_core_py.models.families import NodeLock

KEY = "hami.io/mutex.lock"
NODE = "/api/v1/nodes/n"
NOW_NS = 1_924_000_000 * 10**9  # 2030-12-20T12:26:40Z


class Said:
    """Keeps the events that were said."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, about: About, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        self.messages.append(f"{about.kind} {about.name}: {reason}: {message}")


class Times:
    """Two clocks that go together, when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def pass_(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def locks(client: Client, times: Times, said: Said) -> NodeLocks:
    client.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    return NodeLocks(
        client,
        events=said,  # type: ignore[arg-type]
        clock_ns=lambda: NOW_NS + int(times.seconds * 1e9),
        monotonic=lambda: times.seconds,
        pause=lambda _seconds: None,
    )


@pytest.fixture
def write(client: Client) -> Callable[[str | None], None]:
    return lambda text: client.patch(NODE, {"metadata": {"annotations": {KEY: text}}}) and None


def value(client: Client, key: str = KEY) -> str | None:
    """The lock as it stands."""
    return (client.get(NODE)["metadata"].get("annotations") or {}).get(key)


def make_pod(client: Client, namespace: str, name: str) -> str:
    """Create a pod. :returns: its path."""
    try:
        client.get(f"/api/v1/namespaces/{namespace}")
    except NotFound:
        client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    collection = f"/api/v1/namespaces/{namespace}/pods"
    client.create(collection, {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    return f"{collection}/{name}"


@pytest.mark.parametrize(("namespace", "pod"), [("ml", "web-1"), ("x", "web-11"), ("ml", "web-111")])
def test_lock_of_another_pod_is_left_alone(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None], namespace: str, pod: str
) -> None:
    write("2031-02-03T04:05:06Z,ml,web-11")

    assert locks.release("n", namespace, pod) is False

    assert value(client) == "2031-02-03T04:05:06Z,ml,web-11"


def test_own_lock_is_removed(locks: NodeLocks, client: Client, write: Callable[[str | None], None]) -> None:
    write("2031-02-03T04:05:06Z,ml,web-11")

    assert locks.release("n", "ml", "web-11") is True

    assert value(client) is None


def test_lock_that_names_nobody_may_be_removed_by_anybody(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None]
) -> None:
    write("2031-02-03T04:05:06Z")

    assert locks.release("n", "any", "pod") is True

    assert value(client) is None


@pytest.mark.parametrize("text", ["bad", "a,b", "t,ml,web,1"])
def test_lock_that_cannot_be_read_is_neither_taken_nor_removed_until_it_is_old(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None], times: Times, said: Said, text: str
) -> None:
    write(text)

    with pytest.raises(LockUnreadable):
        locks.take("n", "ml", "web-11")
    assert locks.release("n", "ml", "web-11") is False
    assert value(client) == text
    times.pass_(301)
    locks.take("n", "ml", "web-11")

    assert value(client) == "2030-12-20T12:31:41Z,ml,web-11"
    (message,) = said.messages
    assert message.startswith("Node n: NodeLockUnreadable: ")


def test_lock_of_a_living_pod_is_contention_until_it_expires(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None], times: Times
) -> None:
    make_pod(client, "ml", "other")
    write("2030-12-20T12:26:40Z,ml,other")

    with pytest.raises(LockHeld, match="node lock contention"):
        locks.take("n", "ml", "mine")
    times.pass_(300)
    with pytest.raises(LockHeld):
        locks.take("n", "ml", "mine")
    times.pass_(1)
    locks.take("n", "ml", "mine")

    assert (value(client) or "").endswith(",ml,mine")


def test_lock_from_a_clock_that_runs_ahead_expires_by_ours(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None], times: Times
) -> None:
    make_pod(client, "ml", "other")
    write("2099-01-01T00:00:00Z,ml,other")
    with pytest.raises(LockHeld):
        locks.take("n", "ml", "mine")
    times.pass_(301)

    locks.take("n", "ml", "mine")

    assert (value(client) or "").endswith(",ml,mine")


def test_lock_of_a_pod_that_is_gone_is_taken_over(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None]
) -> None:
    write("2030-12-20T12:26:40Z,ml,gone")

    locks.take("n", "ml", "mine")

    assert (value(client) or "").endswith(",ml,mine")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_lock_of_a_pod_that_has_ended_is_taken_over(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None], phase: str
) -> None:
    path = make_pod(client, "ml", "ended")
    client.patch(f"{path}/status", {"status": {"phase": phase}})
    write("2030-12-20T12:26:40Z,ml,ended")

    locks.take("n", "ml", "mine")

    assert (value(client) or "").endswith(",ml,mine")


def test_own_lock_is_kept_as_it_is(locks: NodeLocks, client: Client, times: Times) -> None:
    locks.take("n", "ml", "mine")
    before = value(client)
    times.pass_(10)
    locks.take("n", "ml", "mine")

    assert value(client) == before


def test_change_of_the_node_in_between_is_read_anew(locks: NodeLocks, client: Client, api: ApiServer) -> None:
    api.faults.add(Fault(verbs=("patch",), resource="nodes", status=409, times=2))

    locks.take("n", "ml", "mine")

    assert (value(client) or "").endswith(",ml,mine")


def test_holder_that_cannot_be_looked_up_is_taken_for_alive(
    locks: NodeLocks, client: Client, write: Callable[[str | None], None], api: ApiServer
) -> None:
    write("2030-12-20T12:26:40Z,ml,gone")
    api.faults.add(Fault(verbs=("get",), resource="pods", status=500, times=1))

    with pytest.raises(ApiError):
        locks.take("n", "ml", "mine")


def test_release_of_a_node_that_is_gone_is_done(locks: NodeLocks, client: Client) -> None:
    locks.take("n", "ml", "mine")
    client.delete(NODE)

    assert locks.release("n", "ml", "mine") is True


def test_lock_without_owner_is_released_only_by_the_pod_it_was_taken_for(locks: NodeLocks, client: Client) -> None:
    bare = NodeLock(key="acme.example/lock", expires_seconds=120, names_pod=False)
    locks.take("n", "ml", "mine", bare)
    assert value(client, bare.key) == "2030-12-20T12:26:40Z"

    assert locks.release("n", "ml", "other", bare) is False
    with pytest.raises(LockHeld):
        locks.take("n", "ml", "other", bare)
    assert locks.release("n", "ml", "mine", bare) is True

    assert value(client, bare.key) is None
