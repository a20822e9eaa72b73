"""Every check of a node finds its mistake, and a healthy node has none."""

from collections.abc import Callable, Mapping

import pytest

from hami_core_py.decisions.doctor.host import HOST_CHECKS
from hami_core_py.decisions.doctor.hostfacts import BackendOnHost, HostFacts, KeptRecord, Runtime
from tests.unit.doctor.healthy import directory, host

LONG = "/var/lib/kubelet/" + "very-long-name/" * 7 + "hami-acme.sock"


def runtime(**fields: object) -> HostFacts:
    return host(runtime=Runtime(**{"path": "/etc/containerd/config.toml", "version": 2, **fields}))  # type: ignore[arg-type]


MISTAKES: Mapping[str, Callable[[], HostFacts]] = {
    "kubelet-directory-missing": lambda: host(plugin_dir=directory("/var/lib/kubelet/device-plugins", exists=False)),
    "kubelet-not-listening": lambda: host(kubelet="silent"),
    "pod-resources-missing": lambda: host(pod_resources="missing"),
    "socket-path-too-long": lambda: host(wanted_sockets=(LONG,)),
    "socket-stale": lambda: host(sockets=(("/var/lib/kubelet/device-plugins/hami-acme.sock", "silent"),)),
    "cdi-directory-missing": lambda: host(cdi_dir=directory("/var/run/cdi", exists=False)),
    "cdi-disabled": lambda: runtime(cdi=False),
    "cdi-directory-unread": lambda: runtime(cdi=True, spec_dirs=("/etc/cdi",)),
    "checkpoint-unknown": lambda: host(checkpoint_problem="expected an object with Data.PodDeviceEntries, got {}"),
    "checkpoint-forgotten": lambda: host(records=(KeptRecord(name="ab12", pod="ml/train", known=False, mounted=True),)),
    "kept-record-unreadable": lambda: host(broken_records=(("/var/lib/hami/records/ab12.json", "expected JSON"),)),
    "state-directory-unusable": lambda: host(state_dir=directory("/var/lib/hami", writable=False)),
    "state-directory-volatile": lambda: host(state_dir=directory("/var/lib/hami", file_system="tmpfs")),
    "state-directory-elsewhere": lambda: host(state_dir=directory("/var/lib/hami", root="/data/hami")),
    "state-directory-full": lambda: host(state_dir=directory("/var/lib/hami", free_bytes=2**20)),
    "state-directory-noexec": lambda: host(state_dir=directory("/var/lib/hami", noexec=True)),
    "library-not-loadable": lambda: host(
        backends=(BackendOnHost(name="acme", devices=1, unloadable=(("lib.so", "the loader says: wrong ELF class"),)),)
    ),
    "glibc-too-old": lambda: host(glibc=(2, 12)),
    "library-not-loaded": lambda: host(
        records=(KeptRecord(name="ab12", pod="ml/train", known=True, mounted=True, loaded=False),)
    ),
    "host-processes-hidden": lambda: host(sees_host=False),
    "driver-failed": lambda: host(backends=(BackendOnHost(name="acme", problem="libacme.so.1: not found"),)),
    "no-device-found": lambda: host(backends=(BackendOnHost(name="acme"),)),
    "host-file-damaged": lambda: host(
        backends=(BackendOnHost(name="acme", devices=1, files=(("/var/lib/hami/host/acme/1/lib.so", "it is empty"),)),)
    ),
}


def test_healthy_node_has_no_finding() -> None:
    assert HOST_CHECKS.diagnose(host()) == ()


def test_every_check_has_a_mistake_and_a_code_of_its_own() -> None:
    known = [check.code for check in HOST_CHECKS]
    assert len(known) == len(set(known))
    assert set(known) == set(MISTAKES)


@pytest.mark.parametrize("code", MISTAKES)
def test_mistake_is_found_by_its_name_alone(code: str) -> None:
    assert [one.code for one in HOST_CHECKS.diagnose(MISTAKES[code]())] == [code]


def test_cdi_is_off_by_default_in_older_runtimes_only() -> None:
    older = host(runtime=Runtime(path="config.toml", version=2), containerd=(1, 7))
    newer = host(runtime=Runtime(path="config.toml", version=2), containerd=(2, 0))
    unknown = host(runtime=Runtime(path="config.toml", version=2), containerd=None)
    assert [[one.code for one in HOST_CHECKS.diagnose(facts)] for facts in (older, newer, unknown)] == [
        ["cdi-disabled"],
        [],
        [],
    ]


def test_ordered_mode_needs_no_cdi() -> None:
    facts = host(
        identity="ordered",
        cdi_dir=directory("/var/run/cdi", exists=False),
        runtime=Runtime(path="config.toml", cdi=False, spec_dirs=("/etc/cdi",)),
    )
    assert HOST_CHECKS.diagnose(facts) == ()


def test_state_directory_on_a_disk_of_its_own_is_where_it_should_be() -> None:
    assert HOST_CHECKS.diagnose(host(state_dir=directory("/var/lib/hami", root="/lib/hami"))) == ()


def test_forgotten_record_without_a_running_container_is_no_mistake() -> None:
    gone = KeptRecord(name="ab12", pod="ml/train", known=False, mounted=False)
    untold = KeptRecord(name="ab13", pod="ml/train", known=False, mounted=None)
    assert HOST_CHECKS.diagnose(host(records=(gone, untold))) == ()
