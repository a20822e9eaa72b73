"""What the agent keeps on disk."""

import os
from pathlib import Path

import pytest

from hami_core_py.errors import BackendError
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.backends import BackendInfo, HostFile
from hami_core_py.services.agent.files import put
from hami_core_py.services.agent.holdings import Holding, Holdings, PodRef
from hami_core_py.services.agent.hostfiles import HostFiles
from hami_core_py.services.agent.mounts import Mounts


def test_file_is_replaced_and_never_changed_in_place(tmp_path):
    path = tmp_path / "f"
    assert put(path, b"one", mode=0o755)
    with path.open("rb") as running:
        assert put(path, b"two")
        assert running.read() == b"one"
    assert not put(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["f"]


def test_names_survive_a_restart(tmp_path):
    first = Holdings(tmp_path)
    first.open()
    fresh = first.create("Acme", ["npu-0::1"])
    given = Holding(
        name=fresh.name,
        family="Acme",
        ids=fresh.ids,
        at=fresh.at,
        pod=PodRef(uid="u", namespace="n", name="p"),
        container="main",
        annotations={"a": "b"},
        limits={"acme.example/priority": "1"},
    )
    first.keep(given)
    again = Holdings(tmp_path)
    again.open()
    assert again.all() == (given,)
    again.remove(given.name)
    assert list((tmp_path / "containers").iterdir()) == list((tmp_path / "records").iterdir()) == []


def test_broken_record_is_left_alone_and_stops_nothing(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "bad.json").write_text("{")
    holdings = Holdings(tmp_path)
    holdings.open()
    assert holdings.all() == ()
    assert (tmp_path / "records" / "bad.json").exists()


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_directory_is_never_built_from_a_path(tmp_path, name):
    with pytest.raises(ValueError, match="letters and digits"):
        Holdings(tmp_path).directory(name)


def backend(source, version="1.2"):
    info = BackendInfo(name="acme", host_files=(HostFile(name="libacme.so", source=str(source)),))
    return LoadedBackend(info=info, plugin=object(), distribution=f"hami-backend-acme {version}", hooks=())


def test_host_files_are_kept_by_version(tmp_path):
    source = tmp_path / "libacme.so"
    source.write_bytes(b"1.2")
    files = HostFiles(tmp_path / "state")
    old = files.install(backend(source))
    source.write_bytes(b"1.3")
    new = files.install(backend(source, "1.3"))
    assert (old, new) == (tmp_path / "state/host/acme/1.2", tmp_path / "state/host/acme/1.3")
    assert [(d / "libacme.so").read_bytes() for d in (old, new)] == [b"1.2", b"1.3"]
    assert (new / "libacme.so").stat().st_mode & 0o777 == 0o755


def test_missing_host_file_is_the_backends_error(tmp_path):
    with pytest.raises(BackendError, match="acme"):
        HostFiles(tmp_path).install(backend(Path("/nowhere/libacme.so")))


def test_mounts_are_not_judged_from_inside_a_container(tmp_path):
    assert Mounts(tmp_path).has("x") is None
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "comm").write_text("kthreadd\n")
    assert Mounts(tmp_path).has("x") is False
    assert Mounts(tmp_path).sees_all()


def test_mounts_of_a_process_that_we_may_not_look_into_are_unknown_and_those_of_others_known(tmp_path):
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "comm").write_text("kthreadd\n")
    for pid, namespace in (("10", "mnt:[1]"), ("11", "mnt:[2]")):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "ns" / "mnt").symlink_to(namespace)
    (tmp_path / "10" / "mountinfo").write_text("36 35 98:0 /hami/containers/seen /etc/hami ro - ext4 /dev/root rw\n")
    (tmp_path / "11" / "mountinfo").mkdir()
    mounts = Mounts(tmp_path)
    assert (mounts.has("seen"), mounts.has("other"), mounts.sees_all()) == (True, None, False)
    (tmp_path / "11" / "mountinfo").rmdir()  # it has ended
    assert Mounts(tmp_path).has("other") is False
