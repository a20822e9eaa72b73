"""A backend that did not load: the webhook cannot tell its pods from others, and must not let them in as plain ones."""

import pytest

from hami_core_py.hooks.ask import Ask
from hami_core_py.testing.plugins import make_plugin
from tests.unit.admission.acme import OTHER_COUNT, acme, ask_of, container, create, pod


def half() -> Ask:
    """Acme, and a backend that speaks a contract of the future."""
    return ask_of(acme(), make_plugin("other", api=99))


@pytest.mark.parametrize("asked", [{"other": 1}, {"other": 1, "count": 1, "memory": 1000}], ids=["alone", "beside"])
def test_pod_that_may_ask_it_is_refused_with_a_sentence(asked: dict[str, int]) -> None:
    verdict = create(pod(container(**asked)), half())
    assert not verdict.allowed
    assert verdict.message.startswith(
        f"backend 'other': did not load, so that nobody can tell whether {OTHER_COUNT} is its: "
    )


def test_what_an_init_container_asks_counts_as_well() -> None:
    assert not create(pod(container(count=1), init=[container("prep", other=1)]), half()).allowed


@pytest.mark.parametrize("asked", [{}, {"count": 1, "memory": 1000}], ids=["plain", "of another"])
def test_pods_that_cannot_mean_it_go_on(asked: dict[str, int]) -> None:
    assert create(pod(container(**asked)), half()) == create(pod(container(**asked)), ask_of(acme()))


def test_resource_of_nobody_passes_when_all_backends_are_here() -> None:
    assert create(pod(container(other=1)), ask_of(acme())).patch == ()
