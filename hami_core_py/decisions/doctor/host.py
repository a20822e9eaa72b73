"""Mistakes on one node, as seen from there: directories, sockets, runtime, driver."""

from collections.abc import Iterator
from typing import Final

from hami_core_py.decisions.doctor.checks import Checks, Found, Severity
from hami_core_py.decisions.doctor.hostfacts import HostFacts

HOST_CHECKS: Final[Checks[HostFacts]] = Checks()

LONGEST_SOCKET_PATH: Final = 107
LEAST_FREE_BYTES: Final = 64 * 1024 * 1024
VOLATILE: Final = frozenset({"tmpfs", "ramfs"})
OLDEST_GLIBC: Final = (2, 17)
IN_CONTAINER: Final = frozenset({"overlay", "aufs"})


@HOST_CHECKS.check(
    "kubelet-directory-missing",
    fix="mount the kubelet's directory into the agent, or set agent.kubeletDir where the kubelet has another --root-dir",
)
def kubelet_directory(facts: HostFacts) -> Iterator[Found]:
    """There is no place to meet the kubelet."""
    if not facts.plugin_dir.exists:
        yield facts.plugin_dir.path, "it does not exist"
    elif not facts.plugin_dir.writable:
        yield facts.plugin_dir.path, "it cannot be written, so a plugin cannot put its socket there"


@HOST_CHECKS.check(
    "kubelet-not-listening",
    fix="see whether the kubelet runs, and whether agent.kubeletDir is its --root-dir",
)
def kubelet_silent(facts: HostFacts) -> Iterator[Found]:
    """Nobody takes registrations."""
    if facts.plugin_dir.exists and facts.kubelet != "answers":
        yield (
            f"{facts.plugin_dir.path}/kubelet.sock",
            "it does not exist" if facts.kubelet == "missing" else "nobody listens",
        )


@HOST_CHECKS.check(
    "pod-resources-missing",
    fix="mount pod-resources of the kubelet's directory; it is asked where the checkpoint's shape is not known",
    severity=Severity.ADVICE,
)
def pod_resources(facts: HostFacts) -> Iterator[Found]:
    """The second way to learn whose container starts is closed."""
    if facts.pod_resources != "answers":
        yield (
            "pod-resources/kubelet.sock",
            "it does not exist" if facts.pod_resources == "missing" else "nobody listens",
        )


@HOST_CHECKS.check(
    "socket-path-too-long", fix="choose a shorter agent.kubeletDir; mounts can shorten it inside the container"
)
def socket_path(facts: HostFacts) -> Iterator[Found]:
    """Linux takes no such address."""
    for path in facts.wanted_sockets:
        size = len(path.encode())
        if size > LONGEST_SOCKET_PATH:
            yield path, f"it has {size} bytes, and a socket's path at most {LONGEST_SOCKET_PATH}"


@HOST_CHECKS.check(
    "socket-stale",
    fix="start the agent, or remove the file: a kubelet that finds it waits for a plugin that is gone",
)
def socket_stale(facts: HostFacts) -> Iterator[Found]:
    """A plugin of ours ended without its socket."""
    for path, state in facts.sockets:
        if state == "silent":
            yield path, "nobody listens"


@HOST_CHECKS.check(
    "cdi-directory-missing",
    fix="create it on the host and mount it into the agent (agent.cdiDir)",
)
def cdi_directory(facts: HostFacts) -> Iterator[Found]:
    """Late identity has nowhere to write."""
    if facts.identity == "ordered":
        return
    if not facts.cdi_dir.exists:
        yield facts.cdi_dir.path, "it does not exist, so the agent falls back to ordered mode or does not start"
    elif not facts.cdi_dir.writable:
        yield facts.cdi_dir.path, "it cannot be written"


@HOST_CHECKS.check(
    "cdi-disabled",
    fix="set enable_cdi = true in containerd's CRI plugin and restart containerd; 1.7 has it off, 2.0 on by default",
)
def cdi_disabled(facts: HostFacts) -> Iterator[Found]:
    """Containers would start closed, because their edits are not applied."""
    runtime = facts.runtime
    if runtime is None or facts.identity == "ordered":
        return
    if runtime.cdi is False:
        yield runtime.path, "it says enable_cdi = false"
    elif runtime.cdi is None and facts.containerd is not None and facts.containerd < (2, 0):
        version = ".".join(map(str, facts.containerd))
        yield runtime.path, f"it does not say enable_cdi, which is off in containerd {version}"


@HOST_CHECKS.check(
    "cdi-directory-unread",
    fix="add the directory to cdi_spec_dirs, or set agent.cdiDir to one of those",
)
def cdi_unread(facts: HostFacts) -> Iterator[Found]:
    """The runtime looks elsewhere."""
    runtime = facts.runtime
    if runtime is None or facts.identity == "ordered" or not runtime.spec_dirs:
        return
    if _plain(facts.cdi_dir.path) not in {_plain(path) for path in runtime.spec_dirs}:
        yield runtime.path, f"cdi_spec_dirs is {', '.join(runtime.spec_dirs)}, without {facts.cdi_dir.path}"


@HOST_CHECKS.check(
    "checkpoint-unknown",
    fix="report the kubelet's version; PodResources answers for single pods meanwhile, and init containers with devices wait",
)
def checkpoint_unknown(facts: HostFacts) -> Iterator[Found]:
    """The kubelet's own notes have a shape we do not know."""
    if facts.checkpoint_problem:
        yield "kubelet's checkpoint", facts.checkpoint_problem


@HOST_CHECKS.check(
    "checkpoint-forgotten",
    fix="delete these pods when it suits: their containers run on, and cannot start again",
)
def checkpoint_forgotten(facts: HostFacts) -> Iterator[Found]:
    """The checkpoint was removed while pods ran."""
    for record in facts.records:
        if not record.known and record.mounted and not facts.checkpoint_problem:
            yield f"pod {record.pod}", "a container of it runs with devices that the kubelet has forgotten"


@HOST_CHECKS.check(
    "kept-record-unreadable",
    fix="leave it while its container runs; afterwards delete the file",
)
def kept_record(facts: HostFacts) -> Iterator[Found]:
    """What a container was given cannot be told any more."""
    yield from facts.broken_records


@HOST_CHECKS.check(
    "state-directory-unusable",
    fix="mount a directory of the host at agent.stateDir, with the same path inside, and let the agent write it",
)
def state_unusable(facts: HostFacts) -> Iterator[Found]:
    """Nothing can be given to containers."""
    if not facts.state_dir.exists:
        yield facts.state_dir.path, "it does not exist"
    elif not facts.state_dir.writable:
        yield facts.state_dir.path, "it cannot be written"


@HOST_CHECKS.check(
    "state-directory-volatile",
    fix="choose a directory below /var/lib as agent.stateDir, not one in memory",
)
def state_volatile(facts: HostFacts) -> Iterator[Found]:
    """A reboot empties it, and containers start with nothing in their mounts."""
    if facts.state_dir.file_system in VOLATILE:
        yield facts.state_dir.path, f"it lies on {facts.state_dir.file_system}"


@HOST_CHECKS.check(
    "state-directory-elsewhere",
    fix="mount the host's directory of just that path at agent.stateDir: containers are given its path on the host",
)
def state_elsewhere(facts: HostFacts) -> Iterator[Found]:
    """Containers would mount another directory than the one we write."""
    directory = facts.state_dir
    if directory.file_system in IN_CONTAINER:
        yield directory.path, "it is the container's own, and ends with it"
    elif directory.root and not _plain(directory.path).endswith(_plain(directory.root)):
        yield directory.path, f"it is {directory.root} on the host"


@HOST_CHECKS.check("state-directory-full", fix="make room: containers cannot be given what does not fit")
def state_full(facts: HostFacts) -> Iterator[Found]:
    """Allocations fail next."""
    free = facts.state_dir.free_bytes
    if free is not None and free < LEAST_FREE_BYTES:
        yield facts.state_dir.path, f"{free // 2**20} MiB are free"


@HOST_CHECKS.check(
    "state-directory-noexec",
    fix="mount its file system without noexec, or choose another agent.stateDir: what containers load lies there",
)
def state_noexec(facts: HostFacts) -> Iterator[Found]:
    """The loader of every container skips the library that would hold it."""
    if facts.state_dir.noexec:
        yield facts.state_dir.path, "it lies on a file system that is mounted noexec"


@HOST_CHECKS.check(
    "library-not-loadable",
    fix="install a package for this machine's processor; where the loader cannot map it, see state-directory-noexec",
)
def unloadable(facts: HostFacts) -> Iterator[Found]:
    """Containers would start without what holds them to their limits."""
    for backend in facts.backends:
        yield from backend.unloadable


@HOST_CHECKS.check(
    "glibc-too-old",
    fix="nothing to do for containers, which bring their own; `hami run` cannot hold programs of this machine",
    severity=Severity.ADVICE,
)
def old_glibc(facts: HostFacts) -> Iterator[Found]:
    """Programs of this machine load no library of ours."""
    least = ".".join(map(str, OLDEST_GLIBC))
    if facts.glibc is None:
        yield "C library", f"it is not glibc {least} or newer"
    elif facts.glibc < OLDEST_GLIBC:
        yield "C library", f"it is glibc {'.'.join(map(str, facts.glibc))}, and {least} is needed"


@HOST_CHECKS.check(
    "library-not-loaded",
    fix="see what it runs: programs that are linked statically or against another C library load nothing and are not held",
    severity=Severity.ADVICE,
)
def not_loaded(facts: HostFacts) -> Iterator[Found]:
    """A container's programs are out of the reach of /etc/ld.so.preload."""
    for record in facts.records:
        if record.loaded is False:
            yield f"pod {record.pod}", "no process of a container of it has loaded the library that would hold it"


@HOST_CHECKS.check(
    "host-processes-hidden",
    fix="run the agent with hostPID: true (value devicePlugin.hostPID) and SYS_PTRACE",
    severity=Severity.ADVICE,
)
def host_hidden(facts: HostFacts) -> Iterator[Found]:
    """Which containers still run after a forced deletion cannot be told."""
    if not facts.sees_host:
        yield (
            "processes",
            "not all of the host's show here, so directories of pods that are gone stay ten minutes longer",
        )


@HOST_CHECKS.check(
    "driver-failed",
    fix="the backend's page says what it needs: the vendor's driver, its library in the agent's container, its device files",
)
def driver_failed(facts: HostFacts) -> Iterator[Found]:
    """A backend could not look at its hardware."""
    for backend in facts.backends:
        if backend.problem:
            yield f"backend {backend.name}", backend.problem


@HOST_CHECKS.check(
    "no-device-found",
    fix="on a node with devices: install the driver, and let the agent's container see library and device files; on one without: "
    "select nodes by label",
    severity=Severity.ADVICE,
)
def no_device(facts: HostFacts) -> Iterator[Found]:
    """The agent has nothing to offer here."""
    for backend in facts.backends:
        if not backend.devices and not backend.problem:
            yield f"backend {backend.name}", "it finds no device on this node"


@HOST_CHECKS.check(
    "host-file-damaged",
    fix="remove it and restart the agent, which puts it in place anew; where it is a directory, a runtime made it to mount it",
)
def host_file(facts: HostFacts) -> Iterator[Found]:
    """Containers would load something else, or nothing."""
    for backend in facts.backends:
        yield from backend.files


def _plain(path: str) -> str:
    """The same path whether it goes by ``/var/run`` or ``/run``."""
    path = path.rstrip("/")
    return path.removeprefix("/var") if path.startswith("/var/run") else path
