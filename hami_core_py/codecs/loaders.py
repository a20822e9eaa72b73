"""Loaders of YAML."""

from typing import Any, Final

import yaml

FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Written in C where there is one: it reads a list of thousands of nodes in seconds rather than minutes."""


def leave_times(loader: Any) -> None:
    """Let a class of loader, not one of yaml's own, leave dates and times as the texts they are, as Kubernetes' tools do."""
    loader.yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in known if not tag.endswith(":timestamp")]
        for first, known in loader.yaml_implicit_resolvers.items()
    }
