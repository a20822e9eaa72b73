"""Registration, device lists and health, as the kubelet sees them."""

import threading
from dataclasses import replace

import pytest

from hami_core_py.errors import SettingsError
from hami_core_py.models.allocations import HealthChange
from hami_core_py.servers.pluginserver import PluginServer
from hami_core_py.services.agent.options import choose_identity
from hami_core_py.testing import builders

COUNT = builders.COUNT


def test_each_slot_of_a_device_is_one_device_of_the_kubelet(world):
    world.acme.devices = [builders.device("npu-0", slots=2, numa=1), builders.device("npu-1", slots=1)]
    world.start()
    assert world.kubelet.await_devices() == {"npu-0::0": "Healthy", "npu-0::1": "Healthy", "npu-1::0": "Healthy"}
    options = world.kubelet.plugins[COUNT].options
    assert (options.pre_start_required, options.get_preferred_allocation_available) == (True, True)


@pytest.mark.parametrize(("tells_numa", "told"), [(True, [1]), (False, [])])
def test_kubelet_is_told_numa_nodes_where_the_family_says_so(world, tells_numa, told):
    world.acme.family = replace(world.acme.family, tells_numa=tells_numa)
    world.acme.devices = [builders.device("npu-0", slots=1, numa=1)]
    world.start()
    world.kubelet.await_devices()
    assert world.kubelet.plugins[COUNT].numa == {"npu-0::0": told}


def test_kubelet_that_starts_later_gets_the_plugin(world):
    world.start_agent()
    world.kubelet.start()
    world.kubelet.await_devices()


def test_kubelet_socket_that_vanishes_is_waited_for(world):
    world.start()
    for number in (2, 3):
        world.kubelet.stop()
        world.eventually("unregistered", lambda: world.plugins.missing())
        world.kubelet.start()
        world.eventually("registered", lambda n=number: len(world.kubelet.registrations) == n)
        world.kubelet.await_devices()


def test_plugin_whose_own_socket_was_removed_comes_back(world):
    world.start()
    (world.kubelet.directory / "hami-Acme.sock").unlink()
    world.eventually("registered again", lambda: len(world.kubelet.registrations) == 2)


def test_plugin_that_nobody_follows_registers_again(world):
    world.start()
    world.kubelet.plugins[COUNT].channel.close()
    world.eventually("registered again", lambda: len(world.kubelet.registrations) == 2)
    world.kubelet.await_devices()


def test_device_list_is_sent_on_change_only(world):
    world.start()
    rounds = threading.Semaphore(0)
    world.acme.discovering = rounds.release
    for _ in range(3):
        rounds.acquire()
    updates = world.kubelet.plugins[COUNT].updates
    assert len(updates) == 1
    world.acme.devices = builders.devices(3)
    world.eventually("the third device", lambda: len(world.kubelet.devices()) == 30)
    assert len(updates) == 2


def test_change_of_one_family_is_not_sent_to_those_who_follow_another(world):
    resources = type(world.acme.family.resources)(count="other.example/x")
    other = world.backend(
        name="other",
        family=builders.family("Other", resources=resources),
        devices=[builders.device("x-0", family="Other", slots=1)],
    )
    world.backends.append(other)
    world.start()
    world.kubelet.await_devices("other.example/x")
    before = len(world.kubelet.plugins[COUNT].updates)
    other.devices = [builders.device(f"x-{n}", family="Other", slots=1) for n in range(2)]
    world.eventually("the change", lambda: len(world.kubelet.devices("other.example/x")) == 2)
    world.acme.devices = builders.devices(3)
    world.eventually("the third device", lambda: len(world.kubelet.devices()) == 30)
    assert len(world.kubelet.plugins[COUNT].updates) == before + 1


def test_health_travels_both_ways(world):
    world.acme.devices = builders.devices(2, slots=1)
    world.start()
    world.acme.changes.append(HealthChange(device=builders.device("npu-1").id, healthy=False, detail="lost"))
    sick = {"npu-0::0": "Healthy", "npu-1::0": "Unhealthy"}
    world.eventually("unhealthy", lambda: world.kubelet.devices() == sick)
    world.eventually("unhealthy in the inventory", lambda: '"healthy":false' in world.annotations().get(KEY, ""))
    world.acme.changes.append(HealthChange(device=builders.device("npu-1").id, healthy=True))
    world.eventually("healthy", lambda: set(world.kubelet.devices().values()) == {"Healthy"})
    world.eventually("healthy in the inventory", lambda: '"healthy":false' not in world.annotations()[KEY])


def test_slow_discovery_does_not_keep_the_kubelet_waiting(world):
    may_go = threading.Event()
    world.acme.discovering = may_go.wait
    world.kubelet.start()
    world.start_agent()
    world.eventually("registered without devices", lambda: COUNT in world.kubelet.plugins)
    world.eventually("empty list", lambda: world.kubelet.plugins[COUNT].updates == [{}])
    assert "acme" in world.agent.missing()
    may_go.set()
    world.kubelet.await_devices()


def test_devices_of_an_earlier_run_are_offered_before_discovery_is_done(world):
    world.start()
    world.eventually("remembered", lambda: (world.state / "devices" / "acme.json").exists())
    world.stop_agent()
    may_go = threading.Event()
    world.acme.discovering = may_go.wait
    world.start_agent()
    world.eventually("registered again", lambda: len(world.kubelet.registrations) == 2)
    assert len(world.kubelet.await_devices()) == 20
    may_go.set()


def test_backend_that_raises_or_hangs_stops_no_other(world):
    other = world.backend(
        name="other",
        family=builders.family("Other", resources=builders.family().resources.__class__(count="other.example/x")),
        devices=[builders.device("x-0", family="Other", slots=1)],
    )
    hung = threading.Event()
    world.acme.discovering = hung.wait
    world.backends.append(other)
    world.kubelet.start()
    world.start_agent(discovery_timeout_seconds=0.2)
    assert world.kubelet.await_devices("other.example/x") == {"x-0::0": "Healthy"}
    world.eventually("counted", lambda: world.agent.meter.read().discovery_errors.get("acme"))
    hung.set()
    world.kubelet.await_devices()

    def fail():
        raise RuntimeError("driver is gone")

    other.discovering = fail
    world.eventually(
        "unhealthy when it lasts", lambda: world.kubelet.devices("other.example/x") == {"x-0::0": "Unhealthy"}
    )
    other.discovering = lambda: None
    world.eventually("healthy again", lambda: world.kubelet.devices("other.example/x") == {"x-0::0": "Healthy"})
    assert world.kubelet.devices() == {f"npu-{d}::{s}": "Healthy" for d in range(2) for s in range(10)}


def test_two_sources_for_one_family_are_an_error_that_names_both(world):
    world.backends.append(world.backend(name="stand-in", stands_in=True, devices=[builders.device("npu-9")]))
    world.kubelet.start()
    world.start_agent()
    world.eventually("an end", lambda: world.fatal)
    assert "'acme'" in world.fatal[0]
    assert "'stand-in'" in world.fatal[0]


def test_stand_in_offers_devices_that_their_owner_grants(world):
    world.acme.devices = []
    world.backends.append(world.backend(name="stand-in", stands_in=True, devices=[builders.device("npu-9")]))
    world.start()
    pod = world.pod("p", {"main": [(builders.device("npu-9"), world.share())]})
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-9::0"])
    world.kubelet.prestart(["npu-9::0"])
    assert world.env(answer)["ACME_DEVICES"] == "npu-9"
    assert [a.pod_uid for a in world.acme.granted] == [pod["metadata"]["uid"]]


def test_preferred_ids_are_on_the_devices_of_the_one_pod_that_waits(world):
    world.start()
    world.pod("p", {"main": [(world.npu(1), world.share())]})
    world.eventually(
        "the pod", lambda: world.agent.identity.prefer("Acme", ["npu-0::0", "npu-1::4"], [], 1) == ("npu-1::4",)
    )


def test_sockets_are_gone_after_the_end(world):
    world.start()
    assert list(world.kubelet.directory.glob("hami-*.sock"))
    world.stop_agent()
    assert not list(world.kubelet.directory.glob("hami-*.sock"))


def test_kubelet_directory_that_is_too_long_is_an_error_that_says_so(world):
    world.kubelet.start()
    deep = world.root / ("d" * 120)
    agent = world.start_agent(kubelet_dir=deep)
    with pytest.raises(SettingsError, match="at most 107 bytes"):
        PluginServer(agent, "Acme")


def test_only_the_backends_that_are_named_are_asked(world):
    asked = threading.Event()
    other = world.backend(name="other", stands_in=True, devices=[], discovering=asked.set)
    world.backends.append(other)
    world.kubelet.start()
    world.start_agent(backends=("acme",))
    world.kubelet.await_devices()
    assert not asked.is_set()
    with pytest.raises(SettingsError, match="known are acme, other"):
        world.start_agent(backends=("nobody",))


def test_late_identity_is_chosen_where_there_is_a_directory_of_cdi_specs(tmp_path):
    assert choose_identity("auto", tmp_path) == "late"
    assert choose_identity("auto", tmp_path / "none") == "ordered"
    assert choose_identity("late", tmp_path / "none") == "late"
    assert choose_identity("ordered", tmp_path) == "ordered"


KEY = "hami.io/node-acme-inventory"
