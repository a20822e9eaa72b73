"""Our images, our chart, nothing else: installed as the pages say, changed, and removed, while pods with a share run.

One installation is taken from its beginning to its end; the tests are its chapters, in order.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

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

TRY = "tutorials/try-on-a-cluster.md"
SYS_PTRACE = 1 << 19


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
def pods(site: Site) -> Pods:
    """Pods of users."""
    return Pods(site.plane.client)


@pytest.fixture(scope="module")
def steady(pods: Pods) -> str:
    """A pod with a share that runs through everything."""
    pods.create(sharing("steady", 3000))
    pods.in_phase("steady")
    return "steady"


def sharing(name: str, mib: int) -> dict[str, object]:
    """A pod with a share that says what it received."""
    return pod(name, containers=[container("main", gpu(1, mib, 20), command=telling())])


def gets_its_share(pods: Pods, name: str, mib: int = 1000) -> None:
    """A pod is admitted, scheduled and started with what its record says."""
    pods.create(sharing(name, mib))
    running = pods.in_phase(name)
    (share,) = shares_of(running)
    assert share["memory"] == mib
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


def test_installed_as_the_tutorial_says_it_runs_and_a_pod_shares_a_card(site: Site, before: set[str]) -> None:
    told = "".join(site.type_in(block) for block in commands(TRY))
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=4000m" in told
    assert '"memory":4000' in told
    assert "0/1 nodes are available" in told
    for own in site.ours():
        print(f"{own['metadata']['name']}: Ready after {seconds_to_ready(own):g} s")
        assert all(status["restartCount"] == 0 for status in own["status"]["containerStatuses"]), site.account()


def test_processes_have_no_rights_but_those_that_the_security_page_names(site: Site) -> None:
    for name in ("extender", "kube-scheduler", "webhook", "certificates", "device-plugin", "monitor"):
        process = site.process_of(name)
        capabilities = SYS_PTRACE if name == "device-plugin" else 0
        assert {int(process[f"Cap{kind}"], 16) for kind in ("Eff", "Prm", "Bnd")} == {capabilities}, name
        assert process["Uid"].split()[1] == ("0" if name in ("device-plugin", "monitor") else "65532"), name
        assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2"), name


def test_upgrade_and_rollback_replace_our_pods_and_leave_a_running_share_alone(
    site: Site, pods: Pods, steady: str
) -> None:
    run = run_of(pods, steady)
    first = concerned_by_settings(site)
    upgrade, *_ = commands("how-to/upgrade.md")
    keep = "--reset-then-reuse-values"
    assert keep in upgrade
    site.type_in(upgrade.replace(keep, f"{keep} --set settings.placement.nodePolicy=spread"))
    eventually("other pods than before", lambda: not first & concerned_by_settings(site))
    gets_its_share(pods, "after-upgrade")
    site.type_in(commands("how-to/rollback.md")[0].replace("REVISION", "1"))
    gets_its_share(pods, "after-rollback")
    assert run_of(pods, steady) == run


def test_without_webhook_everything_starts_but_pods_that_ask_for_devices(site: Site, pods: Pods) -> None:
    scale = f"kubectl -n {NAMESPACE} scale deployment hami-webhook --replicas="
    site.type_in(f"{scale}0")
    try:
        eventually("no webhook", lambda: not any("webhook" in own["metadata"]["name"] for own in site.ours()))
        with pytest.raises(ApiError, match="failed calling webhook"):
            pods.create(sharing("asking", 1000))
        pods.create(pod("plain"))
        pods.in_phase("plain")
        pods.delete("plain")
        # Its own replacement, and a node agent's, start as well.
        site.type_in(f"kubectl -n {NODES} rollout restart daemonset")
        site.roll_out()
    finally:
        site.type_in(f"{scale}2")
    site.roll_out()
    gets_its_share(pods, "after-outage")


def test_backend_from_outside_runs_by_a_value_and_offers_its_devices(site: Site, pods: Pods) -> None:
    outside = Outside(site.directory / "outside")
    site.node.containerd.load_image(outside.image())
    outside.connect_devices(site.node, count=2)
    site.type_in(
        "helm upgrade hami charts/hami --namespace hami-system --reset-then-reuse-values"
        f" -f {outside.definition()} -f {outside.values()} --set 'backends.enabled={{nvidia,mock,{outside.name}}}'"
    )
    site.roll_out()
    eventually("its devices", lambda: site.node.allocatable(outside.count) == 20)
    pods.create(
        pod("theirs", containers=[container("main", {outside.count: "1", outside.memory: "600"}, command=telling())])
    )
    pods.in_phase("theirs")
    env = env_of(pods, "theirs")
    assert env[f"{outside.name.upper()}_MEMORY_LIMIT_0"] == "1024m"
    assert env[f"{outside.name.upper()}_VISIBLE_DEVICES"].startswith("serial-")
    pods.delete("theirs")
    gets_its_share(pods, "ours-too")


def test_uninstalled_as_the_page_says_nothing_is_left(site: Site, pods: Pods, steady: str, before: set[str]) -> None:
    run = run_of(pods, steady)
    uninstall, clean, *_ = commands("how-to/uninstall.md")
    site.type_in(uninstall)
    eventually("objects of ours gone", lambda: everything(site.plane) == before)
    assert run_of(pods, steady) == run
    pods.delete(steady)
    site.type_in(clean)
    assert left_in(site, NAMESPACE) == {"configmap/kube-root-ca.crt", "serviceaccount/default"}
    node = site.node.object()
    assert [key for key in node["metadata"]["annotations"] if key.startswith("hami.io/")] == []
    assert [key for key in node["metadata"]["labels"] if key.startswith("hami.io/")] == []
    assert MEMORY not in node["status"]["capacity"]
    assert site.node.allocatable(COUNT) == 0
    plugins = {path.name for path in (site.node.kubelet_dir / "device-plugins").iterdir()}
    assert plugins <= {"kubelet.sock", "kubelet_internal_checkpoint", "DEPRECATION"}
    assert all(path.name.startswith("hami") for path in site.node.cdi_dir.iterdir())
    with pytest.raises(NotFound):
        site.plane.client.get(join_path("api", "v1", "namespaces", NODES))


def left_in(site: Site, namespace: str) -> set[str]:
    """Everything in a namespace but events."""
    kinds = "all,configmaps,secrets,leases,serviceaccounts,roles,rolebindings,networkpolicies,poddisruptionbudgets"
    told = site.plane.kubectl("get", kinds, "-n", namespace, "-o", "name")
    return {line.replace(".coordination.k8s.io", "") for line in told.split()}
