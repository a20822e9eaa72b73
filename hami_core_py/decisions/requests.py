"""What a whole pod asks: every container of every family it names, and how its author wants to choose."""

from hami_core_py.codecs.policies import read_policies
from hami_core_py.codecs.quantities import is_extended
from hami_core_py.errors import BackendError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.families import Family
from hami_core_py.models.requests import ContainerRequest, PodRequest, Policies
from hami_core_py.models.views import ContainerView, PodView


def read_pod_request(pod: PodView, ask: Ask, defaults: Policies) -> PodRequest:
    """Read a pod, the same way in webhook and extender.

    :param defaults: policies of a pod that names none.
    :returns: one entry per container; ``families`` is empty when the pod asks for no device, and then its policies are
        not read either.
    :raises RequestError: an amount, a policy or a weight cannot be read or could never be granted.
    :raises BackendError: a backend failed to read its resources, or one that is missing may own what the pod asks for.
    """
    _refuse_unowned(pod, ask)
    containers = tuple(_read_container(container, pod, ask) for container in pod.containers)
    policies = defaults
    if any(container.devices for container in containers):
        policies = read_policies(pod.annotations, defaults, f"pod {pod.namespace}/{pod.name}")
    return PodRequest(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        containers=containers,
        policies=policies,
        priority=pod.priority,
        annotations=pod.annotations,
    )


def families_named(container: ContainerView, ask: Ask) -> tuple[Family, ...]:
    """Families of which the container names any resource, by name; hooks are asked about these alone."""
    known = ask.resources
    found = {
        known[name].name for amounts in (container.limits, container.requests) for name in amounts if name in known
    }
    return tuple(ask.families[name] for name in sorted(found))


def _refuse_unowned(pod: PodView, ask: Ask) -> None:
    """While a backend is missing, an extended resource that no other one owns may be its: the pod is not granted the rest
    of what it asks, and not passed on as if it asked for nothing.

    :raises BackendError: a container names such a resource.
    """
    if not ask.missing:
        return
    names = (name for c in pod.containers for amounts in (c.limits, c.requests) for name in amounts)
    unowned = next((name for name in names if is_extended(name) and name not in ask.resources), None)
    if unowned is not None:
        backend, why = next(iter(ask.missing.items()))
        problem = f"did not load, so that nobody can tell whether {unowned} is its: {why}"
        raise BackendError(backend, "", problem)


def _read_container(container: ContainerView, pod: PodView, ask: Ask) -> ContainerRequest:
    named = families_named(container, ask)
    devices = tuple(request for family in named for request in ask.read_request(container, pod, family))
    return ContainerRequest(name=container.name, kind=container.kind, devices=devices)
