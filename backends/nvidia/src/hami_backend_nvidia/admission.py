"""What the webhook changes in a container that names a resource of ours (pure)."""

from hami_backend_nvidia.settings import Settings
from hami_core_py.codecs.quantities import parse_quantity, whole_number
from hami_core_py.models.backends import Admission
from hami_core_py.models.views import ContainerView

VISIBLE, NOTHING_VISIBLE = "NVIDIA_VISIBLE_DEVICES", "none"
PRIORITY = "CUDA_TASK_PRIORITY"
CORE_POLICY = "GPU_CORE_UTILIZATION_POLICY"
WHOLE = 100


def admit(container: ContainerView, settings: Settings) -> Admission:
    """Variables, and the core amount of a container that asks for whole devices.

    :raises RequestError: the percentage is not a whole number from 0 to 100, or the count is no quantity.
    """
    where = f"container {container.name!r}: "
    percent = _amount(container, settings.resource_memory_percentage_name)
    if percent is not None:
        whole_number(percent, where + str(settings.resource_memory_percentage_name), highest=WHOLE, unit="percent")
    claims = _claims(container, settings, where)
    env = {}
    priority = _limit(container, settings.resource_priority_name)
    if priority is not None:
        env[PRIORITY] = priority
    if claims and settings.gpu_core_policy not in ("", "default"):
        env[CORE_POLICY] = settings.gpu_core_policy
    limits = {}
    if claims and settings.resource_core_name and _asks_for_whole_devices(container, settings):
        limits[settings.resource_core_name] = str(WHOLE)
    return Admission(limits=limits, env=env)


def _claims(container: ContainerView, settings: Settings, where: str) -> bool:
    """Whether the container gets a device: it names a count, or an amount to which the default count is added."""
    count = _amount(container, settings.resource_count_name)
    if count is not None:
        return parse_quantity(count, where + settings.resource_count_name) != 0
    amounts = (settings.resource_memory_name, settings.resource_memory_percentage_name, settings.resource_core_name)
    return settings.default_gpu_num > 0 and any(name in container.limits for name in amounts if name)


def _asks_for_whole_devices(container: ContainerView, settings: Settings) -> bool:
    """Who asks for whole devices and says nothing about compute is alone on them."""
    if _amount(container, settings.resource_core_name) is not None:
        return False
    percent = _amount(container, settings.resource_memory_percentage_name)
    if percent is not None:
        return parse_quantity(percent) == WHOLE
    return _amount(container, settings.resource_memory_name) is None


def _amount(container: ContainerView, name: str | None) -> str | None:
    """The amount as written, limits before requests; ``None`` when absent."""
    return None if name is None else container.limits.get(name, container.requests.get(name))


def _limit(container: ContainerView, name: str | None) -> str | None:
    return None if name is None else container.limits.get(name)
