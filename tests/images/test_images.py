"""The images: the same bytes each time, small, without what a container does not need, and what is in them runs."""

import json
import os
import re
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from images import build, debian, oci
from tests.cluster.daemons import eventually
from tests.cluster.releases import Release
from tests.images.conftest import Unpacked

EPOCH = 1_790_000_000
MOST_MIB = 100
FOLDER = Path(build.__file__).parent

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("image")


@pytest.fixture(scope="module")
def layers(work: Path, lower: Path) -> tuple[oci.Layer, ...]:
    """Everything built once."""
    return build.layers_of(work, epoch=EPOCH, cache=lower)


@pytest.fixture(scope="module")
def image(layers: tuple[oci.Layer, ...], work: Path) -> Unpacked:
    return Unpacked(work / "root")


@pytest.fixture(scope="module")
def archive(layers: tuple[oci.Layer, ...], work: Path) -> Path:
    """Both images in one archive."""
    images = {
        f"{build.REPOSITORY}/{name}:test": build.image_of(name, layers, tag="test", epoch=EPOCH) for name in build.KINDS
    }
    path = work / "images.tar"
    path.write_bytes(oci.archive_of(images))
    return path


def read(archive: Path, name: str) -> Any:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(name)
        assert file is not None
        return json.loads(file.read())


def config_of(archive: Path, name: str) -> Any:
    entries = read(archive, "index.json")["manifests"]
    reference = f"{build.REPOSITORY}/{name}:test"
    (entry,) = [one for one in entries if one["annotations"][oci.NAME] == reference]
    manifest = read(archive, f"blobs/sha256/{entry['digest'][7:]}")
    return read(archive, f"blobs/sha256/{manifest['config']['digest'][7:]}")


def test_built_again_it_is_the_same_to_the_byte(layers: tuple[oci.Layer, ...], tmp_path: Path) -> None:
    again = build.layers_of(tmp_path, epoch=EPOCH)
    assert [layer.comment for layer in again if layer not in layers] == []


def test_it_is_small(layers: tuple[oci.Layer, ...]) -> None:
    assert sum(len(layer.content) for layer in layers) < MOST_MIB * 2**20


def test_it_holds_no_shell_no_package_manager_and_nothing_that_raises_rights(image: Unpacked) -> None:
    programs = {path.name for path in image.root.rglob("bin/*")} | {path.name for path in image.root.rglob("sbin/*")}
    assert programs == {"hami", "python3", debian.PYTHON}
    files = (path for path in image.root.rglob("*") if not path.is_symlink())
    raising = [path for path in files if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]
    assert raising == []


def test_nothing_tells_of_the_machine_that_built_it(image: Unpacked) -> None:
    etc = {str(path.relative_to(image.root)) for path in (image.root / "etc").rglob("*") if path.is_file()}
    assert etc.isdisjoint({"etc/resolv.conf", "etc/hostname", "etc/fstab"})
    own = list((image.root / debian.SITE).rglob("*.dist-info/direct_url.json"))
    assert own == []


def test_nobody_but_root_may_write_anything_but_temporary_files(image: Unpacked) -> None:
    files = (path for path in image.root.rglob("*") if not path.is_symlink())
    writable = {path for path in files if path.stat().st_mode & stat.S_IWOTH}
    assert writable == {image.root / "tmp"}


def test_command_line_runs_as_somebody_without_rights_and_finds_the_backends(image: Unpacked) -> None:
    assert image.run("--version").stdout.startswith("hami, version")
    assert image.backends() == ["mock", "nvidia"]


@pytest.mark.parametrize("process", ["scheduler", "webhook", "device-plugin", "monitor", "doctor"])
def test_every_process_can_be_imported(image: Unpacked, process: str) -> None:
    assert image.run(process, "--help").stdout.startswith("Usage: hami")


def test_everything_is_compiled_so_that_a_read_only_container_starts_quickly(image: Unpacked) -> None:
    package = image.root / debian.SITE / "hami_core_py"
    sources = {path.relative_to(package).with_suffix("") for path in package.rglob("*.py")}
    compiled = {
        (path.parent.parent / path.name.partition(".")[0]).relative_to(package)
        for path in package.rglob("__pycache__/*.pyc")
    }
    assert sources == compiled


def test_licences_of_what_it_holds_are_there(image: Unpacked) -> None:
    assert (image.root / "usr/share/doc/python3.11-minimal/copyright").is_file()
    assert list((image.root / debian.SITE).glob("numpy-*.dist-info/licenses/**/*"))


def test_control_plane_runs_without_rights_and_the_agent_as_root(archive: Path) -> None:
    users = {name: config_of(archive, name)["config"]["User"] for name in build.KINDS}
    assert users == {"control-plane": "65532:65532", "node-agent": "0:0"}
    assert config_of(archive, "control-plane")["config"]["Entrypoint"] == ["hami"]


def test_images_share_their_layers(archive: Path) -> None:
    control, agent = (config_of(archive, name)["rootfs"]["diff_ids"] for name in build.KINDS)
    assert control == agent


@pytest.mark.parametrize("name", build.KINDS)
def test_containerfile_makes_what_the_build_makes(name: str) -> None:
    text = (FOLDER / f"{name}.Containerfile").read_text()
    last = text[text.rindex("FROM ") :]
    installed = re.search(r"--no-install-recommends (.*?) \\", last)
    assert installed is not None
    assert tuple(installed[1].split()) == debian.packages()
    assert f"/{debian.SITE}" in last
    assert f"USER {build.KINDS[name].user}" in last
    assert 'ENTRYPOINT ["hami"]' in last
    assert f"debian:{debian.SUITE}-slim" in text


def test_containerd_imports_it(archive: Path, tmp_path: Path) -> None:
    if os.getuid():
        pytest.skip("containerd needs root")
    try:
        containerd, ctr = (Release.chosen().program(name) for name in ("containerd", "ctr"))
    except FileNotFoundError as problem:
        pytest.skip(str(problem))
    config = tmp_path / "config.toml"
    disabled = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"]
    config.write_text(
        f"version = 3\nroot = '{tmp_path}/root'\nstate = '{tmp_path}/state'\ndisabled_plugins = {disabled}\n"
    )
    address = Path(f"/tmp/hi{os.getpid()}.sock")
    daemon = subprocess.Popen([containerd, "--config", config, "--address", address], stderr=subprocess.DEVNULL)
    try:
        eventually("a listening containerd", address.exists)
        command = [str(ctr), "--address", str(address), "images"]
        told = subprocess.run(
            [*command, "import", "--local", "--no-unpack", str(archive)], capture_output=True, text=True
        )
        assert told.returncode == 0, told.stderr
        listed = subprocess.run([*command, "list", "-q"], check=True, capture_output=True, text=True).stdout.split()
        assert listed == [f"{build.REPOSITORY}/{name}:test" for name in build.KINDS]
    finally:
        daemon.terminate()
        daemon.wait(timeout=30)
