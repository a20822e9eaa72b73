"""When a sample's warning becomes an event."""

from hami_core_py.models.samples import Sample
from hami_core_py.services.warnings import FRESH_SECONDS, RENEW_SECONDS, Warnings


class Said:
    """Events, written down in the order in which they are said."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []

    def say(self, about, _type, _reason, message) -> None:
        self.all.append((about.name, message))

    def stop(self) -> None:
        """Nothing waits."""


def sample(pod: str, warning: str) -> Sample:
    labels = {"namespace": "default", "pod": pod}
    return Sample(name="x_bytes", value=1.0, help="x", labels=labels, warning=warning)


PODS = {("default", "a"): "1", ("default", "b"): "2"}


def test_wrong_that_stays_is_said_once_and_again_after_it_was_right():
    said = Said()
    warnings = Warnings(said)
    for text in ("too much", "too much", "", "too much"):
        warnings.tell("acme", [sample("a", text), sample("b", "")], PODS)
    assert said.all == [("a", "too much"), ("a", "too much")]


def test_wrong_that_stays_is_said_again_before_the_word_grows_old():
    said, now = Said(), [0.0]
    warnings = Warnings(said, clock=lambda: now[0])
    for now[0] in (0.0, RENEW_SECONDS - 1, RENEW_SECONDS, FRESH_SECONDS - 1):
        warnings.tell("acme", [sample("a", "too much")], PODS)
    assert said.all == [("a", "too much")] * 3
    assert RENEW_SECONDS < FRESH_SECONDS / 2


def test_backends_do_not_silence_each_other():
    said = Said()
    warnings = Warnings(said)
    warnings.tell("acme", [sample("a", "one")], PODS)
    warnings.tell("other", [sample("a", "two")], PODS)
    warnings.tell("acme", [sample("a", "one")], PODS)
    assert said.all == [("a", "one"), ("a", "two")]


def test_pod_of_the_same_name_is_another_pod():
    said = Said()
    warnings = Warnings(said)
    warnings.tell("acme", [sample("a", "one")], PODS)
    warnings.tell("acme", [sample("a", "one")], {("default", "a"): "3"})
    assert len(said.all) == 2


def test_nothing_is_said_of_a_pod_that_is_gone():
    said = Said()
    Warnings(said).tell("acme", [sample("gone", "one")], PODS)
    assert said.all == []
