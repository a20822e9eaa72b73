"""Which values are taken, which are refused, and what those of older charts become."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import (
    CHART,
    FIXTURES,
    NAMESPACE,
    SETS,
    container,
    objects,
    one,
    refusal,
    run,
    text,
    workload,
    workloads,
)
from tests.reference.chart import chart_files, schema


@pytest.mark.parametrize("name", chart_files())
def test_written_file_is_what_the_code_says(name: str) -> None:
    assert (CHART / name).read_text(encoding="utf-8") == chart_files()[name], "run `python -m tests.reference`"


def test_default_values_are_all_in_the_schema() -> None:
    ended = run("lint", str(CHART), "-f", str(CHART / "values.yaml"))
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("colour=red", "'colour'"),
        ("scheduler.replica=2", "'replica'"),
        ("webhook.service.ports=1", "'ports'"),
        ("settings.placement.shortlst=3", "'shortlst'"),
        ("settings.placment.shortlist=3", "'placment'"),
        ("backends.nvidia.settings.deviceSplitcount=3", "'deviceSplitcount'"),
        ("backends.acme.agent.nodeselector.a=b", "'nodeselector'"),
        ("backends.definitions.acme.setings.a=b", "'setings'"),
        ("scheduler.extender.ignorable=true", "'ignorable'"),
        ("scheduler.kubeScheduler.ignorable=true", "'ignorable'"),
    ],
)
def test_unknown_value_is_refused_where_it_stands(value: str, where: str) -> None:
    assert f"additional properties {where} not allowed" in refusal("--set", value)


@pytest.mark.parametrize(
    "value",
    [
        "webhook.failurePolicy=Maybe",
        "webhook.timeoutSeconds=31",
        "scheduler.replicas=0",
        "scheduler.leaderElect=7",
        "scheduler.leaderElect.leaseDuration=15",
        "scheduler.service.type=ExternalName",
        "scheduler.leaveToKubeScheduler={priority}",
        "scheduler.kubeScheduler.percentageOfNodesToScore=101",
        "scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy=fastest",
        "settings.placement.mode=some-nodes",
        "settings.placement.shortlist=-1",
        "backends.nvidia.settings.deviceSplitCount=0",
        "backends.nvidia.settings.gpuCorePolicy=sometimes",
        "backends.enabled={Not A Name}",
        "certificates.source=somebody",
        "devicePlugin.identity=guess",
    ],
)
def test_value_out_of_range_is_refused(value: str) -> None:
    assert value.partition("=")[0].replace(".", "/").partition("{")[0] in refusal("--set", value).replace("'", "")


def test_schema_is_closed_wherever_names_are_ours() -> None:
    names = {"Backends", "Root"}
    open_ones = [
        name
        for name, part in schema()["$defs"].items()
        if "properties" in part and part.get("additionalProperties") is not False and name not in names
    ]
    assert open_ones == []
    assert schema()["additionalProperties"] is False


def test_backend_without_a_definition_is_refused_with_the_known_names() -> None:
    said = refusal("--set", "backends.enabled={nvidia,acme}")
    assert 'got "acme"; known are mock, nvidia' in said
    assert "hami backends chart acme" in said


def test_no_backend_at_all_is_refused() -> None:
    assert "expected at least one backend" in refusal("--set", "backends.enabled=null")


def test_chart_without_the_monitoring_api_says_so() -> None:
    assert "install it first" in refusal("--set", "prometheus.enabled=true")


def test_chart_without_cert_manager_says_so() -> None:
    assert "cert-manager.io/v1" in refusal("--set", "certificates.source=cert-manager")


def test_certificates_of_somebody_else_need_their_authority() -> None:
    assert "certificates.caBundle" in refusal("--set", "certificates.source=existing")


@pytest.mark.parametrize("value", ["scheduler.leaderElect=false", "scheduler.kubeScheduler.enabled=false"])
def test_two_schedulers_without_an_election_are_refused(value: str) -> None:
    assert "scheduler.replicas: expected 1" in refusal("--set", "scheduler.replicas=2", "--set", value)


def test_older_kubernetes_is_refused() -> None:
    ended = run("template", "hami", str(CHART), "--kube-version", "1.29.9")
    assert "incompatible with Kubernetes v1.29.9" in ended.stderr


def config(*options: str) -> dict[str, object]:
    found = one(objects(*options), "ConfigMap", "hami-device-config", NAMESPACE)
    read: dict[str, object] = yaml.safe_load(found["data"]["device-config.yaml"])
    return read


def section(*pairs: str) -> dict[str, object]:
    options = tuple(part for pair in pairs for part in ("--set", pair))
    found = config(*options)["nvidia"]
    assert isinstance(found, dict)
    return found


def test_values_of_v210_reach_the_settings_they_mean() -> None:
    found = section(
        "resourceName=acme.example/gpu",
        "devicePlugin.deviceSplitCount=4",
        "devicePlugin.deviceMemoryScaling=1.5",
        "devicePlugin.runtimeClassName=fast",
        "devices.nvidia.gpuCorePolicy=force",
        "devicePlugin.disablecorelimit=true",
    )
    assert found["resourceCountName"] == "acme.example/gpu"
    assert found["deviceSplitCount"] == 4
    assert found["deviceMemoryScaling"] == "1.5"  # as --set gives it; the settings read a number
    assert found["runtimeClassName"] == "fast"
    assert found["gpuCorePolicy"] == "force"
    assert found["disableCoreLimit"] is True


def test_backends_own_values_beat_those_of_v210() -> None:
    found = section("devicePlugin.deviceSplitCount=4", "backends.nvidia.settings.deviceSplitCount=5")
    assert found["deviceSplitCount"] == 5


def test_false_is_a_value() -> None:
    assert section("backends.nvidia.settings.topologyScores=false")["topologyScores"] is False


def test_renamed_resource_is_managed_under_its_new_name() -> None:
    found = objects("--set", "resourceName=acme.example/gpu")
    extender = yaml.safe_load(one(found, "ConfigMap", "hami-scheduler")["data"]["config.yaml"])["extenders"][0]
    names = [entry["name"] for entry in extender["managedResources"]]
    assert "acme.example/gpu" in names
    assert "nvidia.com/gpu" not in names
    hook = one(found, "MutatingWebhookConfiguration", "hami-webhook")["webhooks"][0]
    assert '"acme.example/gpu"' in hook["matchConditions"][0]["expression"]


def test_resource_that_does_not_exist_is_not_managed() -> None:
    assert (
        "nvidia.com/priority"
        not in text("--set", "backends.nvidia.settings.resourcePriorityName=null").split(
            "kind: MutatingWebhookConfiguration"
        )[1]
    )


def test_node_selector_of_v210_replaces_the_definitions() -> None:
    found = objects("--set", "devicePlugin.nvidiaNodeSelector.kind=big")
    assert workload(found, "hami-device-plugin-nvidia").pod["nodeSelector"] == {"kind": "big"}


def test_policies_of_v210_are_placement_settings() -> None:
    found = config("--set", "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy=spread")
    assert found["placement"] == {"nodePolicy": "spread"}
    beaten = config(
        *("--set", "scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy=spread"),
        *("--set", "settings.placement.nodePolicy=binpack"),
    )
    assert beaten["placement"] == {"nodePolicy": "binpack"}


def test_device_configuration_as_a_text_beats_every_other_value(tmp_path: Path) -> None:
    content = "nvidia:\n  resourceCountName: acme.example/gpu\n  deviceSplitCount: 3\n"
    (tmp_path / "v.yaml").write_text(yaml.safe_dump({"device-config": {"content": content}}))
    options = ("-f", str(tmp_path / "v.yaml"), "--set", "devicePlugin.deviceSplitCount=4")
    found = config(*options)["nvidia"]
    assert isinstance(found, dict)
    assert (found["resourceCountName"], found["deviceSplitCount"]) == ("acme.example/gpu", 3)
    assert '"acme.example/gpu"' in text(*options)


def test_switches_of_v210_add_and_take_away_backends() -> None:
    assert config("--set", "devices.mock.enabled=true")["backends"] == {"enabled": ["mock", "nvidia"]}
    both = ("--set", "backends.enabled={nvidia,mock}", "--set", "devices.nvidia.enabled=false")
    assert config(*both)["backends"] == {"enabled": ["mock"]}


def test_failure_policy_of_v210_counts_where_ours_says_nothing() -> None:
    def policy(*pairs: str) -> object:
        options = tuple(part for pair in pairs for part in ("--set", pair))
        return one(objects(*options), "MutatingWebhookConfiguration", "hami-webhook")["webhooks"][0]["failurePolicy"]

    old = "scheduler.admissionWebhook.failurePolicy=Ignore"
    assert policy() == "Fail"
    assert policy(old) == "Ignore"
    assert policy(old, "webhook.failurePolicy=Fail") == "Fail"


def test_arguments_that_only_older_programs_know_are_left_out() -> None:
    found = objects(*SETS["v2.10"])
    pods = [workload(found, "hami-scheduler"), workload(found, "hami-device-plugin-nvidia")]
    arguments = [argument for of in pods for c in of.containers for argument in c["args"]]
    assert not [a for a in arguments if a.startswith(("--debug", "--policy-config-file", "--config=/config"))]
    assert "-v=4" in container(pods[0], "kube-scheduler")["args"]
    assert "-v=4" not in container(pods[0], "extender")["args"]


def test_notes_name_older_values_that_mean_nothing(tmp_path: Path) -> None:
    # Helm shows notes beside a cluster only; as a manifest they can be seen anywhere.
    chart = tmp_path / "hami"
    shutil.copytree(CHART, chart)
    (chart / "files" / "NOTES.txt").write_text((chart / "templates" / "NOTES.txt").read_text())
    (chart / "templates" / "notes.yaml").write_text('notes: {{ tpl (.Files.Get "files/NOTES.txt") . | quote }}\n')
    options = (
        "--set",
        "devicePlugin.migStrategy=mixed",
        "--set",
        "devices.gizmo.enabled=true",
        "--set",
        "webhook.failurePolicy=Ignore",
    )
    ended = run("template", "hami", str(chart), "--kube-version", "1.33.0", "-s", "templates/notes.yaml", *options)
    assert ended.returncode == 0, ended.stderr
    notes = yaml.safe_load(ended.stdout)["notes"]
    assert "devicePlugin.migStrategy is a value of the v2.10 chart that means nothing here" in notes
    assert "there is no backend gizmo" in notes
    assert "failurePolicy Ignore" in notes
    assert "nvidia.com/gpumem" in notes
    assert "scheduler.patch" not in notes


def test_guides_election_reaches_kube_scheduler() -> None:
    found = objects(*SETS["guide"])
    election = yaml.safe_load(one(found, "ConfigMap", "hami-scheduler")["data"]["config.yaml"])["leaderElection"]
    assert (election["leaderElect"], election["leaseDuration"], election["renewDeadline"], election["retryPeriod"]) == (
        *(True, "20s", "12s", "3s"),
    )
    assert workload(found, "hami-scheduler").owner["spec"]["replicas"] == 3
    for name, label in (("hami-scheduler", "hami-scheduler"), ("hami-webhook", "hami-webhook")):
        of = workload(found, name)
        [term] = of.pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["labelSelector"]["matchLabels"] == {"app": label}
        assert of.labels["app"] == label


def test_guides_agents_roll_by_a_percentage_and_tolerate() -> None:
    spec = workload(objects(*SETS["guide"]), "hami-device-plugin-nvidia").owner["spec"]
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    assert spec["template"]["spec"]["tolerations"][0]["key"] == "accelerator"


def test_third_partys_backend_is_a_values_file_and_nothing_else() -> None:
    found = objects(*SETS["third party"])
    agent = workload(found, "hami-device-plugin-acme")
    of = container(agent, "device-plugin")
    assert "--backend=acme" in of["args"]
    assert {"name": "ACME_VISIBLE_DEVICES", "value": "all"} in of["env"]
    assert "SYS_RAWIO" in of["securityContext"]["capabilities"]["add"]
    assert agent.pod["nodeSelector"] == {"acme.example/present": "true"}
    assert {"name": "host-0", "hostPath": {"path": "/opt/acme/lib", "type": "Directory"}} in agent.pod["volumes"]
    extender = yaml.safe_load(one(found, "ConfigMap", "hami-scheduler")["data"]["config.yaml"])["extenders"][0]
    names = {entry["name"] for entry in extender["managedResources"]}
    assert {"acme.example/one", "acme.example/two", "acme.example/memory", "acme.example/cores"} <= names
    assert one(found, "ClusterRole", "hami-device-plugin-acme-own")["rules"][0]["resources"] == ["boards"]
    policy = json.dumps(one(found, "ValidatingAdmissionPolicy", "hami-pod-records"))
    assert "acme.example/plan" in policy


@pytest.mark.parametrize(
    ("name", "path"), [("third party", "/plugins/acme"), ("third party alone", "/plugins/acme/site-packages")]
)
def test_python_of_a_plugin_image_is_on_the_path_of_every_process(name: str, path: str) -> None:
    of_ours = [
        c
        for of in workloads(objects(*SETS[name]))
        for c in of.pod["containers"]
        if c["command"][0] == "hami" and c["command"][1] != "certificates"
    ]
    assert len(of_ours) >= 4
    for c in of_ours:
        assert {"name": "PYTHONPATH", "value": path} in c["env"], c["name"]
        assert "plugin-acme" in [mount["name"] for mount in c["volumeMounts"]]


def test_values_file_of_a_third_party_is_of_the_shape_that_the_command_writes() -> None:
    written = yaml.safe_load((CHART / "backends" / "nvidia.yaml").read_text())["backends"]["definitions"]["nvidia"]
    given = yaml.safe_load((FIXTURES / "acme.values.yaml").read_text())["backends"]["definitions"]["acme"]
    assert set(given) - {"plugin", "files"} <= set(written)
