"""Calls to an API server over real HTTP."""

from pathlib import Path

import pytest

from hami_core_py.cluster import errors
from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.leases import lease_path, renew_lease
from hami_core_py.errors import BadInputError
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.faults import Fault

NODES = "/api/v1/nodes"


def test_list_longer_than_a_page_is_read_whole(client: Client) -> None:
    for number in range(7):
        client.create(NODES, {"metadata": {"name": f"n{number}"}})

    pages = list(client.pages(NODES, size=3))

    assert [len(items) for items, _ in pages] == [3, 3, 1]
    assert sorted(node["metadata"]["name"] for node in client.list(NODES)[0]) == [f"n{i}" for i in range(7)]


@pytest.mark.parametrize(
    ("status", "kind", "unknown"),
    [
        (401, errors.Unauthorized, False),
        (403, errors.Forbidden, False),
        (404, errors.NotFound, False),
        (409, errors.Conflict, False),
        (410, errors.Expired, False),
        (422, errors.Invalid, False),
        (429, errors.Busy, False),
        (500, errors.ServerFailed, True),
        (503, errors.ServerFailed, True),
        (504, errors.ServerFailed, True),
    ],
)
def test_refusal_is_told_by_its_kind_and_whether_it_may_have_happened(
    client: Client, api: ApiServer, status: int, kind: type[errors.ApiError], unknown: bool
) -> None:
    api.faults.add(Fault(resource="nodes", status=status, message="because"))

    with pytest.raises(kind) as caught:
        client.get(f"{NODES}/n1")

    assert (caught.value.status, caught.value.outcome_unknown) == (status, unknown)
    assert str(caught.value) == "GET /api/v1/nodes/n1: because"


def test_name_that_is_taken_is_told_from_a_conflict(client: Client) -> None:
    client.create(NODES, {"metadata": {"name": "n1"}})

    with pytest.raises(errors.AlreadyExists):
        client.create(NODES, {"metadata": {"name": "n1"}})


def test_stale_write_is_a_conflict(client: Client) -> None:
    old = client.create(NODES, {"metadata": {"name": "n1"}})
    client.patch(f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})

    with pytest.raises(errors.Conflict):
        client.replace(f"{NODES}/n1", old)


def test_answer_that_does_not_come_leaves_the_outcome_unknown(client: Client, api: ApiServer) -> None:
    api.faults.add(Fault(verbs=("create",), resource="nodes", when="after", drop=True))

    with pytest.raises(errors.Unreachable) as caught:
        client.create(NODES, {"metadata": {"name": "n1"}})

    assert caught.value.outcome_unknown
    assert client.get(f"{NODES}/n1")["metadata"]["name"] == "n1"


def test_server_that_cannot_be_connected_to_has_done_nothing(client: Client, api: ApiServer) -> None:
    api.stop()

    with pytest.raises(errors.Unreachable) as caught:
        client.create(NODES, {"metadata": {"name": "n1"}})

    assert not caught.value.outcome_unknown


def test_names_cannot_reach_beyond_their_place() -> None:
    assert join_path("api", "v1", "nodes", "../pods?x=/#") == "/api/v1/nodes/..%2Fpods%3Fx%3D%2F%23"


@pytest.mark.parametrize("text", ["", "not: [yaml", "clusters: []"])
def test_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(BadInputError, match="kubeconfig"):
        Client.from_kubeconfig(path)


def test_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="nowhere"):
        Client.from_kubeconfig(tmp_path / "nowhere")


def test_lease_is_made_and_then_renewed(client: Client) -> None:
    client.create("/api/v1/namespaces", {"metadata": {"name": "hami-system"}})
    for holder in ("first", "second"):
        renew_lease(client, "hami-system", "agent-n1", holder=holder, lease_seconds=120)

    lease = client.get(lease_path("hami-system", "agent-n1"))

    assert lease["spec"]["holderIdentity"] == "second"
    assert lease["spec"]["leaseDurationSeconds"] == 120
