"""Whatever the values: what refers to something finds it, and what is started can be started."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_core_py.cli import LazyGroup, main
from hami_core_py.commands.common import load
from tests.chart.rendering import CHART, NAMESPACE, SETS, Object, container, objects, one, run, workload, workloads

IN_SECRETS_OF_ANOTHER = frozenset({"cert-manager", "cert-manager and mtls", "own certificates"})
"""Value sets in which somebody else makes the Secrets."""

every_set = pytest.mark.parametrize("name", SETS)


def key(item: Object) -> tuple[str, str, str]:
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def test_lint_finds_nothing() -> None:
    ended = run("lint", "--strict", str(CHART))
    assert ended.returncode == 0, ended.stdout


@every_set
def test_no_object_is_rendered_twice(name: str) -> None:
    keys = [key(item) for item in objects(*SETS[name])]
    assert sorted({k for k in keys if keys.count(k) > 1}) == []


@every_set
def test_every_namespaced_object_says_where_it_belongs(name: str) -> None:
    cluster_wide = {
        *("Namespace", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    lost = [
        key(item)
        for item in objects(*SETS[name])
        if (item["kind"] in cluster_wide) == ("namespace" in item["metadata"])
    ]
    assert lost == []


@every_set
def test_pods_find_their_config_maps_secrets_and_accounts(name: str) -> None:
    found = objects(*SETS[name])
    there = {key(item) for item in found}
    missing = []
    for of in workloads(found):
        wanted = {("ServiceAccount", of.namespace, of.pod["serviceAccountName"])}
        for volume in of.pod.get("volumes", ()):
            if "configMap" in volume:
                wanted.add(("ConfigMap", of.namespace, volume["configMap"]["name"]))
            if "secret" in volume and name not in IN_SECRETS_OF_ANOTHER:
                wanted.add(("Secret", of.namespace, volume["secret"]["secretName"]))
        missing += sorted(wanted - there)
    assert missing == []


@every_set
def test_certificates_of_cert_manager_are_those_that_pods_mount(name: str) -> None:
    found = objects(*SETS[name])
    made = {item["spec"]["secretName"] for item in found if item["kind"] == "Certificate"}
    mounted = {v["secret"]["secretName"] for of in workloads(found) for v in of.pod.get("volumes", ()) if "secret" in v}
    assert not made or mounted <= made


@every_set
def test_mounts_name_volumes_and_volumes_are_mounted(name: str) -> None:
    for of in workloads(objects(*SETS[name])):
        volumes = [volume["name"] for volume in of.pod.get("volumes", ())]
        mounts = {mount["name"] for c in of.containers for mount in c.get("volumeMounts", ())}
        assert len(volumes) == len(set(volumes))
        assert set(volumes) == mounts, of.name


@every_set
def test_no_container_mounts_two_volumes_at_one_place(name: str) -> None:
    for of in workloads(objects(*SETS[name])):
        for c in of.containers:
            places = [mount["mountPath"] for mount in c.get("volumeMounts", ())]
            assert len(places) == len(set(places)), (of.name, c["name"])


@every_set
def test_mounted_keys_exist_in_their_config_map(name: str) -> None:
    found = objects(*SETS[name])
    for of in workloads(found):
        maps = {v["name"]: v["configMap"]["name"] for v in of.pod.get("volumes", ()) if "configMap" in v}
        for mount in (mount for c in of.containers for mount in c.get("volumeMounts", ()) if "subPath" in mount):
            assert mount["subPath"] in one(found, "ConfigMap", maps[mount["name"]], of.namespace)["data"]


@every_set
def test_probes_and_services_name_ports_that_are_there(name: str) -> None:
    found = objects(*SETS[name])
    for of in workloads(found):
        for c in of.containers:
            own = {port["name"] for port in c.get("ports", ())}
            probes = [c[kind]["httpGet"]["port"] for kind in c if kind.endswith("Probe")]
            assert set(probes) <= own, (of.name, c["name"])
    for service in (item for item in found if item["kind"] == "Service"):
        selected = list(selecting(found, service["spec"]["selector"], service["metadata"]["namespace"]))
        targets = {port["targetPort"] for port in service["spec"]["ports"]}
        if service["metadata"]["name"].endswith("-device-plugin-monitor"):
            targets -= {"metrics"}  # a backend without a monitor has none
        assert selected, service["metadata"]["name"]
        assert all(targets <= set(of.ports) for of in selected), service["metadata"]["name"]


@every_set
def test_policies_and_budgets_select_pods_that_are_there(name: str) -> None:
    found = objects(*SETS[name])
    for item in found:
        space = item["metadata"].get("namespace", "")
        if item["kind"] == "NetworkPolicy":
            selected = list(selecting(found, item["spec"]["podSelector"]["matchLabels"], space))
            open_ports = {port["port"] for rule in item["spec"]["ingress"] for port in rule["ports"]}
            assert selected
            assert open_ports <= {port for of in selected for port in of.ports}
        if item["kind"] == "PodDisruptionBudget":
            [of] = selecting(found, item["spec"]["selector"]["matchLabels"], space)
            assert of.owner["spec"]["replicas"] > 1
        if item["kind"] == "ServiceMonitor":
            wanted = item["spec"]["selector"]["matchLabels"].items()
            services = [s for s in found if s["kind"] == "Service" and wanted <= s["metadata"]["labels"].items()]
            ports = {port["name"] for s in services for port in s["spec"]["ports"]}
            assert {end["port"] for end in item["spec"]["endpoints"]} <= ports


def selecting(found: list[Object], labels: dict[str, str], namespace: str) -> Iterator[Any]:
    return (of for of in workloads(found) if of.namespace == namespace and labels.items() <= of.labels.items())


@every_set
def test_selectors_match_their_own_pods(name: str) -> None:
    for of in workloads(objects(*SETS[name])):
        assert of.owner["spec"]["selector"]["matchLabels"].items() <= of.labels.items()


@every_set
def test_bindings_name_roles_and_accounts_that_are_there(name: str) -> None:
    found = objects(*SETS[name])
    there = {key(item) for item in found}
    for item in found:
        if item["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        role = item["roleRef"]
        space = "" if role["kind"] == "ClusterRole" else item["metadata"]["namespace"]
        is_clusters_own = role["name"].startswith("system:") or space == "kube-system"
        assert is_clusters_own or (role["kind"], space, role["name"]) in there
        for subject in item["subjects"]:
            assert ("ServiceAccount", subject["namespace"], subject["name"]) in there


@every_set
def test_every_account_is_used(name: str) -> None:
    found = objects(*SETS[name])
    used = {(of.namespace, of.pod["serviceAccountName"]) for of in workloads(found)}
    made = {key(item)[1:] for item in found if item["kind"] == "ServiceAccount"}
    assert made == used


@every_set
def test_commands_know_the_options_they_are_started_with(name: str) -> None:
    group = main
    assert isinstance(group, LazyGroup)
    for of in workloads(objects(*SETS[name])):
        for c in of.containers:
            if c["command"][0] != "hami":
                continue
            _, process = c["command"]
            command = group.get_command(None, process)  # type: ignore[arg-type]
            assert command is not None
            known = {opt: option for option in command.params for opt in (*option.opts, *option.secondary_opts)}
            given = {argument.partition("=")[0] for argument in c["args"]}
            assert given <= set(known), (process, given - set(known))
            env = {entry["name"] for entry in c.get("env", ())}
            needed = [o for o in command.params if o.required and getattr(o, "envvar", None) not in env]
            assert [o.opts for o in needed if not set(o.opts) & given] == []


def test_whatever_runs_has_room_of_its_own_and_is_not_slowed_down() -> None:
    for of in workloads(objects()):
        for c in of.pod["containers"]:
            assert set(c["resources"]) == {"requests"}, (of.name, c["name"])
            assert set(c["resources"]["requests"]) == {"cpu", "memory"}


def test_whatever_runs_in_an_agents_container_knows_its_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = (
        "--set",
        "devicePlugin.kubeletDir=/k,devicePlugin.stateDir=/s,devicePlugin.cdiDir=/c,devicePlugin.identity=late",
    )
    of = workload(objects(*chosen, *SETS["one backend"]), "hami-device-plugin-nvidia")
    for entry in container(of, "device-plugin")["env"]:
        if "value" in entry:
            monkeypatch.setenv(entry["name"], entry["value"])
    agent = load(None).settings.agent
    assert (*map(str, (agent.kubelet_dir, agent.state_dir, agent.cdi_dir)), agent.identity) == (
        "/k",
        "/s",
        "/c",
        "late",
    )


@every_set
def test_device_configuration_is_what_the_processes_read(name: str, tmp_path: Path) -> None:
    found = objects(*SETS[name])
    texts = {
        item["data"]["device-config.yaml"]
        for item in found
        if item["kind"] == "ConfigMap" and "device-config.yaml" in item["data"]
    }
    [text] = texts
    content = yaml.safe_load(text)
    ours = [backend for backend in content["backends"]["enabled"] if backend != "acme"]
    content["backends"]["enabled"] = ours
    content.pop("acme", None)
    if "mock" in content:
        content["mock"]["devicesFile"] = str(tmp_path / "devices.yaml")
        (tmp_path / "devices.yaml").write_text(
            one(found, "ConfigMap", "hami-files-mock", NAMESPACE)["data"]["devices.yaml"]
        )
    (tmp_path / "device-config.yaml").write_text(yaml.safe_dump(content))
    loaded = load(tmp_path / "device-config.yaml")
    assert [backend.info.name for backend in loaded.ask.backends.loaded] == ours
    assert loaded.ask.backends.left_out == {} or set(loaded.ask.backends.left_out).isdisjoint(ours)


@every_set
def test_backends_that_load_are_those_with_definitions(name: str) -> None:
    found = objects(*SETS[name])
    config = yaml.safe_load(one(found, "ConfigMap", "hami-device-config", NAMESPACE)["data"]["device-config.yaml"])
    agents = {of.labels["hami.io/backend"] for of in workloads(found) if "hami.io/backend" in of.labels}
    assert agents <= set(config["backends"]["enabled"])


def test_processes_of_one_node_share_its_network_without_a_clash() -> None:
    listening = [
        argument.rpartition(":")[2]
        for of in workloads(objects("--set", "devicePlugin.hostNetwork=true", *SETS["host network"]))
        for c in of.containers
        for argument in c.get("args", ())
        if "listen=" in argument
    ]
    assert len(listening) >= 6
    assert sorted(listening) == sorted(set(listening))
