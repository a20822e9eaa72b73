"""The handshake of the v2.10 dialect: a node annotation in which scheduler and node plugin answer one another."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from hami_core_py.codecs.times import SECOND_NS

REQUESTING: Final = "Requesting"

_FORMAT: Final = "%Y-%m-%d %H:%M:%S"
# Narrower than what ``strptime`` takes, which passes over missing zeros.
_STAMP: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{1,2}:[0-9]{2}:[0-9]{2}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def render_request(at_ns: int) -> str:
    """What the scheduler writes to ask whether the plugin is there; whole seconds of UTC."""
    return f"{REQUESTING}_{(_EPOCH + timedelta(seconds=at_ns // SECOND_NS)).strftime(_FORMAT)}"


def is_request(text: str) -> bool:
    """Whether the scheduler spoke last; any other text, an empty one too, is the plugin's."""
    return REQUESTING in text


def requested_at(text: str) -> int | None:
    """When a request was written, nanoseconds since the Unix epoch; ``None``: it does not say so.

    v2.10 writes the time of its own zone without naming it; it is taken for UTC, which we write.
    """
    _, mark, stamp = text.partition("_")
    if not mark or not _STAMP.fullmatch(stamp):
        return None
    try:
        moment = datetime.strptime(stamp, _FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int((moment - _EPOCH).total_seconds()) * SECOND_NS
