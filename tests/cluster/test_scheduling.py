"""Our extender under the real kube-scheduler, on nodes without a kubelet."""

import json

from hami_core_py.codecs.native import RECORD
from tests.cluster.daemons import eventually
from tests.cluster.fakenodes import add_node, devices_of
from tests.cluster.hami import Hami
from tests.cluster.pods import COUNT, MEMORY, Pods, gpu, pod, shares_of


def node(hami: Hami, name: str, count: int = 1, memory_mib: int = 10000, **more: object) -> str:
    devices = devices_of(hami.family, name, count, memory_mib=memory_mib)
    return add_node(hami.plane.client, name, hami.family, devices, **more)  # type: ignore[arg-type]


def test_pod_is_bound_with_its_record_in_the_same_write(hami: Hami, pods: Pods) -> None:
    node(hami, "n1")
    made = pods.create(pod("p", gpu(1, 4000, 30)))
    # Every version of the pod that anybody could have seen: bound and recorded, or neither.
    states = []
    for kind, seen in hami.plane.client.watch(pods.path("").rstrip("/"), made["metadata"]["resourceVersion"]):
        if kind != "BOOKMARK":
            states.append((bool(seen["spec"].get("nodeName")), RECORD in (seen["metadata"].get("annotations") or {})))
            if states[-1][0]:
                break
    assert states[-1] == (True, True)
    assert all(state == (False, False) for state in states[:-1])
    (share,) = json.loads(pods.get("p")["metadata"]["annotations"][RECORD])
    assert (share["container"], share["uuid"], share["memory"], share["cores"]) == ("main", "GPU-n1-0", 4000, 30)


def test_node_without_room_is_passed_over(hami: Hami, pods: Pods) -> None:
    node(hami, "small", memory_mib=3000)
    node(hami, "large", memory_mib=9000)
    pods.create(pod("p", gpu(1, 5000)))
    assert pods.bound("p") == "large"


def test_memory_that_is_there_only_in_pieces_is_refused_by_us(hami: Hami, pods: Pods) -> None:
    node(hami, "pieces", count=2, memory_mib=3000)
    pods.create(pod("p", gpu(1, 5000)))
    # kube-scheduler adds up 6000; only we know the cards.
    text = pods.refused("p", "0/1 nodes are available")
    assert f"Insufficient {MEMORY}" not in text


def test_pod_that_lacks_memory_everywhere_waits_with_the_schedulers_own_reason_and_wakes(
    hami: Hami, pods: Pods
) -> None:
    node(hami, "n1", memory_mib=6000)
    pods.create(pod("first", gpu(1, 6000)))
    pods.bound("first")
    pods.create(pod("second", gpu(1, 6000)))
    pods.refused("second", f"Insufficient {MEMORY}")
    pods.delete("first")
    assert pods.bound("second") == "n1"


def test_pod_without_any_node_of_its_kind_is_told_so(hami: Hami, pods: Pods) -> None:
    add_node(hami.plane.client, "bare", hami.family)
    pods.create(pod("p", gpu(1, 1000)))
    pods.refused("p", f"Insufficient {COUNT}")


def test_pods_are_packed_on_few_nodes_by_default(hami: Hami, pods: Pods) -> None:
    for name in ("n1", "n2", "n3"):
        node(hami, name)
    for number in range(4):
        pods.create(pod(f"p{number}", gpu(1, 2000)))
        pods.bound(f"p{number}")
    assert len({pods.get(f"p{number}")["spec"]["nodeName"] for number in range(4)}) == 1


def test_spread_policy_goes_to_another_node(hami: Hami, pods: Pods) -> None:
    for name in ("n1", "n2"):
        node(hami, name)
    for number in range(2):
        pods.create(pod(f"p{number}", gpu(1, 2000), annotations={"hami.io/node-scheduler-policy": "spread"}))
        pods.bound(f"p{number}")
    assert pods.get("p0")["spec"]["nodeName"] != pods.get("p1")["spec"]["nodeName"]


def test_node_affinity_has_its_say(hami: Hami, pods: Pods) -> None:
    node(hami, "here", labels={"zone": "a"})
    node(hami, "there", labels={"zone": "b"})
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    for number in range(3):
        pods.create(pod(f"p{number}", gpu(1, 1000), affinity=affinity))
        assert pods.bound(f"p{number}") == "there"


def test_taint_has_its_say(hami: Hami, pods: Pods) -> None:
    node(hami, "kept", taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}])
    pods.create(pod("stranger", gpu(1, 1000)))
    pods.refused("stranger", "untolerated taint")
    toleration = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    pods.create(pod("member", gpu(1, 1000), tolerations=[toleration]))
    assert pods.bound("member") == "kept"


def test_topology_spread_has_its_say_over_our_packing(hami: Hami, pods: Pods) -> None:
    for name in ("n1", "n2", "n3"):
        node(hami, name)
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    for number in range(3):
        body = pod(f"p{number}", gpu(1, 1000), labels={"app": "spread"}, topologySpreadConstraints=[constraint])
        pods.create(body)
        pods.bound(f"p{number}")
    assert {pods.get(f"p{number}")["spec"]["nodeName"] for number in range(3)} == {"n1", "n2", "n3"}


def test_ordinary_resources_have_their_say(hami: Hami, pods: Pods) -> None:
    node(hami, "weak", capacity={"cpu": "1"})
    node(hami, "strong", capacity={"cpu": "8"})
    pods.create(pod("p", gpu(1, 1000, cpu="4")))
    assert pods.bound("p") == "strong"


def test_pods_created_at_once_never_exceed_a_card(hami: Hami, pods: Pods) -> None:
    for name in ("n1", "n2"):
        node(hami, name, count=2, memory_mib=10000)
    pods.create_all([pod(f"p{number:02}", gpu(1, 3000)) for number in range(20)])
    used: dict[str, int] = {}

    def settled() -> bool:
        used.clear()
        found = pods.all()
        for each in found:
            for share in shares_of(each):
                used[share["uuid"]] = used.get(share["uuid"], 0) + share["memory"]
        return sum(bool(each["spec"].get("nodeName")) for each in found) == 12

    # Four cards of 10,000 MiB hold three shares each.
    eventually("12 of 20 pods bound", settled)
    assert set(used.values()) == {9000}
    assert len(used) == 4


def test_extender_that_restarts_counts_the_same(hami: Hami, pods: Pods) -> None:
    node(hami, "n1", memory_mib=10000)
    pods.create(pod("first", gpu(1, 6000)))
    pods.bound("first")
    hami.extender.kill()
    hami.start_extender()
    pods.create(pod("second", gpu(1, 4000)))
    assert pods.bound("second") == "n1"
    assert [share["uuid"] for share in shares_of(pods.get("second"))] == ["GPU-n1-0"]
    pods.create(pod("third", gpu(1, 4000)))
    pods.refused("third", "0/1 nodes are available")


def test_plain_pods_do_not_wait_for_an_extender_that_is_away(hami: Hami, pods: Pods) -> None:
    node(hami, "n1")
    hami.extender.kill()
    try:
        pods.create(pod("plain"))
        assert pods.bound("plain") == "n1"
        pods.create(pod("asking", gpu(1, 1000)))
        pods.refused("asking", "connection refused")
    finally:
        hami.start_extender()
    assert pods.bound("asking") == "n1"
