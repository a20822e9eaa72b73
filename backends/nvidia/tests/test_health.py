"""Critical events make a device unhealthy, time without them makes it healthy again."""

import sys

import pytest
from hami_backend_nvidia import nvml
from hami_backend_nvidia.health import HealthBook
from hami_backend_nvidia.settings import Settings
from hami_backend_nvidia.watcher import Alive, Critical, Lost, NoDriver, Unreachable, Watcher
from hami_backend_nvidia.xids import APPLICATION_ERRORS, XidRule, xid_rule

from hami_core_py.models.allocations import HealthChange
from hami_core_py.models.devices import Health
from hami_core_py.testing.builders import device

A, B = device("GPU-0"), device("GPU-1")
SICK_A = device("GPU-0", health=Health.UNHEALTHY)


def book(rule: XidRule = XidRule()) -> HealthBook:  # noqa: B008
    return HealthBook(rule, recovery_seconds=60)


@pytest.mark.parametrize(
    ("disabled", "enabled", "fatal", "ignored"),
    [
        ("", "", {11, 79}, APPLICATION_ERRORS),
        ("11, 12,", "", {79}, {11, 12, *APPLICATION_ERRORS}),
        ("all", "", set(), {11, 79}),
        ("XIDS,3", "48", set(), {48}),
        ("0", "", set(), {79}),
        ("", "all", {13, 79}, set()),
        ("11", "11,13", {11, 13}, {31}),
        ("all", "all", {13, 79}, set()),
    ],
)
def test_lists_of_xids_say_which_are_fatal(disabled, enabled, fatal, ignored):
    rule = xid_rule(disabled, enabled)
    assert all(rule.is_fatal(xid) for xid in fatal)
    assert not any(rule.is_fatal(xid) for xid in ignored)


def test_critical_event_makes_its_device_unhealthy():
    held = book()
    held.note([Critical("GPU-0", 79)], now=0)
    assert held.changes([A, B], now=1) == (HealthChange(device=A.id, healthy=False, detail="XID 79"),)


def test_event_of_an_application_says_nothing_about_the_device():
    held = book()
    held.note([Critical("GPU-0", 31)], now=0)
    assert held.changes([A, B], now=1) == ()


def test_device_that_is_known_to_be_unhealthy_is_not_named_again():
    held = book()
    held.note([Critical("GPU-0", 79)], now=0)
    assert held.changes([SICK_A], now=1) == ()


def test_device_recovers_once_after_a_time_without_events():
    held = book()
    held.note([Critical("GPU-0", 79)], now=0)
    held.note([Critical("GPU-0", 79)], now=30)
    assert held.changes([SICK_A], now=89) == ()
    assert held.changes([SICK_A], now=90) == (
        HealthChange(device=A.id, healthy=True, detail="no critical event for a while"),
    )
    assert held.changes([A], now=91) == ()


def test_device_that_the_driver_cannot_reach_is_unhealthy():
    held = book()
    held.note([Unreachable("GPU-1", "code 15")], now=0)
    assert held.changes([A, B], now=0) == (HealthChange(device=B.id, healthy=False, detail="code 15"),)


def test_lost_driver_makes_every_device_unhealthy_until_it_answers():
    held = book()
    held.note([Lost("silent")], now=0)
    assert [change.device for change in held.changes([A, B], now=1000)] == ["GPU-0", "GPU-1"]
    held.note([Alive()], now=1001)
    assert [change.healthy for change in held.changes([SICK_A], now=1001)] == [True]


def test_event_reaches_us_from_the_driver(driver):
    driver.says(devices=[{"uuid": "GPU-0"}, {"uuid": "GPU-1", "events": "unsupported"}])
    driver.event("GPU-1", 79)
    driver.event("GPU-0", 31)
    settings = Settings()
    while not (changes := nvml.check_health([A, B], settings)):
        pass
    assert changes == (HealthChange(device=B.id, healthy=False, detail="XID 79"),)


def test_driver_that_loses_its_events_is_asked_anew(driver, monkeypatch):
    monkeypatch.setattr("hami_backend_nvidia.watcher.PAUSE_SECONDS", 0.1)
    driver.says(devices=[{"uuid": "GPU-0"}])
    driver.event("GPU-0", "lost")
    settings = Settings()
    while not (changes := nvml.check_health([A], settings)):
        pass
    assert [(change.healthy, change.detail) for change in changes] == [(False, "code 15")]
    driver.events.write_text("")
    while not (changes := nvml.check_health([SICK_A], settings)):
        pass
    assert [change.healthy for change in changes] == [True]


def test_silent_probe_is_given_up():
    watcher = Watcher([sys.executable, "-c", "import time; time.sleep(3600)"], silence_seconds=0.2)
    events = ()
    while not events:
        events = watcher.events(0.1)
    watcher.stop()
    (lost,) = events
    assert isinstance(lost, Lost)
    assert "silent" in lost.why


def test_node_without_a_driver_has_no_health(driver):
    driver.says(init=12)
    watcher = Watcher()
    events = ()
    while NoDriver() not in events:
        events = watcher.events(1)
    watcher.stop()
    held = book()
    held.note(events, now=0)
    assert held.changes([A], now=0) == ()


def test_switched_off_checks_say_nothing(driver, monkeypatch):
    monkeypatch.setattr(nvml, "HEALTH_SECONDS", 0.01)
    driver.says(devices=[{"uuid": "GPU-0"}])
    driver.event("GPU-0", 79)
    assert nvml.check_health([A], Settings(healthChecksDisabled="all")) == ()
    assert nvml._watchers[Settings(healthChecksDisabled="all")]._child is None
