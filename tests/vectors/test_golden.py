"""The golden vectors that this project covers, as a test; run them alone with ``python -m tests.vectors``."""

import pytest

from tests.vectors.files import find, folder, our_answers, read_vectors
from tests.vectors.runner import run

FILES = (
    "codec.jsonl",
    "webhook.jsonl",
    "filter-nvidia.jsonl",
    "filter-random.jsonl",
    "filter-vendors.jsonl",
    "filter-sequence.jsonl",
    "filter-simulation.jsonl",
)

pytestmark = [
    pytest.mark.vectors,
    pytest.mark.skipif(
        not folder().is_dir(), reason=f"the golden vectors did not run: no {folder()}; set HAMI_VECTORS"
    ),
]


@pytest.mark.parametrize("name", FILES)
def test_every_covered_vector_gets_the_expected_answer(name: str) -> None:
    tally = run(read_vectors(find(name)), our_answers())
    assert not tally.differing
    assert not tally.undecided
    assert tally.passed


def test_every_answer_of_ours_belongs_to_a_vector_and_has_a_reason() -> None:
    known = {vector.id for path in folder().glob("*.jsonl") for vector in read_vectors(path)}
    for name, ours in our_answers().items():
        assert name in known
        assert len(ours.reason.split()) > 3
