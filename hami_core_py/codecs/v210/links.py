"""Pair scores: how close two devices of a node are, as the node plugin states it."""

from typing import Final

from hami_core_py.codecs.fields import Fields, folded, parse_json, shown
from hami_core_py.errors import InventoryError

_MAX_INT64: Final = 2**63 - 1


def parse_links(text: str, where: str) -> dict[str, dict[str, int]]:
    """Device → peer → score, higher is closer; the last entry of a device counts.

    :raises InventoryError: the text is no list of scores.
    """
    values = parse_json(text, where, InventoryError)
    if values is None:
        return {}
    if not isinstance(values, list):
        raise InventoryError(where, "a list of scores", shown(values))
    links = {}
    for i, value in enumerate(values):
        fields = Fields(folded(value), f"{where}: entry {i}", InventoryError)
        scores = Fields(fields.table("score"), f"{where}: entry {i}: score", InventoryError)
        peers = fields.table("score")
        links[fields.text("uuid", "")] = {
            peer: scores.whole(peer, 0, lowest=-_MAX_INT64, highest=_MAX_INT64) for peer in peers
        }
    return links
