"""Pod annotations by which an author chooses: policies and weights, wanted and unwanted devices."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from hami_core_py.codecs.fields import shown
from hami_core_py.errors import RequestError
from hami_core_py.models.families import Family
from hami_core_py.models.requests import ANY_DEVICE, Policies, Selection, Weights

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
DEVICE_POLICY: Final = "hami.io/gpu-scheduler-policy"
WEIGHTS: Final = "hami.io/device-scoring-weights"

NODE_POLICIES: Final = ("binpack", "spread")
DEVICE_POLICIES: Final = ("binpack", "spread", "mutex", "numa", "topology-aware")

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_MOST: Final = 2**63 - 1


def read_policies(annotations: Mapping[str, str], defaults: Policies, where: str) -> Policies:
    """How the author wants to choose among what fits; what is not given, or blank, is taken from the defaults.

    :param where: the pod, for errors.
    :raises RequestError: a policy nobody knows, or weights that cannot be read.
    """
    node, device, weights = annotations.get(NODE_POLICY), annotations.get(DEVICE_POLICY), annotations.get(WEIGHTS)
    if node is None and device is None and weights is None:
        return defaults
    return Policies(
        node=_known(node.strip(), NODE_POLICIES, f"{where}: {NODE_POLICY}") if node and node.strip() else defaults.node,
        device=(device and parse_chain(device, f"{where}: {DEVICE_POLICY}")) or defaults.device,
        weights=defaults.weights if weights is None else parse_weights(weights, f"{where}: {WEIGHTS}"),
    )


def parse_chain(text: str, where: str) -> tuple[str, ...]:
    """Device policies in order of precedence from a comma list; a repeated one counts where it stands first.

    :raises RequestError: a policy nobody knows.
    """
    return tuple(dict.fromkeys(_known(word, DEVICE_POLICIES, where) for word in _words(text)))


def parse_weights(text: str, where: str) -> Weights:
    """Weights of the device score from ``slot=1,core=1,memory=3``: all three, in any order.

    :raises RequestError: a part is missing, twice, no whole number, unknown, or all are zero.
    """
    expected = "slot=…,core=…,memory=… with whole numbers"
    parts = text.split(",")
    if len(parts) != 3:
        raise RequestError(where, expected, shown(text), "give all three weights, each once")
    found: dict[str, int] = {}
    for part in parts:
        name, separator, number = (piece.strip() for piece in part.partition("="))
        if not separator:
            raise RequestError(where, expected, shown(text), f"{part.strip()!r} has no '='")
        if name in found:
            raise RequestError(where, expected, shown(text), f"{name!r} is given twice")
        digits = number.removeprefix("+")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 32 and int(digits) <= _MOST):
            raise RequestError(where, expected, shown(text), f"the weight of {name!r} is no whole number from 0")
        if name not in ("slot", "core", "memory"):
            raise RequestError(where, expected, shown(text), f"there is no weight {name!r}")
        found[name] = int(digits)
    if not any(found.values()):
        raise RequestError(where, expected, shown(text), "at least one weight must be above 0")
    return Weights(**found)


def read_selection(annotations: Mapping[str, str], family: Family) -> Selection:
    """Which devices of a family the author wants.

    With several keys of one role a device must be in every list of wanted ids and in none of the unwanted ones; the words
    for models are taken together.
    """
    keys = family.selectors
    if not any(key in annotations for key in (*keys.ids, *keys.not_ids, *keys.models, *keys.not_models)):
        return ANY_DEVICE
    wanted = [parse_ids(annotations[key]) for key in keys.ids if key in annotations]
    lists = [ids for ids in wanted if ids is not None]
    return Selection(
        ids=frozenset.intersection(*lists) if lists else None,
        not_ids=_union(parse_ids(annotations.get(key, "")) for key in keys.not_ids),
        models=_models(annotations, keys.models, family),
        not_models=_models(annotations, keys.not_models, family),
    )


def parse_ids(text: str) -> frozenset[str] | None:
    """Device ids from a comma list; ``None``, no constraint, when it is blank. Commas alone name a device that no node has."""
    return frozenset(piece.strip() for piece in text.split(",")) if text.strip() else None


def parse_models(text: str) -> tuple[str, ...] | None:
    """Model words from a comma list, in order; ``None``, no constraint, when it is blank. Commas alone name no model.

    A word matches as part of a model; written ``=Model Name`` it is the whole model.
    """
    if not text.strip():
        return None
    words = (f"={word[1:].strip()}" if word.startswith("=") else word for word in _words(text))
    return tuple(dict.fromkeys(word for word in words if word != "="))


def empty_wishes(annotations: Mapping[str, str], family: Family) -> tuple[str, ...]:
    """Keys of the lists of wanted devices that are written but name none, so that no device of the family will do."""
    given = ((key, annotations.get(key, "")) for key in (*family.selectors.ids, *family.selectors.models))
    return tuple(key for key, text in given if text.strip() and not any(word != "=" for word in _words(text)))


def read_switch(annotations: Mapping[str, str], keys: Iterable[str]) -> bool:
    """Whether any of these annotations says yes; other texts than a plain yes are a no."""
    return any(annotations.get(key) in _TRUE for key in keys)


def read_mode(annotations: Mapping[str, str], keys: Iterable[str]) -> str:
    """The modes that the first of these annotations names, as it is written; empty, any mode, when there is none.

    A blank annotation names no mode, which only a device without modes offers; so does the comma that stands for it here.
    """
    text = next((annotations[key] for key in keys if key in annotations), None)
    return "" if text is None else text.strip() or ","


def _words(text: str) -> list[str]:
    return [word for piece in text.split(",") if (word := piece.strip())]


def _known(word: str, known: Sequence[str], where: str) -> str:
    if word in known:
        return word
    near = get_close_matches(word, known, n=1)
    raise RequestError(where, f"one of {', '.join(known)}", shown(word), f"did you mean {near[0]!r}?" if near else "")


def _models(annotations: Mapping[str, str], keys: Iterable[str], family: Family) -> tuple[str, ...] | None:
    """Words of all keys. Node agents may put the family's name before the product's, so a whole model is asked both ways."""
    lists = [words for key in keys if (words := parse_models(annotations.get(key, ""))) is not None]
    found: list[str] = []
    for word in (word for words in lists for word in words):
        found.append(word)
        if word.startswith("="):
            found.append(f"={family.name}-{word[1:]}")
    return tuple(found) if lists else None


def _union(lists: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    return frozenset().union(*(ids for ids in lists if ids)) - {""} or None
