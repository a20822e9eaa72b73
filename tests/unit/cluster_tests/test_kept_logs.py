"""Logs of the cluster tests outlive their clusters."""

from pathlib import Path

from tests.cluster.daemons import keep_logs


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_programs_of_the_same_name_keep_a_log_each(tmp_path: Path) -> None:
    for number, module in enumerate(("test_a", "test_b")):
        cluster = tmp_path / str(number)
        for place in ("plane", "node", "scenario/plane"):
            write(cluster / place / "logs" / "extender.log", f"{module} {place}")
        keep_logs(cluster, tmp_path / "kept" / module)
    kept = sorted((tmp_path / "kept").rglob("extender.log"))
    assert len(kept) == 6
    for path in kept:
        module, place = path.relative_to(tmp_path / "kept").parts[0], path.parent.relative_to(tmp_path / "kept")
        assert path.read_text() == f"{module} {'/'.join(place.parts[1:])}"
