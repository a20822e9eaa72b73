"""Whose directory is whose, for a monitor that only reads what the agent left."""

import dataclasses
from pathlib import Path

from hami_core_py.services.agent.holdings import Holding, Holdings, PodRef
from hami_core_py.services.directories import Directories, Known


def keep(state: Path, at: float, pod: str | None = "uid-1") -> Holding:
    agent = Holdings(state)
    agent.open()
    holding = dataclasses.replace(agent.create("Acme", ["npu-0::1"]), at=at, container="main")
    holding = dataclasses.replace(holding, limits={"acme.example/npu": "1"})
    holding = dataclasses.replace(holding, pod=PodRef(uid=pod, namespace="default", name="train") if pod else None)
    agent.keep(holding)
    return holding


def test_later_record_of_a_container_counts(tmp_path: Path):
    later, _ = keep(tmp_path, 20.0), keep(tmp_path, 10.0)
    found = Directories(tmp_path).by_container()
    assert found == {
        ("uid-1", "main", "Acme"): Known(str(tmp_path / "containers" / later.name), {"acme.example/npu": "1"})
    }


def test_name_that_no_container_has_yet_is_nobodys(tmp_path: Path):
    keep(tmp_path, 1.0, pod=None)
    assert Directories(tmp_path).by_container() == {}


def test_record_that_cannot_be_read_hides_no_other(tmp_path: Path):
    good = keep(tmp_path, 1.0)
    (tmp_path / "records" / "bad.json").write_text("{")
    (known,) = Directories(tmp_path).by_container().values()
    assert known.directory == str(tmp_path / "containers" / good.name)


def test_record_that_is_gone_is_forgotten(tmp_path: Path):
    directories, holding = Directories(tmp_path), keep(tmp_path, 1.0)
    assert directories.by_container()
    Holdings(tmp_path).remove(holding.name)
    assert directories.by_container() == {}


def test_node_without_an_agent_has_no_directories(tmp_path: Path):
    assert Directories(tmp_path / "absent").by_container() == {}
