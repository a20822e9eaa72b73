"""Laws of the store over generated histories."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.lab.apiserver import StatusError, Store
from hami_core_py.lab.apiserver.history import Event
from hami_core_py.lab.apiserver.patches import MERGE_PATCH

from .pods import binding, pod

NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), NAMES, st.sampled_from(["web", "db"])),
        st.tuples(st.just("label"), NAMES, st.sampled_from(["web", "db"])),
        st.tuples(st.just("bind"), NAMES, st.sampled_from(["node-a", "node-b"])),
        st.tuples(st.just("delete"), NAMES, st.sampled_from(["0", "30"])),
        st.tuples(st.just("poll"), NAMES, st.just("")),
    ),
    max_size=30,
)


def carry_out(store: Store, verb: str, name: str, value: str) -> None:
    """One step; what is refused leaves no trace."""
    try:
        if verb == "create":
            store.create("pods", {**pod(name), "metadata": {"name": name, "labels": {"app": value}}}, "default")
        elif verb == "label":
            store.patch("pods", name, {"metadata": {"labels": {"app": value}}}, MERGE_PATCH, "default")
        elif verb == "bind":
            store.bind("default", name, binding(name, value))
        elif verb == "delete":
            store.delete("pods", name, "default", grace_seconds=int(value))
    except StatusError:
        return


def apply(known: dict[str, Any], events: list[Event]) -> None:
    for event in events:
        name = event.object["metadata"]["name"]
        if event.type == "DELETED":
            known.pop(name)
        elif event.type == "ADDED":
            assert name not in known
            known[name] = event.object
        else:
            assert name in known
            known[name] = event.object


@given(STEPS, st.sampled_from([{}, {"labels": "app=web"}, {"fields": "spec.nodeName=node-a"}]))
def test_whoever_follows_a_watch_knows_what_a_list_shows(
    steps: list[tuple[str, str, str]], selector: dict[str, str]
) -> None:
    store = Store(seed=0)
    store.seed_defaults()
    known: dict[str, Any] = {}
    watch = store.watch("pods", **selector)  # type: ignore[arg-type]  # only text options
    for step in steps:
        carry_out(store, *step)
        if step[0] == "poll":
            apply(known, watch.poll())
    apply(known, watch.poll())
    listed = store.list("pods", **selector).items  # type: ignore[arg-type]  # only text options
    assert [known[name] for name in sorted(known)] == listed


@given(STEPS)
def test_every_write_has_a_version_of_its_own_that_grows(steps: list[tuple[str, str, str]]) -> None:
    store = Store(seed=0)
    store.seed_defaults()
    watch = store.watch("pods", resource_version=str(store.objects.version))
    for step in steps:
        carry_out(store, *step)
    versions = [event.version for event in watch.poll()]
    assert versions == sorted(set(versions))


def test_of_many_bindings_at_once_one_wins() -> None:
    store = Store()
    store.seed_defaults()
    store.create("pods", pod(), "default")
    outcomes: list[int] = []

    def bind(node: str) -> None:
        try:
            store.bind("default", "train", binding(node=node, annotations={"node": node}))
            outcomes.append(201)
        except StatusError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=bind, args=(f"node-{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [201] + [409] * 7
    bound = store.get("pods", "train", "default")
    assert bound["metadata"]["annotations"] == {"node": bound["spec"]["nodeName"]}


def test_a_deleted_pod_leaves_nothing_to_delete() -> None:
    store = Store()
    store.seed_defaults()
    store.create("pods", pod(), "default")
    store.delete("pods", "train", "default")
    with pytest.raises(StatusError, match="not found"):
        store.delete("pods", "train", "default")
