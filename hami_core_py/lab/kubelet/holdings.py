"""Who holds which devices: the table behind the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from hami_core_py.lab.kubelet.checkpoint import Entry


class Holdings:
    """Entries by pod, container and resource; its owner's lock guards it."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[str, Entry]]] = {}

    def add(self, entry: Entry) -> None:
        """A container received devices."""
        self._pods.setdefault(entry.pod_uid, {}).setdefault(entry.container, {})[entry.resource] = entry

    def of(self, uid: str, container: str) -> list[Entry]:
        """What a container holds, by the names of the resources."""
        entries = self._pods.get(uid, {}).get(container, {})
        return [entries[resource] for resource in sorted(entries)]

    def find(self, uid: str, container: str, resource: str) -> Entry | None:
        """What a container holds of one resource; None when it holds nothing."""
        return self._pods.get(uid, {}).get(container, {}).get(resource)

    def keep_only(self, uids: Iterable[str]) -> bool:
        """Drop all other pods; answers whether there were any."""
        gone = self._pods.keys() - set(uids)
        for uid in gone:
            del self._pods[uid]
        return bool(gone)

    def entries(self) -> list[Entry]:
        """All entries, in the order in which pods and containers came."""
        return [entry for pod in self._pods.values() for container in pod.values() for entry in container.values()]

    def ids(self) -> dict[str, set[str]]:
        """Held device ids by resource."""
        found: dict[str, set[str]] = {}
        for entry in self.entries():
            found.setdefault(entry.resource, set()).update(entry.ids)
        return found
