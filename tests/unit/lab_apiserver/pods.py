"""Builders of the objects that these tests send."""

from __future__ import annotations

from typing import Any


def pod(name: str = "train", limits: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "main", "image": "busybox:1.35"}
    if limits is not None:
        container["resources"] = {"limits": limits}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def config(name: str = "cfg", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def binding(name: str = "train", node: str = "node-a", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
