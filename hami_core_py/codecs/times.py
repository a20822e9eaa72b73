"""Points in time on the wire: RFC 3339 text and nanoseconds since the Unix epoch."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from hami_core_py.codecs.fields import shown
from hami_core_py.errors import BadInputError

SECOND_NS: Final = 1_000_000_000

_RFC_3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9})\d*)?(?:Z|([+-])(\d{2}):(\d{2}))", re.ASCII
)


def render_time(at_ns: int) -> str:
    """``2026-08-30T10:00:00.5Z``: UTC, with as many digits of the second as there are."""
    seconds, nanoseconds = divmod(at_ns, SECOND_NS)
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{text.zfill(19)}{fraction}Z"


def parse_time(text: str, where: str, error: type[BadInputError] = BadInputError) -> int:
    """Nanoseconds since the Unix epoch; any offset is accepted. :raises BadInputError: the text is no such time."""
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise error(where, "a time such as 2026-08-30T10:00:00Z", shown(text))
    *parts, fraction, sign, hours, minutes = match.groups()
    try:
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        year, month, day, hour, minute, second = map(int, parts)
        zone = timezone(-offset if sign == "-" else offset)
        moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError as problem:
        raise error(where, "a time such as 2026-08-30T10:00:00Z", shown(text), str(problem)) from problem
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86400 + elapsed.seconds) * SECOND_NS + int((fraction or "").ljust(9, "0"))
