"""What the agent says on its node object, and when."""

import json

from hami_core_py.codecs.native import parse_inventory
from hami_core_py.models.families import Resources
from hami_core_py.models.views import node_view
from hami_core_py.testing import builders

KEY = "hami.io/node-acme-inventory"


def published(world):
    return parse_inventory(world.annotations()[KEY], KEY)


def test_inventory_is_published_in_both_dialects(world):
    world.start()
    world.eventually("the inventory", lambda: KEY in world.annotations())
    inventory = published(world)
    assert inventory.devices == tuple(world.acme.devices)
    assert (inventory.identity, inventory.backend) == ("late", "acme")
    register = json.loads(world.annotations()["hami.io/node-acme-register"])
    assert register[1] == {
        "id": "npu-1",
        "index": 1,
        "count": 10,
        "devmem": 16384,
        "devcore": 100,
        "type": "Acme N1",
        "health": True,
    }


def test_node_is_written_when_the_inventory_changes_and_at_no_other_time(world):
    world.start()
    world.eventually("totals", lambda: builders.MEMORY in world.node()["status"].get("capacity", {}))
    before = world.node()["metadata"]["resourceVersion"]
    found = len(world.acme.reconciled)
    world.eventually("further rounds", lambda: len(world.acme.reconciled) > found + 2)
    assert world.node()["metadata"]["resourceVersion"] == before
    publisher, snapshot, node = world.agent._publisher, world.agent.table.snapshot, node_view(world.node())
    assert publisher.wanted_annotations(snapshot, node) == publisher.wanted_totals(snapshot, node) == {}
    world.acme.devices = builders.devices(3)
    world.eventually("the third device", lambda: len(published(world).devices) == 3)


def test_totals_are_published_and_applied_again_when_lost(world):
    world.start()
    wanted = {builders.MEMORY: "32768", builders.PERCENT: "200", builders.CORE: "200"}

    def totals():
        status = world.node()["status"]
        sides = [status.get("capacity") or {}, status.get("allocatable") or {}]
        return all(wanted.items() <= side.items() for side in sides)

    world.eventually("totals", totals)
    lost = dict.fromkeys(wanted)
    world.client.patch("/api/v1/nodes/node-a/status", {"status": {"capacity": lost, "allocatable": lost}})
    world.eventually("totals again", totals)


def test_totals_can_be_off(world):
    world.start(publish_totals=False)
    world.eventually("the inventory", lambda: KEY in world.annotations())
    assert builders.MEMORY not in (world.node().get("status") or {}).get("capacity", {})


def test_annotation_that_somebody_removed_is_written_again(world):
    world.start()
    world.eventually("the inventory", lambda: KEY in world.annotations())
    world.client.patch("/api/v1/nodes/node-a", {"metadata": {"annotations": {KEY: None}}})
    world.eventually("the inventory again", lambda: KEY in world.annotations())


def test_devices_that_are_all_gone_leave_an_empty_inventory(world):
    world.start()
    world.eventually("the inventory", lambda: KEY in world.annotations())
    world.acme.devices = []
    world.eventually("an empty one", lambda: published(world).devices == ())


def test_agent_says_that_it_lives_with_a_lease(world):
    world.start()
    path = "/apis/coordination.k8s.io/v1/namespaces/hami-system/leases"
    leases = world.eventually("a lease", lambda: world.client.list(path)[0])
    assert [lease["metadata"]["name"] for lease in leases] == ["hami-agent-acme-node-a"]
    assert leases[0]["spec"]["holderIdentity"] == "node-a"


def test_agent_starts_without_the_api_server_and_publishes_when_it_is_back(world):
    world.api.stop()
    world.start()
    world.api.start()
    world.eventually("the inventory", lambda: KEY in world.annotations())


OTHERS = "hami.io/node-other-inventory"


def test_inventory_that_another_agent_of_the_node_publishes_is_left_alone(world):
    family = builders.family("Other", resources=Resources(count="other.example/x"), backend="other")
    world.backends.append(world.backend(name="other", family=family, devices=[]))
    world.client.patch("/api/v1/nodes/node-a", {"metadata": {"annotations": {OTHERS: "theirs"}}})
    world.start(backends=("acme",))
    world.eventually("our inventory", lambda: len(published(world).devices) == 2)
    world.acme.devices = []
    world.eventually("our inventory emptied", lambda: not published(world).devices)
    assert world.annotations()[OTHERS] == "theirs"


def test_stand_in_takes_back_what_it_offered_in_the_name_of_another(world):
    world.backends.append(world.backend(name="stand-in", stands_in=True, devices=[builders.device("npu-9")]))
    world.start(backends=("stand-in",))
    world.eventually("the inventory", lambda: len(published(world).devices) == 1)
    world.stop_agent()
    world.backends[-1].devices = []
    world.start_agent(backends=("stand-in",))
    world.eventually("the inventory emptied", lambda: not published(world).devices)
