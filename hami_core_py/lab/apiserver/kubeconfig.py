"""The file that tells kubectl and HAMi's processes where the lab's API server is."""

from __future__ import annotations

from pathlib import Path

import yaml


def write_kubeconfig(path: Path | str, url: str, *, user: str = "lab-admin", namespace: str = "default") -> Path:
    """Write a kubeconfig for the server at `url`; `user` is the name that requests then carry as bearer token.

    The default user sends no token, and so is the lab's administrator.
    """
    credentials = {} if user == "lab-admin" else {"token": user}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": url}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user, "namespace": namespace}}],
        "current-context": "lab",
    }
    target = Path(path)
    partial = target.with_name(f"{target.name}.new")
    partial.write_text(yaml.safe_dump(config, sort_keys=False))
    partial.replace(target)  # a reader never sees half of it
    return target
