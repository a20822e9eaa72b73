"""What a backend says about itself, and what it says about one container at admission."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hami_core_py.models.answers import Candidate, Reason
from hami_core_py.models.devices import no_facts
from hami_core_py.models.views import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """A file of the backend's package that the node agent installs on the host, atomically and by version.

    :ivar name: file name below the agent's host directory. :ivar source: path inside the installed package.
    """

    name: str
    source: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInfo:
    """Identity of a backend or policy plugin.

    :ivar name: its entry point's name. :ivar vendor: for people.
    :ivar api: major number of the plugin contract it was written for.
    :ivar settings: pydantic class of its section of the device configuration; ``None``: it has none.
    :ivar section: name of that section; empty: the backend's name.
    :ivar annotations: pod annotations that only the control plane may write.
    :ivar reserved_env: variables that no pod with a device of this backend may set itself.
    :ivar closing_env: name → value that shows no device; given to containers that ask nothing, and by Allocate to all.
    :ivar stands_in: whether it may offer devices of other installed families, whose owners then serve every other hook.
    """

    name: str
    vendor: str = ""
    api: int = 1
    settings: type[Any] | None = None
    section: str = ""
    annotations: tuple[str, ...] = ()
    reserved_env: tuple[str, ...] = ()
    closing_env: Mapping[str, str] = field(default_factory=no_facts)
    host_files: tuple[HostFile, ...] = ()
    stands_in: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What one backend wants changed in one container, or in its pod, at admission.

    :ivar limits: resource → amount to set in ``resources.limits``; ``requests`` likewise.
    :ivar env: variables to add. :ivar annotations: pod annotations to add.
    :ivar runtime_class: for a pod that has none. :ivar denied: a sentence that refuses the pod.
    :ivar warnings: sentences shown to the author while the pod is admitted.
    """

    limits: Mapping[str, str] = field(default_factory=no_facts)
    requests: Mapping[str, str] = field(default_factory=no_facts)
    env: Mapping[str, str] = field(default_factory=no_facts)
    annotations: Mapping[str, str] = field(default_factory=no_facts)
    runtime_class: str | None = None
    denied: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRule:
    """A rule that a device must pass, compiled once per pod and asked once per distinct combination of what it reads.

    :ivar sentence: names the rule in explain. :ivar reads: the fields of ``Candidate`` that decide.
    :ivar key: what of the pod the function closes over; part of the remembered verdict's key.
    """

    reason: Reason
    sentence: str
    refuses: Callable[[Candidate], bool]
    reads: tuple[str, ...]
    key: Hashable = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRule:
    """A rule that a node must pass; its verdict is remembered until the node changes."""

    reason: Reason
    sentence: str
    refuses: Callable[[NodeView], bool]
    reads: tuple[str, ...] = ()
    key: Hashable = None


Rule = DeviceRule | NodeRule
