"""What all parts of a store share: its objects, its clock, and who is asked before a write."""

from __future__ import annotations

from collections.abc import Callable

from hami_core_py.lab.apiserver.calls import Admission
from hami_core_py.lab.apiserver.objects import Objects
from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.shapes import stored
from hami_core_py.lab.apiserver.status import Object, not_found


class Shelf:
    """Objects of one cluster as they are stored.

    :ivar clock: seconds since the epoch.
    :ivar admission: asked before each write; may be set later.
    """

    def __init__(self, objects: Objects, clock: Callable[[], float], admission: Admission | None = None) -> None:
        self.objects = objects
        self.clock = clock
        self.admission = admission

    def current(self, resource: Resource, namespace: str, name: str) -> Object:
        """The stored object itself, in its stored shape, to be read only. :raises StatusError: 404."""
        obj = self.objects.get(stored(resource), (namespace if resource.namespaced else "", name))
        if obj is None:
            raise not_found(resource, name)
        return obj
