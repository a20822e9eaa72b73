"""The node's check of a record."""

import dataclasses

from hami_core_py.decisions.claims import Claim, check_claim
from hami_core_py.models.allocations import PodRecord, RecordedShare
from hami_core_py.models.views import ContainerView, PodView
from hami_core_py.testing.builders import FAMILY, device, share

NPU = device()
DEVICES = {NPU.id: NPU}
POD = PodView(uid="u", namespace="ml", name="p", containers=(ContainerView(name="main"),), node="n")
SHARE = RecordedShare(container="main", family=FAMILY, device=NPU.id, share=share())
RECORD = PodRecord(node="n", shares=(SHARE,))
CLAIM = Claim(uid="u", container="main", family=FAMILY, count=1)


def check(claim=CLAIM, pod=POD, record=RECORD, node="n"):
    return check_claim(claim, pod, record, node=node, devices=DEVICES)


def test_record_that_holds_gives_device_and_share():
    assert check() == ((NPU, SHARE.share),)


def test_every_doubt_is_a_sentence():
    doubts = {
        "no allocation record": check(record=None),
        "belongs to UID u": check(dataclasses.replace(CLAIM, uid="other")),
        "no container of this name": check(dataclasses.replace(CLAIM, container="x")),
        "record is for node 'm', this is node 'n'": check(record=PodRecord(node="m", shares=(SHARE,))),
        "bound to node 'm', this is node 'n'": check(pod=dataclasses.replace(POD, node="m")),
        "gave 2 Acme devices, the record names 1": check(dataclasses.replace(CLAIM, count=2)),
        "gave 1 Acme devices, the record names 2": check(record=PodRecord(node="n", shares=(SHARE, SHARE))),
        "does not have": check(record=PodRecord(node="n", shares=(dataclasses.replace(SHARE, device=device("x").id),))),
    }
    for words, answer in doubts.items():
        assert isinstance(answer, str)
        assert words in answer
        assert answer.startswith("pod ml/p, container ")


def test_container_gets_its_own_shares_in_the_records_order():
    side = ContainerView(name="side")
    pod = dataclasses.replace(POD, containers=(*POD.containers, side))
    second = device("npu-1")
    beside = dataclasses.replace(SHARE, container="side", device=second.id)
    also = dataclasses.replace(SHARE, device=second.id)
    record = PodRecord(node="n", shares=(also, beside, SHARE))
    devices = {NPU.id: NPU, second.id: second}
    of_main = check_claim(dataclasses.replace(CLAIM, count=2), pod, record, node="n", devices=devices)
    of_side = check_claim(dataclasses.replace(CLAIM, container="side"), pod, record, node="n", devices=devices)
    assert of_main == ((second, also.share), (NPU, SHARE.share))
    assert of_side == ((second, beside.share),)


def test_share_without_a_slot_is_no_device_of_the_container():
    bare = dataclasses.replace(SHARE, share=share(slots=0))
    assert check(record=PodRecord(node="n", shares=(SHARE, bare))) == ((NPU, SHARE.share),)


def test_device_of_another_family_is_not_given():
    other = device(family="Other")
    answer = check_claim(CLAIM, POD, RECORD, node="n", devices={other.id: other})
    assert isinstance(answer, str)
