"""Why a node was refused, in the words of v2.10: ``1/4 CardNotHealth, 3/4 CardInsufficientMemory``."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.families import Family

WORDS: Final[Mapping[Reason, str]] = {
    Reason.UNHEALTHY: "CardNotHealth",
    Reason.CORDONED: "CardCordoned",
    Reason.MODEL: "CardTypeMismatch",
    Reason.MODE: "CardTypeMismatch",
    Reason.NOT_SELECTED: "CardUuidMismatch",
    Reason.NO_FREE_SLOT: "CardTimeSlicingExhausted",
    Reason.NOT_IDLE: "ExclusiveDeviceAllocateConflict",
    Reason.NOT_ENOUGH_MEMORY: "CardInsufficientMemory",
    Reason.NOT_ENOUGH_CORES: "CardInsufficientCore",
    Reason.CORES_EXHAUSTED: "CardComputeUnitsExhausted",
    Reason.EXCLUSIVE: "ExclusiveDeviceAllocateConflict",
    Reason.NO_PROFILE: "ModeNotFit",
    Reason.NOT_ENOUGH_CELLS: "CardInsufficientCore",
    Reason.NUMA: "NumaNotFit",
    Reason.GROUP: "CardNotFoundCustomFilterRule",
    Reason.TOO_FEW_DEVICES: "AllocatedCardsInsufficientRequest",
    Reason.NO_COMBINATION: "AllocatedCardsInsufficientRequest",
    Reason.COUNT_NOT_ALLOWED: "NumaNotFit",
    Reason.QUOTA: "ResourceQuotaNotFit",
    Reason.BACKEND_RULE: "CardNotFoundCustomFilterRule",
    Reason.BACKEND_FAILED: "CardNotFoundCustomFilterRule",
    # v2.10 has no word for these; to its readers such devices are out of order.
    Reason.UNREADABLE_RECORD: "CardNotHealth",
    Reason.UNREADABLE_INVENTORY: "CardNotHealth",
}
"""Reason → the word that is counted; a family's ``reason_words`` win."""

NODE_SENTENCES: Final[Mapping[Reason, str]] = {
    Reason.NO_DEVICES: "NodeInsufficientDevice",
    Reason.AGENT_AWAY: "NodeInsufficientDevice",
    Reason.UNKNOWN_NODE: "node unregistered",
}
"""Reason → what stands for the whole node, uncounted."""

UNAVAILABLE: Final = "node usage unavailable"
"""What stands for a node when v2.10 has no word for the reason."""

TOO_FEW_REGISTERED: Final = "NodeInsufficientDevice"
"""What v2.10 says when a node has fewer devices of the family than one container asks for, whatever their state."""

_COUNTED = re.compile(r"([0-9]+)/([0-9]+) (\S+)", re.ASCII)


def word(reason: Reason, family: Family | None = None) -> str:
    """The word of a reason in v2.10's vocabulary."""
    v210 = family.v210 if family is not None else None
    known = v210.reason_words.get(reason) if v210 else None
    return known or WORDS.get(reason) or NODE_SENTENCES.get(reason, UNAVAILABLE)


def render_counts(counts: Mapping[str, int], total: int) -> str:
    """Word → count as one text; sorted as whole pieces of text, as v2.10 does. Empty for no counts."""
    return ", ".join(sorted(f"{count}/{total} {name}" for name, count in counts.items()))


def parse_counts(text: str) -> dict[str, int]:
    """The counts of such a text; pieces of another form are skipped."""
    matches = (_COUNTED.fullmatch(piece) for piece in text.split(", "))
    return {match[3]: int(match[1]) for match in matches if match}


def render_refusals(refusals: Sequence[Refusal], family: Family | None = None) -> str:
    """What ``failedNodes`` says of one node.

    A refusal with a device counts once. One without a device counts ``usable``, how many devices had been found when the walk
    failed, or once where it does not say. Too few devices, none found or not curable, is said of the node itself. The total
    is the largest ``out_of``, else the number of devices refused.

    :param refusals: of the one container and family that struck the node.
    """
    for refusal in refusals:
        if refusal.reason not in WORDS:
            return word(refusal.reason, family)
        if refusal.reason is Reason.TOO_FEW_DEVICES and not (refusal.curable and refusal.usable):
            return TOO_FEW_REGISTERED
    counts: Counter[Reason] = Counter()
    for refusal in refusals:
        counts[refusal.reason] += 1 if refusal.device is not None else refusal.usable or 1
    v210 = family.v210 if family is not None else None
    shown_first = (v210.shown_first if v210 else None) or ()
    foremost = next((reason for reason in shown_first if counts[reason]), None)
    words: Counter[str] = Counter()
    for reason in [foremost] if foremost else list(counts):
        words[word(reason, family)] += counts[reason]
    total = max((refusal.out_of for refusal in refusals), default=0)
    return render_counts(words, total or len({r.device for r in refusals if r.device is not None}))
