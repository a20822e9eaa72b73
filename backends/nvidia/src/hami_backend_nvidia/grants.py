"""Allocation → what the container receives (pure)."""

from collections.abc import Callable

from hami_backend_nvidia import limiter
from hami_backend_nvidia.admission import CORE_POLICY, VISIBLE
from hami_backend_nvidia.settings import Settings
from hami_core_py.errors import HamiError
from hami_core_py.models.allocations import Allocation, Grant, Mount

DIRECTORY = "/usr/local/vgpu"
"""Where the container sees its own directory; the limiter keeps its shared region there."""
REGION = f"{DIRECTORY}/region.cache"
NO_LIMITER = (
    "this installation has no limiter library, so nothing would hold the container to its limits; "
    "install a package that was built with it, or set requireLimiter: false"
)
CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")


def grant(allocation: Allocation, settings: Settings, exists: Callable[[str], bool]) -> Grant:
    """Variables, mounts, files and device nodes of one container.

    :param exists: whether a device node is on this host; a container must not name one that is not.
    :raises HamiError: there is no limiter, and the settings require one.
    """
    devices = [device for device, _ in allocation.pairs]
    mounts: tuple[Mount, ...] = ()
    files: dict[str, str] = {}
    if allocation.directory:
        mounts = (Mount(host_path=f"{allocation.directory}/shared", container_path=DIRECTORY, read_only=False),)
    if allocation.directory and allocation.host_directory:
        mounts += limiter.mounts(allocation)
        files = limiter.files(allocation, settings, REGION)
    elif settings.require_limiter:
        raise HamiError(NO_LIMITER)
    nodes = [f"/dev/nvidia{d.facts['minor']}" for d in devices if "minor" in d.facts]
    paths = [p for p in (*nodes, *CONTROL_NODES) if exists(p)] if settings.pass_device_specs and nodes else []
    return Grant(
        env={VISIBLE: ",".join(dict.fromkeys(d.id for d in devices)), **_limits(allocation, settings)},
        mounts=mounts,
        files=files,
        device_paths=tuple(dict.fromkeys(paths)),
    )


def _limits(allocation: Allocation, settings: Settings) -> dict[str, str]:
    """Variables that the limiter reads; they hold each device's share in the order of the visible devices."""
    shares = [share for _, share in allocation.pairs]
    env = {f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{share.memory_mib}m" for i, share in enumerate(shares)}
    env["CUDA_DEVICE_SM_LIMIT"] = str(shares[0].core_units) if shares else "0"
    env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = REGION
    if settings.device_memory_scaling > 1:
        env["CUDA_OVERSUBSCRIBE"] = "true"
    if settings.lib_cuda_log_level:
        env["LIBCUDA_LOG_LEVEL"] = settings.lib_cuda_log_level
    if settings.disable_core_limit:
        env[CORE_POLICY] = "disable"
    return env
