"""What users reported about placement: cases T08, T09, T12, T14 and T17, with their values."""

import pytest

from hami_core_py.codecs.records import NODE, read_record
from hami_core_py.models.views import pod_view
from tests.cases.scene import ALLOCATED, Cluster, ask_of, card, container, created, node, pod, with_policy


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_t08_second_container_sees_the_first(policy):
    cluster = Cluster(node(card("g0", 8192, split=5), card("g1", 8192, split=5)))
    cluster.bind(with_policy(pod(container("c1", gpu=1, mem=8192), container("c2", gpu=1, mem=700)), policy))
    assert sorted(8192 - used for used, _, _ in cluster.usage().values()) == [0, 7492]
    following = pod(container(gpu=1, mem=7600), name="following")
    assert cluster.refusals(following) == dict.fromkeys(("g0", "g1"), "not-enough-memory")


def test_t09_containers_without_a_card_keep_their_slot():
    cluster = Cluster(node(card("g0")))
    asked = pod(
        container("a", gpu=1, mem=2000), container("b"), container("c", gpu=1, mem=3000), init=[container("i0")]
    )
    text = cluster.bind(asked)[ALLOCATED]
    assert text == ";g0,NVIDIA,2000,0:;;g0,NVIDIA,3000,0:;"
    assert cluster.usage() == {"g0": (5000, 0, 2)}
    asked["metadata"]["annotations"] = {ALLOCATED: text, NODE: "n1"}
    record = read_record(pod_view(asked), ask_of().families)
    assert [(share.container, share.share.memory_mib) for share in record.shares] == [("a", 2000), ("c", 3000)]


def test_t12_each_app_container_takes_a_slot():
    cluster = Cluster(node(card("g0", split=2)))
    cluster.bind(pod(container("x", gpu=1, mem=1000), container("y", gpu=1, mem=1000)))
    assert cluster.usage() == {"g0": (2000, 0, 2)}
    assert cluster.refusals(pod(container(gpu=1, mem=1000), name="b")) == {"g0": "no-free-slot"}


def test_t12_init_and_app_container_share_a_slot():
    cluster = Cluster(node(card("g0", split=2)))
    cluster.bind(pod(container("x", gpu=1, mem=1000), init=[container("y", gpu=1, mem=1000)]))
    assert cluster.usage() == {"g0": (1000, 0, 1)}
    assert cluster.cards(pod(container(gpu=1, mem=1000), name="b")) == [["g0"]]


MODELS = (
    card("g0", model="NVIDIA-NVIDIA A10"),
    card("g1", model="NVIDIA-NVIDIA A100-SXM4-40GB"),
    card("g2", model="NVIDIA-Tesla T4"),
)
ALL = {"g0", "g1", "g2"}


@pytest.mark.parametrize(
    ("annotations", "left"),
    [
        ({"use-gputype": "a10"}, {"g0", "g1"}),
        ({"use-gputype": "A10", "nouse-gputype": "A100"}, {"g0"}),
        ({"nouse-gputype": "T4,"}, {"g0", "g1"}),
        ({"nouse-gputype": ""}, ALL),
        ({"use-gputype": ""}, ALL),
        ({"use-gpuuuid": " g0 , g2 ", "nouse-gpuuuid": "g2"}, {"g0"}),
        ({"use-gpuuuid": ""}, ALL),
        ({"use-gputype": "=NVIDIA A10"}, {"g0"}),
    ],
)
def test_t14_selection_lists(annotations, left):
    cluster = Cluster(node(*MODELS))
    texts = {f"nvidia.com/{key}": text for key, text in annotations.items()}
    assert set(cluster.cards(pod(container(gpu=len(left), mem=1), annotations=texts))[0]) == left
    one_more = pod(container(gpu=len(left) + 1, mem=1), annotations=texts)
    assert cluster.refusals(one_more).keys() - {None} == ALL - left


def test_t14_list_of_commas_names_no_card_as_in_v210_and_the_author_is_told():
    asked = pod(container(gpu=1, mem=1), annotations={"nvidia.com/use-gputype": ","})
    assert Cluster(node(*MODELS)).refusals(asked) == dict.fromkeys(ALL, "model-not-selected")
    verdict = created(asked)
    assert verdict.allowed
    assert "nvidia.com/use-gputype names nothing" in verdict.warnings[0]


def test_t17_card_that_is_not_healthy_is_never_chosen():
    cluster = Cluster(node(card("g0", health=False), card("g1")))
    assert cluster.cards(pod(container(gpu=1, mem=1))) == [["g1"]]
    assert cluster.refusals(pod(container(gpu=2, mem=1)))["g0"] == "unhealthy"


def test_t17_cordoned_card_is_skipped_and_its_pods_are_counted():
    cluster = Cluster(node(card("g0"), card("g1")))
    cluster.bind(pod(container(gpu=2, mem=3000), name="running"))
    cluster.nodes[0]["metadata"]["annotations"]["hami.io/device-cordon"] = " g1 ,,"
    assert cluster.cards(pod(container(gpu=1, mem=1))) == [["g0"]]
    assert cluster.usage()["g1"] == (3000, 0, 1)


def test_t17_both_reasons_are_named():
    cluster = Cluster(node(card("g0", health=False), card("g1"), **{"hami.io__device-cordon": " g1 ,,"}))
    assert cluster.refusals(pod(container(gpu=1, mem=1))) == {"g0": "unhealthy", "g1": "cordoned"}
