"""Which critical events (XIDs) of the driver say that a device is broken (pure)."""

from dataclasses import dataclass

APPLICATION_ERRORS = frozenset({13, 31, 43, 45, 68, 109})
"""Caused by the program that runs on the device; the device itself is well."""


@dataclass(frozen=True)
class XidRule:
    """Which XIDs count.

    :ivar off: health is not checked at all. :ivar ignored: XIDs that say nothing about the device.
    """

    off: bool = False
    ignored: frozenset[int] = APPLICATION_ERRORS

    def is_fatal(self, xid: int) -> bool:
        """Whether a device with this event is unhealthy."""
        return not self.off and xid not in self.ignored


def xid_rule(disabled: str, enabled: str) -> XidRule:
    """The rule of two comma-separated lists of XIDs; ``all`` or ``xids`` in one means every XID.

    What both name counts. ``all`` among the disabled switches the checks off, whatever the others say.
    """
    off, ignored = _read(disabled)
    every, fatal = _read(enabled)
    if every:
        return XidRule(ignored=frozenset())
    return XidRule(off=off, ignored=(APPLICATION_ERRORS | ignored) - fatal)


def _read(text: str) -> tuple[bool, frozenset[int]]:
    words = [word.strip().lower() for word in text.split(",")]
    if any(word in ("all", "xids", "0") for word in words):
        return True, frozenset()
    return False, frozenset(int(word) for word in words if word.isascii() and word.isdigit())
