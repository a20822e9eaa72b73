"""Pod annotations that state allocations: only the control plane writes them."""

from collections.abc import Mapping
from typing import Final

from hami_core_py.codecs.records import CORE_KEYS
from hami_core_py.hooks.ask import Ask

PREFIX: Final = "hami.io/"
# Records of a family whose backend is not installed now would be believed once it is.
RECORD_SUFFIXES: Final = ("-devices-allocated", "-devices-to-allocate")


def is_bookkeeping(key: str, ask: Ask) -> bool:
    """Whether an annotation is one of the core's records, of any family's, or of the installed backends'."""
    if key in CORE_KEYS or (key.startswith(PREFIX) and key.endswith(RECORD_SUFFIXES)):
        return True
    if any(key in backend.info.annotations for backend in ask.backends.loaded):
        return True
    return any(f.v210 is not None and key in (f.v210.allocated, f.v210.to_allocate) for f in ask.families.values())


def forged_keys(
    annotations: Mapping[str, str], before: Mapping[str, str], ask: Ask, granted: Mapping[str, str]
) -> tuple[str, ...]:
    """Bookkeeping annotations that a user's write adds, changes or takes away, sorted.

    :param before: annotations of the pod before the write; empty at creation.
    :param granted: annotations that admission itself sets to these values, so that admitting twice is admitting once.
    """
    changed = {key for key in annotations.keys() | before.keys() if annotations.get(key) != before.get(key)}
    stated = (key for key in changed if annotations.get(key) is None or annotations.get(key) != granted.get(key))
    return tuple(sorted(key for key in stated if is_bookkeeping(key, ask)))
