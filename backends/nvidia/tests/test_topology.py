"""How close two GPUs are."""

import pytest
from hami_backend_nvidia.topology import pair_scores


def link(one: str, other: str, level: int | None = 50, direct: int = 0, switched: int = 0):
    return {
        "from": one,
        "to": other,
        "level": level,
        "direct": direct,
        "switched": switched,
        "has_links": bool(direct or switched),
    }


@pytest.mark.parametrize(
    ("level", "score"), [(0, 60), (10, 50), (20, 40), (30, 30), (40, 20), (50, 10), (None, 0), (7, 0)]
)
def test_common_ancestor_is_scored(level, score):
    assert pair_scores([link("a", "b", level), link("b", "a", level)]) == {"a": {"b": score}, "b": {"a": score}}


@pytest.mark.parametrize(("links", "score"), [(1, 110), (18, 1810), (19, 10)])
def test_direct_links_add_a_hundred_each_up_to_eighteen(links, score):
    assert pair_scores([link("a", "b", direct=links), link("b", "a", direct=links)])["a"] == {"b": score}


def test_pair_whose_directions_disagree_scores_nothing():
    assert pair_scores([link("a", "b", direct=2), link("b", "a", level=50)]) == {"a": {"b": 0}, "b": {"a": 0}}


def test_one_device_has_no_pairs():
    assert pair_scores([]) == {}
