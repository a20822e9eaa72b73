"""A backend that lives outside of the repository, on top of our image, without a line of ours changed."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from images import build, oci, plugin, python
from tests.cluster.outside_backend import Outside
from tests.cluster.releases import Release
from tests.images.conftest import Unpacked

EPOCH = 1_790_000_000
COUNT = "quasar.example/npu"
CHART = python.ROOT / "charts" / "hami"

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    """The template as an author copies and renames it, built in a folder of its own."""
    return Outside(tmp_path_factory.mktemp("author"))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("image")


@pytest.fixture(scope="module")
def layers(outside: Outside, work: Path, lower: Path) -> tuple[oci.Layer, ...]:
    """Our image with the wheel on top."""
    made = build.layers_of(work, epoch=EPOCH, extra=[outside.wheel], cache=lower)
    assert made[-1].comment == outside.wheel.name
    return made


@pytest.fixture(scope="module")
def image(layers: tuple[oci.Layer, ...], work: Path) -> Unpacked:
    return Unpacked(work / "root")


@pytest.fixture(scope="module")
def values(image: Unpacked, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image itself says of the backend to the chart."""
    path = tmp_path_factory.mktemp("values") / "quasar.values.yaml"
    path.write_text(image.run("backends", "chart", "quasar").stdout)
    return path


@pytest.fixture(scope="module")
def rendered(values: Path) -> Mapping[tuple[str, str], Any]:
    """Manifests of the chart with this backend alone, by kind and name."""
    release = Release.chosen()
    try:
        helm = release.program("helm")
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    command = [str(helm), "template", "hami", str(CHART), "--namespace", "hami-system", "-f", str(values)]
    command += ["--kube-version", release.kubernetes]
    command += ["--set", "backends.enabled={quasar}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    documents = [one for one in yaml.safe_load_all(told.stdout) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def test_image_lists_the_backend_beside_ours(image: Unpacked) -> None:
    assert image.backends() == ["mock", "nvidia", "quasar"]


def test_chart_runs_its_agent(rendered: Mapping[tuple[str, str], Any]) -> None:
    agents = [one for (kind, _), one in rendered.items() if kind == "DaemonSet"]
    (agent,) = agents
    (container,) = [
        one for one in agent["spec"]["template"]["spec"]["containers"] if one["command"] == ["hami", "device-plugin"]
    ]
    assert "--backend=quasar" in container["args"]


def test_everything_that_depends_on_the_vendor_follows(rendered: Mapping[tuple[str, str], Any]) -> None:
    config = rendered["ConfigMap", "hami-device-config"]["data"]["device-config.yaml"]
    assert yaml.safe_load(config)["backends"]["enabled"] == ["quasar"]
    scheduler = yaml.safe_load(rendered["ConfigMap", "hami-scheduler"]["data"]["config.yaml"])
    assert COUNT in [one["name"] for one in scheduler["extenders"][0]["managedResources"]]
    (webhook,) = rendered["MutatingWebhookConfiguration", "hami-webhook"]["webhooks"]
    assert COUNT in webhook["matchConditions"][0]["expression"]
    assert "nvidia" not in yaml.safe_dump_all(rendered.values())


def test_processes_accept_the_configuration_that_the_chart_writes(
    image: Unpacked, rendered: Mapping[tuple[str, str], Any]
) -> None:
    config = rendered["ConfigMap", "hami-device-config"]["data"]["device-config.yaml"]
    (image.root / "tmp" / "device-config.yaml").write_text(config)
    assert "quasar" in image.run("config", "check", "/tmp/device-config.yaml").stdout
    assert image.run("backends", "--config", "/tmp/device-config.yaml").stdout.startswith("quasar")


def test_backend_in_an_image_of_its_own_is_found_where_the_chart_puts_it(
    outside: Outside, layers: tuple[oci.Layer, ...], tmp_path: Path
) -> None:
    plain = Unpacked(tmp_path / "root")
    build.unpack(plain.root, layers[:-1])
    assert plain.backends() == ["mock", "nvidia"]
    archive = plugin.plugin_image([outside.wheel], outside.reference, tmp_path / "quasar.tar")
    with_plugin = _layers_in(archive, plain.root / "plugins" / "quasar-image")
    # What the chart's init container does, with the image's own program.
    copy = [str(with_plugin / "bin/cp"), "-R", f"{with_plugin}/site-packages/.", str(plain.root / "plugins" / "quasar")]
    (plain.root / "plugins" / "quasar").mkdir()
    subprocess.run(copy, check=True)
    assert plain.backends(PYTHONPATH="/plugins/quasar") == ["mock", "nvidia", "quasar"]


def _layers_in(archive: Path, target: Path) -> Path:
    """Unpack an archive's only image."""
    import io
    import json
    import tarfile

    with tarfile.open(archive) as tar:

        def blob(name: str) -> bytes:
            file = tar.extractfile(name)
            assert file is not None
            return file.read()

        (entry,) = json.loads(blob("index.json"))["manifests"]
        manifest = json.loads(blob(f"blobs/sha256/{entry['digest'][7:]}"))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(blob(f"blobs/sha256/{layer['digest'][7:]}"))) as content:
                content.extractall(target, filter="fully_trusted")
    return target
