"""Kubernetes' and runtimes' versions, as far as checks compare them."""

import re


def minor_of(version: str) -> tuple[int, int] | None:
    """``(1, 34)`` of ``v1.34.2-eks-1``, ``(2, 0)`` of ``containerd://2.0.0``; ``None``: it names none."""
    match = re.search(r"(?:^|[^\d.])v?(\d+)\.(\d+)", version) or re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def shown(minor: tuple[int, int]) -> str:
    """``1.34``."""
    return f"{minor[0]}.{minor[1]}"
