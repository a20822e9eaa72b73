"""What a container received, as it says itself: a command that prints its environment, and its log read through the API."""

from collections.abc import Mapping
from typing import Any

from hami_core_py.cluster.errors import ApiError
from tests.cluster.daemons import PATIENCE_SECONDS, eventually
from tests.cluster.pods import Pods

TOLD = "--- told"
TELL = f"env; echo '{TOLD}'"
VISIBLE, LIMIT, CORE_LIMIT = "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT"


def telling(then: str = "exec sleep 600") -> list[str]:
    """A command that prints its environment, then does something."""
    return ["sh", "-c", f"{TELL}; {then}"]


def env_of(
    pods: Pods, name: str, container: str = "main", *, previous: bool = False, seconds: float = PATIENCE_SECONDS
) -> dict[str, str]:
    """Environment of a container as its process received it. :param previous: of the run before the present one."""

    def probe() -> str:
        params: dict[str, str | bool] = {"container": container, "previous": previous}
        try:
            text = pods.client.text(f"{pods.path(name)}/log", params)
        except ApiError:
            return ""
        return text if TOLD in text else ""

    text = eventually(f"environment of {name}/{container}", probe, seconds)
    lines = text.partition(TOLD)[0].splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def agrees(env: Mapping[str, str], share: Mapping[str, Any]) -> bool:
    """Whether an environment says what a record's share says."""
    cores = str(share["cores"])
    return (
        env.get(VISIBLE) == share["uuid"]
        and env.get(LIMIT) == f"{share['memory']}m"
        and env.get(CORE_LIMIT, cores) == cores
    )
