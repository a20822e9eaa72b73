"""What the webhook changes in a container that names a resource of ours (pure)."""

from decimal import Decimal

from hami_backend_nvidia.settings import Settings
from hami_core_py.models.backends import Admission
from hami_core_py.models.views import ContainerView

VISIBLE, NOTHING_VISIBLE = "NVIDIA_VISIBLE_DEVICES", "none"
PRIORITY = "CUDA_TASK_PRIORITY"
CORE_POLICY = "GPU_CORE_UTILIZATION_POLICY"
WHOLE_CORE = "100"


def parse_quantity(text: str) -> Decimal:
    from hami_core_py.codecs.quantities import parse_quantity as parse

    return parse(text)


def admit(container: ContainerView, settings: Settings) -> Admission:
    """Variables, the core amount of a whole device, or a denial."""
    percent = _amount(container, settings.resource_memory_percentage_name)
    if percent is not None and not 0 <= parse_quantity(percent) <= 100:
        return Admission(
            denied=f"container {container.name!r}: {settings.resource_memory_percentage_name}: "
            f"expected a whole number from 0 to 100, got {percent!r}"
        )
    claims = _claims(container, settings)
    env = {}
    if settings.resource_priority_name in container.limits:
        env[PRIORITY] = container.limits[settings.resource_priority_name]
    if claims and settings.gpu_core_policy not in ("", "default"):
        env[CORE_POLICY] = settings.gpu_core_policy
    limits = {}
    if claims and settings.resource_core_name and _wants_whole_core(container, settings):
        limits[settings.resource_core_name] = WHOLE_CORE
    return Admission(limits=limits, env=env, warnings=_warnings(container, settings))


def _claims(container: ContainerView, settings: Settings) -> bool:
    """Whether the container gets a device: it names a count, or an amount to which a default count is added."""
    count = _amount(container, settings.resource_count_name)
    if count is not None:
        return parse_quantity(count) != 0
    amounts = (settings.resource_memory_name, settings.resource_memory_percentage_name, settings.resource_core_name)
    return settings.default_gpu_num > 0 and any(name in container.limits for name in amounts if name)


def _wants_whole_core(container: ContainerView, settings: Settings) -> bool:
    """A container that asks for a whole device and says nothing about compute has it alone."""
    if _amount(container, settings.resource_core_name) is not None:
        return False
    percent = _amount(container, settings.resource_memory_percentage_name)
    if percent is not None:
        return parse_quantity(percent) == 100
    return _amount(container, settings.resource_memory_name) is None


def _warnings(container: ContainerView, settings: Settings) -> tuple[str, ...]:
    memory, percent = settings.resource_memory_name, settings.resource_memory_percentage_name
    if _amount(container, memory) in (None, "0") or _amount(container, percent) in (None, "0"):
        return ()
    return (f"container {container.name!r}: both {memory} and {percent} are given; {memory} counts",)


def _amount(container: ContainerView, name: str | None) -> str | None:
    """The amount as written: limits before requests; ``None`` when absent."""
    return None if name is None else container.limits.get(name, container.requests.get(name))
