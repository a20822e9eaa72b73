"""Who asks for what: values that travel from a request to the store, to fault injection and to admission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.status import Object

ADMIN = "lab-admin"
"""The user of requests that name none."""

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(slots=True)
class Caller:
    """The user behind a request, who is believed, and what the answer has to tell besides the object."""

    user: str = ADMIN
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    dry_run: bool = False  # check and answer, but write nothing
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as fault injection sees it before (or after) it is carried out."""

    verb: str  # get, list, watch, create, update, patch, delete, deletecollection
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    user: str = ""


Consult = Callable[[Call], None]
"""Fault injection: looks at a request; may raise (a StatusError, usually) or block."""


@dataclass(slots=True)
class Review:
    """One object on its way into the store, for admission to look at."""

    operation: Operation
    resource: Resource
    subresource: str
    namespace: str
    name: str  # empty while a generated name is still to come
    object: Object | None  # None for DELETE
    old_object: Object | None  # None for CREATE
    kind: tuple[str, str, str]  # group, version, kind of `object`
    caller: Caller


class Admission(Protocol):
    """Decides about writes outside the store; the store stays free of I/O."""

    def mutate(self, review: Review) -> Object | None:
        """The object as it shall be written. May block. :raises StatusError: when it is refused."""

    def validate(self, review: Review) -> None:
        """Look at the final object. May block. :raises StatusError: when it is refused."""
