"""The agent's "no" to the kubelet: a container that must not start, or not yet."""

from enum import Enum

from hami_core_py.errors import HamiError


class Cause(Enum):
    """Why a container does not start; the kubelet asks again in every case but after Allocate."""

    UNVERIFIED = "unverified"
    HELD = "held"
    UNAVAILABLE = "unavailable"
    BACKEND = "backend"


class RefusedError(HamiError):
    """Nothing was granted. Its text is a sentence for the pod's author."""

    def __init__(self, cause: Cause, sentence: str) -> None:
        self.cause = cause
        super().__init__(sentence)
