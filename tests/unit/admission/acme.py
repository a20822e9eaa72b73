"""Two invented backends and raw pods for the tests of admission."""

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from hami_core_py.decisions.admission import PodWrite, Rules, Verdict, admit
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.backends import Admission
from hami_core_py.models.families import V210, AdmissionRule, Family, Resources
from hami_core_py.models.views import ContainerView
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.testing.builders import CORE, COUNT, MEMORY, PERCENT, family
from hami_core_py.testing.plugins import make_plugin

PRIORITY = "acme.example/priority"
OTHER_COUNT = "other.example/tpu"
RULES = Rules(scheduler_name="hami-scheduler")

Json = dict[str, Any]


def acme_family(**fields: Any) -> Family:
    """Acme's family with a default count of 1."""
    resources = Resources(count=COUNT, memory=MEMORY, memory_percent=PERCENT, core=CORE, priority=PRIORITY)
    spelling = V210(allocated="hami.io/acme-devices-allocated", to_allocate="hami.io/acme-devices-to-allocate")
    defaults = {"resources": resources, "admission": AdmissionRule(default_count=1), "v210": spelling}
    return family(**{**defaults, **fields})


def hami_admit_container(container: ContainerView) -> Admission:
    """Acme's own admission: whole devices are alone on their compute, and a priority becomes a variable."""
    named = container.limits.keys() | container.requests.keys()
    bare = COUNT in named and MEMORY not in named and CORE not in named
    priority = container.limits.get(PRIORITY)
    return Admission(limits={CORE: "100"} if bare else {}, env={"ACME_PRIORITY": priority} if priority else {})


def acme(
    *, table: Family | None = None, hooks: Sequence[Callable[..., Any]] = (hami_admit_container,), **info: Any
) -> tuple[str, ModuleType]:
    """The backend acme."""
    identity = {
        "annotations": ("acme.example/record",),
        "reserved_env": ("ACME_VISIBLE", "ACME_LIMIT", "ACME_PRIORITY"),
        "closing_env": {"ACME_VISIBLE": "none"},
    }
    return make_plugin("acme", [table or acme_family()], hooks=hooks, **{**identity, **info})


def other(
    *, hooks: Sequence[Callable[..., Any]] = (), table: Mapping[str, Any] | None = None, **info: Any
) -> tuple[str, ModuleType]:
    """The backend other, which counts only."""
    theirs = family("Other", **{"resources": Resources(count=OTHER_COUNT), **(table or {})})
    return make_plugin("other", [theirs], hooks=hooks, **{"closing_env": {"OTHER_VISIBLE": ""}, **info})


def ask_of(*plugins: tuple[str, ModuleType]) -> Ask:
    """A façade over these plugins, or over acme alone."""
    return Ask(load_backends(plugins=plugins or (acme(),), defaults=CoreDefaults()))


def container(name: str = "main", *, env: Sequence[Json] = (), privileged: bool = False, **limits: Any) -> Json:
    """A raw container; ``memory="4000"`` stands for the limit of that role."""
    names = {
        "count": COUNT,
        "memory": MEMORY,
        "percent": PERCENT,
        "core": CORE,
        "priority": PRIORITY,
        "other": OTHER_COUNT,
    }
    found: Json = {"name": name, "image": "x"}
    if limits:
        found["resources"] = {"limits": {names[key]: str(value) for key, value in limits.items()}}
    if env:
        found["env"] = list(env)
    if privileged:
        found["securityContext"] = {"privileged": True}
    return found


def pod(
    *containers: Json, annotations: Mapping[str, str] | None = None, init: Sequence[Json] = (), **spec: Any
) -> Json:
    """A raw pod as the API server hands it over, with the default scheduler's name filled in."""
    metadata: Json = {"name": "train", "namespace": "default", "uid": "u1"}
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    inits = {"initContainers": list(init)} if init else {}
    defaults = {"schedulerName": "default-scheduler", "containers": list(containers), **inits}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {**defaults, **spec}}


def create(raw: Json, ask: Ask | None = None, rules: Rules = RULES, **fields: Any) -> Verdict:
    """The verdict on a creation."""
    return admit(PodWrite(pod=raw, namespace="default", **fields), ask or ask_of(), rules)


def limits_of(verdict: Verdict, position: int = 0) -> Json:
    """Limits of an app container after admission."""
    limits: Json = verdict.pod["spec"]["containers"][position]["resources"]["limits"]
    return limits


def env_of(verdict: Verdict, position: int = 0, which: str = "containers") -> list[tuple[str, str]]:
    """Literal variables of a container after admission, in order."""
    found = verdict.pod["spec"][which][position].get("env", [])
    return [(variable["name"], variable.get("value", "")) for variable in found]
