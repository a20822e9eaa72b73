"""The node lock of the v2.10 dialect: time, namespace and pod, joined by commas."""

from dataclasses import dataclass

from hami_core_py.codecs.fields import shown
from hami_core_py.codecs.times import SECOND_NS, parse_time, render_time
from hami_core_py.errors import BadInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """Who holds a node, and since when.

    :ivar at_ns: nanoseconds since the Unix epoch. :ivar namespace: empty, like ``pod``, for a lock without an owner.
    """

    at_ns: int
    namespace: str = ""
    pod: str = ""

    @property
    def has_owner(self) -> bool:
        """Whether it names a pod; a bare time stamp does not, and anyone may release it."""
        return bool(self.namespace or self.pod)


def parse_lock(text: str, where: str = "node lock") -> Lock:
    """Read a lock. :raises BadInputError: it is none; then nobody may take it."""
    stamp, *owner = text.split(",")
    if len(owner) not in (0, 2):
        raise BadInputError(where, "time, namespace and pod joined by ','", f"{len(owner) + 1} parts: {shown(text)}")
    at_ns = parse_time(stamp, where)
    return Lock(at_ns=at_ns, namespace=owner[0], pod=owner[1]) if owner else Lock(at_ns=at_ns)


def render_lock(at_ns: int, namespace: str, pod: str) -> str:
    """Write a lock, in whole seconds of UTC as every v2.10 reader expects."""
    return f"{render_time(at_ns - at_ns % SECOND_NS)},{namespace},{pod}"


def owned_by(text: str, namespace: str, pod: str) -> bool:
    """Whether a lock's text names this pod; true for no other pod, whatever its name ends in."""
    return text.endswith(f",{namespace},{pod}")
