"""The fixed sentences for kube-scheduler."""

import re

from hami_core_py.decisions.sentences import SENTENCES, sentence
from hami_core_py.models.answers import Reason


def test_every_reason_has_a_sentence() -> None:
    assert set(SENTENCES) == set(Reason)


def test_sentences_are_told_apart_and_hold_no_numbers() -> None:
    assert len(set(SENTENCES.values())) == len(SENTENCES)
    assert not [text for text in map(sentence, Reason) if re.search(r"\d", text)]
