"""Every mutant of the certification can still be made of the limiter as it is, and names a fault and a case that there are."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("hami_backend_mock.certify.suite")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "certify"))

import mutate  # noqa: E402

MUTANTS, LEFT_OUT = mutate.read()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_changes_is_there_exactly_once(mutant: mutate.Mutant, tmp_path: Path) -> None:
    for file in {edit.file for edit in mutant.edits}:
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / file).write_text((ROOT / "src" / file).read_text())
    mutate.apply(mutant, tmp_path)


def test_a_text_that_is_gone_is_said_loudly(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "say.c").write_text("nothing\n")
    gone = mutate.Mutant("gone", "I1", "exports", (mutate.Edit("say.c", "something", ""),))
    with pytest.raises(mutate.MutantError, match=r"gone: expected once in say\.c, found 0 times"):
        mutate.apply(gone, tmp_path)


def test_every_known_fault_has_a_mutant_or_a_reason_for_having_none() -> None:
    listed = set(re.findall(r"^\| ([IMC]\d+) \|", (ROOT / "certify" / "README.md").read_text(), re.MULTILINE))
    assert listed == {one.fault for one in MUTANTS} | {one["fault"] for one in LEFT_OUT}
    assert len(listed) == 19 + 25 + 12
