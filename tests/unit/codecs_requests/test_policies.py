"""What authors write into annotations: policies, weights, wanted and unwanted devices."""

import pytest

from hami_core_py.codecs.policies import (
    DEVICE_POLICY,
    NODE_POLICY,
    WEIGHTS,
    empty_wishes,
    parse_chain,
    parse_ids,
    parse_models,
    parse_weights,
    read_mode,
    read_policies,
    read_selection,
    read_switch,
)
from hami_core_py.decisions.fit import id_selected, mode_offered, model_selected
from hami_core_py.errors import RequestError
from hami_core_py.models.families import Selectors
from hami_core_py.models.requests import ANY_DEVICE, Policies, Weights
from hami_core_py.testing.builders import family

DEFAULTS = Policies(node="spread", device=("numa", "binpack"))
KEYS = Selectors(
    ids=("acme.example/use-uuid",),
    not_ids=("acme.example/nouse-uuid",),
    models=("acme.example/use-type",),
    not_models=("acme.example/nouse-type",),
)
ACME = family("Acme", selectors=KEYS)
CARDS = {"g0": "Acme-Acme N1", "g1": "Acme-Acme N100-SX", "g2": "Acme-Tau T4"}


def chosen(**annotations: str) -> list[str]:
    """Cards that pass; ``use_type="N1"`` stands for the annotation ``acme.example/use-type: N1``."""
    given = {f"acme.example/{name.replace('_', '-')}": text for name, text in annotations.items()}
    selection = read_selection(given, ACME)
    return [card for card, model in CARDS.items() if model_selected(model, selection) and id_selected(card, selection)]


def test_model_word_matches_as_part_of_the_model_in_any_case() -> None:
    assert chosen(use_type="n1") == ["g0", "g1"]


def test_unwanted_model_word_wins_over_a_wanted_one() -> None:
    assert chosen(use_type="N1", nouse_type="N100") == ["g0"]


@pytest.mark.parametrize("text", ["T4,", " T4 ", ",T4", "T4,,T4"])
def test_empty_words_of_a_list_count_for_nothing(text: str) -> None:
    assert chosen(nouse_type=text) == ["g0", "g1"]


@pytest.mark.parametrize("text", ["", "  "])
@pytest.mark.parametrize("key", ["use_type", "nouse_type", "use_uuid", "nouse_uuid"])
def test_blank_list_is_no_constraint(key: str, text: str) -> None:
    assert chosen(**{key: text}) == ["g0", "g1", "g2"]


@pytest.mark.parametrize("text", [",", " , ,"])
def test_list_of_commas_wants_nothing_and_refuses_nothing(text: str) -> None:
    assert chosen(use_type=text) == chosen(use_uuid=text) == []
    assert chosen(nouse_type=text) == chosen(nouse_uuid=text) == ["g0", "g1", "g2"]
    assert empty_wishes({"acme.example/use-type": text, "acme.example/nouse-type": text}, ACME) == (
        "acme.example/use-type",
    )


def test_ids_are_trimmed_and_unwanted_ones_win() -> None:
    assert chosen(use_uuid=" g0 , g2 ", nouse_uuid="g2") == ["g0"]


def test_ids_are_compared_exactly() -> None:
    assert chosen(use_uuid="G0") == []


@pytest.mark.parametrize("text", ["=Acme N1", "= Acme N1 ", "=Acme-Acme N1"])
def test_exact_word_is_the_whole_model(text: str) -> None:
    assert chosen(use_type=text) == ["g0"]


def test_exact_word_can_be_unwanted() -> None:
    assert chosen(nouse_type="=Acme N1") == ["g1", "g2"]


def test_lone_equals_sign_is_no_word() -> None:
    assert parse_models("=, =") == ()
    assert empty_wishes({"acme.example/use-type": "="}, ACME) == ("acme.example/use-type",)


def test_device_must_be_in_every_list_of_wanted_ids() -> None:
    both = family("Acme", selectors=Selectors(ids=("a", "b"), not_ids=("x", "y")))
    selection = read_selection({"a": "g0,g1", "b": "g1,g2", "x": "g3", "y": "g4"}, both)
    assert (selection.ids, selection.not_ids) == (frozenset({"g1"}), frozenset({"g3", "g4"}))


def test_wanted_lists_without_a_common_id_select_nothing() -> None:
    both = family("Acme", selectors=Selectors(ids=("a", "b")))
    assert read_selection({"a": "g0", "b": "g1"}, both).ids == frozenset()


def test_other_annotations_select_nothing() -> None:
    assert read_selection({"other.example/use-uuid": "g0"}, ACME) is ANY_DEVICE


def test_ids_and_models_are_read_as_lists() -> None:
    assert parse_ids("b, a,b") == frozenset({"a", "b"})
    assert parse_models("A10, A100,A10") == ("A10", "A100")


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_switch_is_on_for_a_plain_yes(text: str) -> None:
    assert read_switch({"bind": text}, ("other", "bind"))


@pytest.mark.parametrize("text", ["0", "false", "yes", "", "tRue"])
def test_switch_is_off_for_anything_else(text: str) -> None:
    assert not read_switch({"bind": text}, ("bind",))


def test_first_annotation_names_the_modes() -> None:
    assert read_mode({"a": " mig ", "b": "mps"}, ("a", "b")) == "mig"
    assert read_mode({}, ("a",)) == ""


def test_blank_mode_fits_no_device_that_has_one() -> None:
    asked = read_mode({"a": " "}, ("a",))
    assert not mode_offered(("mig",), asked)
    assert mode_offered((), asked)


def test_pod_without_policies_takes_the_defaults() -> None:
    assert read_policies({}, DEFAULTS, "pod default/p") is DEFAULTS
    assert read_policies({NODE_POLICY: " ", DEVICE_POLICY: ","}, DEFAULTS, "pod default/p") == DEFAULTS


def test_policies_of_a_pod_win() -> None:
    given = {NODE_POLICY: "binpack", DEVICE_POLICY: "numa, spread", WEIGHTS: "slot=1,core=2,memory=3"}
    expected = Policies(node="binpack", device=("numa", "spread"), weights=Weights(slot=1, core=2, memory=3))
    assert read_policies(given, DEFAULTS, "pod default/p") == expected


def test_repeated_policy_counts_where_it_stands_first() -> None:
    assert parse_chain("numa,spread,numa", "here") == ("numa", "spread")


@pytest.mark.parametrize(
    ("key", "text", "hint"),
    [
        (NODE_POLICY, "binpak", "did you mean 'binpack'?"),
        (DEVICE_POLICY, "numa,toplogy-aware", "did you mean 'topology-aware'?"),
    ],
)
def test_policy_nobody_knows_is_refused_with_the_known_ones(key: str, text: str, hint: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_policies({key: text}, DEFAULTS, "pod default/p")
    assert refused.value.where == f"pod default/p: {key}"
    assert "binpack, spread" in refused.value.expected
    assert refused.value.hint == hint


def test_policy_far_from_all_others_is_refused_too() -> None:
    with pytest.raises(RequestError, match=r"one of binpack, spread, got 'fastest'$"):
        read_policies({NODE_POLICY: "fastest"}, DEFAULTS, "pod default/p")


def test_weights_come_in_any_order_and_with_blanks() -> None:
    assert parse_weights(" memory = 3 ,slot=0, core=+1", "here") == Weights(slot=0, core=1, memory=3)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("slot=1,core=1", "give all three weights"),
        ("slot=1,core=1,memory=1,x=1", "give all three weights"),
        ("slot,core=1,memory=1", "has no '='"),
        ("slot=1,slot=1,memory=1", "'slot' is given twice"),
        ("slot=1,core=1.5,memory=1", "'core' is no whole number"),
        ("slot=1,core=-1,memory=1", "'core' is no whole number"),
        ("slot=1,core=9223372036854775808,memory=1", "'core' is no whole number"),
        ("slot=1,cpu=1,memory=1", "there is no weight 'cpu'"),
        ("Slot=1,core=1,memory=1", "there is no weight 'Slot'"),
        ("slot=0,core=0,memory=0", "at least one weight must be above 0"),
        ("", "give all three weights"),
    ],
)
def test_weights_that_cannot_be_read_are_refused(text: str, hint: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse_weights(text, "here")
    assert hint in refused.value.hint
