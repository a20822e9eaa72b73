"""Our images, our chart, nothing else: installed as the pages say, changed, and removed, while pods with a share run.

One installation is taken from its beginning to its end; the tests are its chapters, in order.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.cluster.client import join_path
from hami_core_py.cluster.errors import ApiError, NotFound
from tests.cluster.daemons import eventually
from tests.cluster.installation import Site, commands, seconds_to_ready
from tests.cluster.node import INSIDE
from tests.cluster.outside_backend import Outside
from tests.cluster.pods import COUNT, MEMORY, Pods, container, gpu, pod, shares_of
from tests.cluster.release_chart import NAMESPACE, NODES, everything
from tests.cluster.seen import agrees, env_of, telling

pytestmark = pytest.mark.timeout(900)

SYS_PTRACE = 1 << 19
KEEP = "--reset-then-reuse-values"
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
    made = Outside(installed.directory / "outside")
    installed.node.containerd.load_image(made.image())
    made.connect_devices(installed.node, count=2)
    return made


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


def test_doctor_finds_nothing_wrong_in_the_cluster_and_on_the_node(installed: Site) -> None:
    assert "no problem found" in installed.type_in(f"{sys.executable} -m hami_core_py doctor")
    in_agent = "exec daemonset/hami-device-plugin-nvidia --container device-plugin -- hami doctor --node -o json"
    told = installed.type_in(f"kubectl --namespace {NODES} {in_agent} || true")
    assert {one["code"] for one in json.loads(told)["findings"]} <= OF_THE_TEST_NODE


def test_upgrade_and_rollback_replace_our_pods_and_leave_a_running_share_alone(
    installed: Site, pods: Pods, steady: str
) -> None:
    run, first = run_of(pods, steady), concerned_by_settings(installed)
    upgrade, *_ = commands("how-to/upgrade.md")
    assert KEEP in upgrade
    installed.type_in(upgrade.replace(KEEP, f"{KEEP} --set settings.placement.nodePolicy=spread"))
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


def test_uninstalled_as_the_page_says_nothing_is_left(
    installed: Site, pods: Pods, steady: str, before: set[str]
) -> None:
    run = run_of(pods, steady)
    uninstall, clean, *_ = commands("how-to/uninstall.md")
    installed.type_in(uninstall)
    eventually("objects of ours gone", lambda: everything(installed.plane) == before)
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
