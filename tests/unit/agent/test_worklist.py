"""The v2.10 work list of a pod."""

import pytest

from hami_core_py.errors import RecordError
from hami_core_py.models.families import V210
from hami_core_py.models.views import ContainerView, PodView
from hami_core_py.services.agent.worklist import is_finished, work_list
from hami_core_py.testing.builders import family

KEY = "hami.io/acme-to-allocate"
ACME = family(v210=V210(allocated="hami.io/acme-allocated", to_allocate=KEY))


def pod(text):
    containers = tuple(ContainerView(name=name) for name in ("init", "a", "b"))
    return PodView(uid="u", namespace="ml", name="p", containers=containers, annotations={KEY: text})


def test_containers_are_served_from_the_front():
    todo = work_list(pod(";g1,Acme,3000,30:;g2,Acme,500,0:g3,Acme,500,0:;"), ACME)
    assert todo.next == 1
    todo = todo.take(1)
    assert todo.render() == ";;g2,Acme,500,0:g3,Acme,500,0:;"
    todo = todo.take(2)
    assert (todo.next, todo.render()) == (None, ";;;")


@pytest.mark.parametrize(("text", "finished"), [(";;;;;;", True), (";g,Acme,1,1:;", False), ("g,Acme:;", False)])
def test_pod_is_finished_when_nothing_is_left(text, finished):
    assert is_finished(pod(text), {"Acme": ACME}) is finished


def test_pod_without_a_list_is_told_so():
    bare = PodView(uid="u", namespace="ml", name="p")
    with pytest.raises(RecordError, match=KEY):
        work_list(bare, ACME)
