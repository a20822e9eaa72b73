"""Laws over generated pods: admitting twice equals admitting once, and the scheduler reads what the webhook admitted."""

from copy import deepcopy

import jsonpatch
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_core_py.decisions.requests import read_pod_request
from hami_core_py.models.backends import Admission
from hami_core_py.models.devices import Profile
from hami_core_py.models.families import AdmissionRule, Family, MemoryRule
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import ContainerView, pod_view
from hami_core_py.testing.builders import CORE, COUNT, MEMORY, PERCENT
from tests.unit.admission.acme import Json, acme, acme_family, ask_of, create, hami_admit_container, other, pod

AMOUNTS = st.sampled_from(["1", "2", "100", "0", "3k", "24577", "140", "-1"])
SANE = st.sampled_from(["1", "2", "50"])
ANY_RESOURCES = st.dictionaries(
    st.sampled_from([COUNT, MEMORY, PERCENT, CORE, "other.example/tpu", "cpu"]), AMOUNTS, max_size=4
)
SANE_RESOURCES = st.fixed_dictionaries(
    {COUNT: SANE}, optional={MEMORY: SANE, PERCENT: SANE, CORE: SANE, "other.example/tpu": SANE}
)
RESOURCES = SANE_RESOURCES | ANY_RESOURCES
VARIABLES = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["ACME_VISIBLE", "ACME_PRIORITY", "HOME"])},
        optional={"value": st.sampled_from(["none", "all", "1"])},
    ),
    max_size=2,
)
CONTAINERS = st.fixed_dictionaries(
    {"image": st.just("x")},
    optional={
        "resources": st.fixed_dictionaries({}, optional={"limits": RESOURCES, "requests": RESOURCES}),
        "env": VARIABLES,
        "restartPolicy": st.just("Always"),
    },
)
SIZES = (Profile(name="", memory_mib=24576), Profile(name="", memory_mib=49152))


def note_count(container: ContainerView) -> Admission:
    """A backend that writes a guarded annotation and mirrors a variable."""
    return Admission(annotations={"acme.example/record": "1"}, env={"ACME_LIMIT": "5"})


note_count.__name__ = "hami_admit_container"


@st.composite
def raw_pods(draw: st.DrawFn) -> Json:
    def named(prefix: str, containers: list[Json]) -> list[Json]:
        return [{"name": f"{prefix}{i}", **container} for i, container in enumerate(containers)]

    app = named("app", draw(st.lists(CONTAINERS, min_size=1, max_size=3)))
    init = named("init", draw(st.lists(CONTAINERS, max_size=2)))
    return pod(
        *app, init=init, annotations=draw(st.sampled_from([None, {"hami.io/gpu-scheduler-policy": "numa,spread"}]))
    )


def tables() -> st.SearchStrategy[Family]:
    rules = st.builds(
        AdmissionRule,
        default_count=st.sampled_from([None, 1, 2]),
        runtime_class=st.sampled_from([None, "acme"]),
        write_memory=st.sampled_from(["never", "if-asked", "always"]),
        mirror=st.booleans(),
        close_always=st.booleans(),
    )
    memory = st.sampled_from(
        [MemoryRule(), MemoryRule(unit_mib=256, step_mib=512), MemoryRule(per="container", max_mib=98304)]
    )
    return st.builds(acme_family, admission=rules, memory=memory, profiles=st.sampled_from([(), SIZES]))


@settings(max_examples=150, deadline=None)
@given(raw=raw_pods(), table=tables(), hook=st.sampled_from([hami_admit_container, note_count]))
def test_admitting_twice_equals_admitting_once(raw: Json, table: Family, hook: object) -> None:
    ask = ask_of(acme(table=table, hooks=[hook]), other())  # type: ignore[list-item]
    before = deepcopy(raw)
    once = create(raw, ask)
    assert raw == before
    if not once.allowed:
        assert once.message
        assert once.patch == ()
        return
    assert jsonpatch.apply_patch(raw, [dict(op) for op in once.patch]) == once.pod
    twice = create(dict(once.pod), ask)
    assert (twice.allowed, twice.message, twice.patch) == (True, "", ())
    request = read_pod_request(pod_view(once.pod), ask, Policies())
    assert bool(request.families) == (once.pod["spec"]["schedulerName"] == "hami-scheduler")
