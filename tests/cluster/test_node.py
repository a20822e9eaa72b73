"""Our agent under a real kubelet and containerd: every container gets the share that its pod's record says."""

from collections.abc import Iterator

import pytest

from hami_core_py.cluster.client import join_path
from tests.cluster.daemons import eventually
from tests.cluster.hami import AgentProcess
from tests.cluster.node import Node
from tests.cluster.pods import CORES, COUNT, MEMORY, Pods, container, gpu, pod, shares_of
from tests.cluster.seen import LIMIT, VISIBLE, agrees, env_of, telling


@pytest.fixture
def pods(agent: AgentProcess, node: Node) -> Iterator[Pods]:
    """The pods of a test on the real node; they go when it ends."""
    found = Pods(node.plane.client)
    yield found
    found.clear()


def test_node_offers_slots_and_totals(agent: AgentProcess, node: Node) -> None:
    for resource, amount in ((COUNT, 64), (MEMORY, 20000), (CORES, 200)):
        eventually(f"{amount} of {resource}", lambda r=resource, a=amount: node.allocatable(r) == a)  # type: ignore[misc]


def test_container_gets_what_the_record_says(pods: Pods) -> None:
    pods.create(pod("p", containers=[container("main", gpu(1, 3000, 20), command=telling())]))
    running = pods.in_phase("p")
    (share,) = shares_of(running)
    env = env_of(pods, "p")
    assert (share["memory"], share["cores"]) == (3000, 20)
    assert agrees(env, share), env


def test_two_containers_of_one_pod_get_each_its_own(pods: Pods) -> None:
    amounts = {"one": 1000, "two": 2000, "three": 3000}
    pods.create(pod("p", containers=[container(n, gpu(1, mib), command=telling()) for n, mib in amounts.items()]))
    shares = {share["container"]: share for share in shares_of(pods.in_phase("p"))}
    assert {name: share["memory"] for name, share in shares.items()} == amounts
    for name, share in shares.items():
        assert agrees(env_of(pods, "p", name), share)


def test_container_that_asks_for_nothing_sees_nothing(pods: Pods) -> None:
    pods.create(
        pod("p", containers=[container("main", gpu(1, 1000), command=telling()), container("bare", command=telling())])
    )
    pods.in_phase("p")
    env = env_of(pods, "p", "bare")
    assert env[VISIBLE] == "none"
    assert LIMIT not in env


def test_init_and_sidecar_containers_get_each_its_own(pods: Pods) -> None:
    inits = [
        container("init", gpu(1, 4000), command=telling("true")),
        container("sidecar", gpu(1, 1500), command=telling(), restartPolicy="Always"),
        container("late-init", gpu(1, 2500), command=telling("true")),
    ]
    pods.create(pod("p", containers=[container("main", gpu(1, 3500), command=telling())], initContainers=inits))
    running = pods.in_phase("p")
    shares = {share["container"]: share for share in shares_of(running)}
    assert {name: share["memory"] for name, share in shares.items()} == {
        "init": 4000,
        "sidecar": 1500,
        "late-init": 2500,
        "main": 3500,
    }
    for name, share in shares.items():
        assert agrees(env_of(pods, "p", name), share), name


def test_two_pods_of_one_card_get_each_its_own(pods: Pods) -> None:
    binpack = {"hami.io/gpu-scheduler-policy": "binpack"}
    for name, mib in (("a", 2500), ("b", 4500)):
        body = pod(name, containers=[container("main", gpu(1, mib), command=telling())], annotations=binpack)
        pods.create(body)
    shares = {name: shares_of(pods.in_phase(name))[0] for name in ("a", "b")}
    assert shares["a"]["uuid"] == shares["b"]["uuid"]
    for name, share in shares.items():
        assert agrees(env_of(pods, name), share)


def test_pods_own_environment_does_not_beat_ours(pods: Pods) -> None:
    # Set by a source that the webhook cannot see into.
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "liar"}, "data": {VISIBLE: "all", LIMIT: "0"}}
    path = join_path("api", "v1", "namespaces", "default", "configmaps")
    pods.client.create(path, body)
    try:
        liar = container("main", gpu(1, 2000), command=telling(), envFrom=[{"configMapRef": {"name": "liar"}}])
        pods.create(pod("p", containers=[liar]))
        (share,) = shares_of(pods.in_phase("p"))
        assert agrees(env_of(pods, "p"), share)
    finally:
        pods.client.delete(f"{path}/liar")


def test_container_that_restarts_keeps_its_share(pods: Pods) -> None:
    pods.create(pod("p", containers=[container("main", gpu(1, 1700), command=telling("sleep 1; exit 1"))]))
    eventually("a restart", lambda: restarts(pods, "p") >= 1)
    (share,) = shares_of(pods.get("p"))
    assert agrees(env_of(pods, "p", previous=True), share)
    assert agrees(env_of(pods, "p"), share)


def test_pod_deletion_frees_the_share(pods: Pods) -> None:
    for name in ("first", "second"):
        pods.create(pod(name, gpu(1, 9000)))
        pods.in_phase(name)
    pods.create(pod("third", gpu(1, 9000)))
    pods.refused("third", f"Insufficient {MEMORY}")
    (share,) = shares_of(pods.get("first"))
    pods.delete("first")
    assert shares_of(pods.in_phase("third"))[0]["uuid"] == share["uuid"]


def test_pod_that_has_ended_frees_the_share(pods: Pods) -> None:
    brief = container("main", gpu(2, 9000), command=["true"])
    pods.create(pod("brief", containers=[brief], restartPolicy="Never"))
    pods.in_phase("brief", "Succeeded")
    pods.create(pod("next", gpu(2, 9000)))
    pods.in_phase("next")


def test_pod_that_another_scheduler_has_bound_is_held_on_the_node(pods: Pods, node: Node) -> None:
    made = pods.create(pod("forced", gpu(1, 1000), schedulerName="another"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "forced", "uid": made["metadata"]["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node.name},
    }
    pods.client.create(pods.path("forced") + "/binding", binding)
    pods.refused("forced", "record")
    (status,) = pods.get("forced")["status"]["containerStatuses"]
    assert "running" not in status["state"]


def test_fifty_pods_at_once_get_each_its_own(pods: Pods) -> None:
    wanted = {f"p{number:02}": 100 + number for number in range(50)}
    bodies = [pod(name, containers=[container("main", gpu(1, mib), command=telling())]) for name, mib in wanted.items()]
    pods.create_all(bodies)
    for name in wanted:
        pods.in_phase(name, seconds=240)
    wrong = {}
    for name, mib in wanted.items():
        (share,) = shares_of(pods.get(name))
        env = env_of(pods, name)
        if share["memory"] != mib or not agrees(env, share):
            wrong[name] = (mib, share, env.get(LIMIT), env.get(VISIBLE))
    assert wrong == {}


def restarts(pods: Pods, name: str) -> int:
    statuses = pods.get(name)["status"].get("containerStatuses") or ()
    return sum(int(status["restartCount"]) for status in statuses)
