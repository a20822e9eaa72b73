"""Our images, our chart, nothing else: installed as the pages say, changed, and removed, while pods with a share run.

One installation is taken from its beginning to its end; the tests are its chapters, in order.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_core_py.cluster.client import join_path
from hami_core_py.cluster.errors import ApiError, NotFound
from tests.cluster.daemons import eventually, unused
from tests.cluster.installation import Site, commands, seconds_to_ready
from tests.cluster.node import INSIDE
from tests.cluster.outside_backend import Outside
from tests.cluster.pods import COUNT, MEMORY, PERCENT, Pods, container, gpu, pod, shares_of
from tests.cluster.release_chart import NAMESPACE, NODES, Chart, everything
from tests.cluster.seen import agrees, env_of, telling

pytestmark = pytest.mark.timeout(900)

SYS_PTRACE = 1 << 19
DOCTOR = f"{sys.executable} -m hami_core_py doctor"
KEEP = "--reset-then-reuse-values"
CERTIFICATES = "/etc/kubernetes"
"""Where the page puts them; it is the machine's own."""
# A leader that is silent for eight seconds is none any more.
TWO_SCHEDULERS = (
    "scheduler.replicas=2,scheduler.leaderElect.leaseDuration=8s,scheduler.leaderElect.renewDeadline=6s,"
    "scheduler.leaderElect.retryPeriod=1s"
)
OF_THE_TEST_NODE = {
    # Its folders lie over the machine's, it has a process namespace of its own, and its runtime shows the simulated driver
    # to a container's first process alone.
    "state-directory-elsewhere",
    "host-processes-hidden",
    "no-device-found",
}


@pytest.fixture(scope="module")
def site(directory: Path) -> Iterator[Site]:
    """A node with our images."""
    if not os.environ.get(INSIDE):
        pytest.skip("a node needs root")
    with Site(directory).set_up() as made:
        yield made


@pytest.fixture(scope="module")
def before(site: Site) -> set[str]:
    """What a cluster without us holds."""
    return everything(site.plane) | {f"namespace/{NAMESPACE}"}


@pytest.fixture(scope="module")
def installed(site: Site, before: set[str]) -> Site:
    """The same with our chart, by the page's own commands."""
    short_way, *_ = commands("how-to/install.md")
    assert "label node NODE gpu=on" in short_way
    # What an attempt that failed may have left.
    Chart(site.plane).clear()
    site.plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    site.type_in(short_way.replace("NODE", site.node.name))
    eventually("the card's slots", lambda: site.node.allocatable(COUNT) == 10)
    return site


@pytest.fixture(scope="module")
def pods(site: Site) -> Pods:
    """Pods of users."""
    return Pods(site.plane.client)


@pytest.fixture(scope="module")
def steady(installed: Site, pods: Pods) -> str:
    """A pod that takes more than its share, is refused the rest, and runs through everything."""
    then = "exec hami-sim-client take 5000 1 info wait 3000"
    pods.create(pod("steady", containers=[container("main", gpu(1, 3000, 20), command=telling(then))]))
    pods.in_phase("steady")
    return "steady"


@pytest.fixture(scope="module")
def outside(installed: Site) -> Outside:
    """A backend that lives elsewhere, with its image and its driver on the node."""
    made = Outside(unused(installed.directory / "outside"))
    installed.node.containerd.load_image(made.image())
    made.connect_devices(installed.node, count=2)
    return made


@pytest.fixture(scope="module")
def two_schedulers(installed: Site) -> Site:
    """The same with two scheduler pods, in each of which kube-scheduler calls its extender over mutual TLS."""
    values = f"{TWO_SCHEDULERS},scheduler.extender.transport=mtls"
    installed.type_in(f"helm upgrade hami charts/hami --namespace {NAMESPACE} {KEEP} --set {values}")
    installed.roll_out()
    return installed


def sharing(name: str, limits: Mapping[str, str]) -> dict[str, Any]:
    """A pod with a share that says what it received."""
    return pod(name, containers=[container("main", limits, command=telling())])


def gets_its_share(pods: Pods, name: str) -> None:
    """A pod is admitted, scheduled and started with what its record says."""
    pods.create(sharing(name, gpu(1, 1000, 20)))
    (share,) = shares_of(pods.in_phase(name))
    assert share["memory"] == 1000
    assert agrees(env_of(pods, name), share)
    pods.delete(name)


def run_of(pods: Pods, name: str) -> tuple[str, str, int]:
    """A pod's record, and which run of its container this is."""
    found = pods.get(name)
    (status,) = found["status"]["containerStatuses"]
    assert status["ready"]
    return json.dumps(shares_of(found)), status["containerID"], status["restartCount"]


def calls_of(site: Site, name: str) -> float:
    """How often an extender was called, by its own count."""
    path = join_path("api", "v1", "namespaces", NAMESPACE, "pods", f"{name}:9395", "proxy", "metrics")
    lines = site.plane.client.text(path).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("hami_extender_calls_total{"))


def hears(site: Site, name: str, authority: Path, certificate: Sequence[Path] = ()) -> bool:
    """Whether an extender listens to somebody in its pod's network who shows this certificate and key, or none."""
    arguments = ("https://127.0.0.1:9444/bind", authority, *certificate)
    network = f"--net=/proc/{site.pid_of('extender', name)}/ns/net"
    done = subprocess.run(
        ["nsenter", network, "--", sys.executable, "-m", "tests.cluster.calls", *arguments], check=False
    )
    return done.returncode == 0


def concerned_by_settings(site: Site) -> set[str]:
    """UIDs of our pods that read the device configuration, the ending ones included."""
    return {own["metadata"]["uid"] for own in site.ours() if "certificates" not in own["metadata"]["name"]}


def test_everything_runs_and_a_pod_gets_its_share_as_the_page_says(installed: Site) -> None:
    _, share, *_ = commands("how-to/install.md")
    told = installed.type_in(share)
    assert '"memory":4000' in told
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=4000m" in told
    for own in installed.ours():
        print(f"{own['metadata']['name']}: Ready after {seconds_to_ready(own):g} s")
        assert all(status["restartCount"] == 0 for status in own["status"]["containerStatuses"]), installed.account()


def test_container_is_held_to_its_share_by_the_limiter_of_our_image(pods: Pods, steady: str) -> None:
    path = f"{pods.path(steady)}/log"
    eventually("a refusal", lambda: "refused: 3000 of 3000 MiB" in pods.client.text(path))


def test_processes_have_no_rights_but_those_that_the_security_page_names(installed: Site) -> None:
    for name in ("extender", "kube-scheduler", "webhook", "certificates", "device-plugin", "monitor"):
        process, is_on_node = installed.process_of(name), name in ("device-plugin", "monitor")
        capabilities = SYS_PTRACE if is_on_node else 0
        assert {int(process[f"Cap{kind}"], 16) for kind in ("Eff", "Prm", "Bnd")} == {capabilities}, name
        assert process["Uid"].split()[1] == ("0" if is_on_node else "65532"), name
        assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2"), name
        print(f"{name}: {process['VmRSS']} resident")


def test_doctor_finds_nothing_wrong_in_the_cluster_and_on_the_node(installed: Site) -> None:
    cluster, node = commands("how-to/doctor.md")
    assert "no problem found" in installed.type_in(cluster.replace("hami doctor", DOCTOR))
    told = installed.type_in(f"{node.rstrip()} -o json || true")
    found = {(one["code"], one["subject"]) for one in json.loads(told)["findings"]}
    assert {code for code, _ in found} <= OF_THE_TEST_NODE
    assert "backend mock" not in {subject for _, subject in found}


def test_upgrade_and_rollback_replace_our_pods_and_leave_a_running_share_alone(
    installed: Site, pods: Pods, steady: str
) -> None:
    run, first = run_of(pods, steady), concerned_by_settings(installed)
    upgrade, *_ = commands("how-to/upgrade.md")
    assert KEEP in upgrade
    # An attempt that failed may have left the one; the other is a change again.
    policy = (
        "binpack" if "nodePolicy: spread" in installed.type_in(f"helm -n {NAMESPACE} get values hami") else "spread"
    )
    installed.type_in(upgrade.replace(KEEP, f"{KEEP} --set settings.placement.nodePolicy={policy}"))
    eventually("other pods than before", lambda: not first & concerned_by_settings(installed))
    gets_its_share(pods, "after-upgrade")
    installed.type_in(commands("how-to/rollback.md")[0].replace("REVISION", "1"))
    gets_its_share(pods, "after-rollback")
    assert run_of(pods, steady) == run


def test_without_webhook_everything_starts_but_pods_that_ask_for_devices(installed: Site, pods: Pods) -> None:
    scale = f"kubectl -n {NAMESPACE} scale deployment hami-webhook --replicas="
    installed.type_in(f"{scale}0")
    try:
        eventually("no webhook", lambda: not any("webhook" in own["metadata"]["name"] for own in installed.ours()))
        with pytest.raises(ApiError, match="failed calling webhook"):
            pods.create(sharing("asking", gpu()))
        pods.create(pod("plain"))
        pods.in_phase("plain")
        pods.delete("plain")
        # Pods of a DaemonSet start as well, and so does its own replacement.
        installed.type_in(f"kubectl -n {NODES} rollout restart daemonset")
        installed.roll_out()
    finally:
        installed.type_in(f"{scale}2")
    installed.roll_out()
    gets_its_share(pods, "after-outage")


def test_backend_from_outside_runs_by_a_value_beside_ours(installed: Site, pods: Pods, outside: Outside) -> None:
    installed.type_in(
        f"helm upgrade hami charts/hami --namespace {NAMESPACE} {KEEP}"
        f" -f {outside.definition()} -f {outside.values()} --set 'backends.enabled={{nvidia,{outside.name}}}'"
    )
    installed.roll_out()
    eventually("its devices", lambda: installed.node.allocatable(outside.count) == 20)
    pods.create(sharing("theirs", {outside.count: "1", outside.memory: "600"}))
    pods.in_phase("theirs")
    env = env_of(pods, "theirs")
    assert env[f"{outside.name.upper()}_MEMORY_LIMIT_0"] == "1024m"
    assert env[f"{outside.name.upper()}_VISIBLE_DEVICES"].startswith("serial-")
    pods.delete("theirs")
    gets_its_share(pods, "ours-too")


def test_second_scheduler_takes_over_from_one_that_hangs_and_knows_what_that_has_given(
    two_schedulers: Site, pods: Pods
) -> None:
    pods.create(sharing("before", gpu(1, **{PERCENT: "60"})))
    pods.in_phase("before")
    first = two_schedulers.leader()
    (second,) = {name for name in two_schedulers.schedulers() if name != first}
    assert calls_of(two_schedulers, first) > 0
    assert calls_of(two_schedulers, second) == 0
    for program in ("kube-scheduler", "extender"):
        os.kill(two_schedulers.pid_of(program, first), signal.SIGSTOP)
    try:
        # kube-scheduler adds up memory and percent apart: that these two do not fit one card only an extender knows.
        pods.create(sharing("too-much", gpu(1, 20000)))
        pods.create(sharing("fits", gpu(1, 5000)))
        pods.in_phase("fits")
        assert two_schedulers.leader() == second
        pods.refused("too-much", "its devices lack free memory")
        pods.delete("before")
        pods.in_phase("too-much")
    finally:
        two_schedulers.type_in(f"kubectl -n {NAMESPACE} delete pod {first} --grace-period=0 --force")
        for name in ("before", "too-much", "fits"):
            pods.delete(name)
        two_schedulers.roll_out()


def test_extender_over_mutual_tls_hears_nobody_but_its_kube_scheduler(two_schedulers: Site, tmp_path: Path) -> None:
    for name, text in Chart(two_schedulers.plane).texts_of("secrets", "hami-extender-client-tls").items():
        (tmp_path / name).write_text(text)
    authority, *own = (tmp_path / name for name in ("ca.crt", "tls.crt", "tls.key"))
    # The cluster's own authority is not the extender's.
    stranger = two_schedulers.plane.authority.issue("stranger", "kube-scheduler", "system:masters")
    name = two_schedulers.schedulers()[0]
    assert hears(two_schedulers, name, authority, own)
    assert not hears(two_schedulers, name, authority, stranger)
    assert not hears(two_schedulers, name, authority)


def test_kube_scheduler_of_the_cluster_calls_the_extender_as_the_page_says(installed: Site, pods: Pods) -> None:
    install, keys, entry, address, look = commands("how-to/existing-kube-scheduler.md")
    installed.type_in(
        install.replace("helm install", f"helm upgrade {KEEP} --set scheduler.replicas=1,webhook.replicas=1")
    )
    here = str(installed.directory / "kubernetes")
    installed.type_in(keys.replace(CERTIFICATES, here))
    (extender,) = yaml.safe_load(installed.type_in(entry).replace(CERTIFICATES, here))["extenders"]
    service = installed.type_in(address)
    assert extender["urlPrefix"] == f"https://hami-extender.{NAMESPACE}.svc:9444"
    extender["urlPrefix"] = f"https://{service}:9444"
    (name,) = installed.schedulers()
    pod_address = Pods(installed.plane.client, NAMESPACE).get(name)["status"]["podIP"]
    configuration = str(installed.plane.directory / "scheduler.json")
    with installed.leads(service, 9444, f"{pod_address}:9444"):
        installed.plane.start_scheduler({"extenders": [extender]})
        try:
            gets_its_share(pods, "by-the-clusters-own")
            pods.create(pod("plain"))
            pods.in_phase("plain")
            pods.delete("plain")
            look = look.replace("hami doctor", DOCTOR).replace(f"{CERTIFICATES}/scheduler-config.yaml", configuration)
            assert "no problem found" in installed.type_in(look)
        finally:
            installed.plane.start_scheduler({})


def test_uninstalled_as_the_page_says_nothing_is_left(
    installed: Site, pods: Pods, steady: str, before: set[str]
) -> None:
    run = run_of(pods, steady)
    uninstall, clean, *_ = commands("how-to/uninstall.md")
    installed.type_in(f"{uninstall.rstrip()} --ignore-not-found")
    eventually("objects of ours gone", lambda: everything(installed.plane) == before)
    # kube-scheduler's Lease is left, as v2.10 leaves one: it is in nobody's way.
    (again,) = (line for line in commands("how-to/install.md")[0].splitlines() if line.startswith("helm install"))
    installed.type_in(f"{again} --dry-run=server > /dev/null")
    assert run_of(pods, steady) == run
    pods.clear()
    installed.type_in(clean)
    assert left_in(installed, NAMESPACE) == {"configmap/kube-root-ca.crt", "serviceaccount/default"}
    with pytest.raises(NotFound):
        installed.plane.client.get(join_path("api", "v1", "namespaces", NODES))
    node = installed.node.object()
    assert [key for key in node["metadata"]["annotations"] if key.startswith("hami.io/")] == []
    assert [key for key in node["metadata"]["labels"] if key.startswith("hami.io/")] == []
    assert MEMORY not in node["status"]["capacity"]
    assert installed.node.allocatable(COUNT) == 0
    plugins = {path.name for path in (installed.node.kubelet_dir / "device-plugins").iterdir()}
    assert plugins <= {"kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION"}
    assert all(path.name.startswith("hami") for path in installed.node.cdi_dir.iterdir())


def test_tutorial_installs_it_anew_without_accelerators(installed: Site) -> None:
    installed.type_in(f"kubectl label node {installed.node.name} gpu-; kubectl delete namespace {NAMESPACE}")
    told = "".join(installed.type_in(block) for block in commands("tutorials/try-on-a-cluster.md"))
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=4000m" in told
    assert '"memory":4000' in told
    assert "0/1 nodes are available" in told


def left_in(site: Site, namespace: str) -> set[str]:
    """Everything in a namespace but events."""
    kinds = "all,configmaps,secrets,leases,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets"
    told = site.plane.kubectl("get", kinds, "-n", namespace, "-o", "name")
    return {line.replace(".coordination.k8s.io", "") for line in told.split()}
