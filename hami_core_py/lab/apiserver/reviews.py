"""Questions about rights, all answered with yes: the lab trusts whoever reaches its loopback port."""

from __future__ import annotations

from hami_core_py.lab.apiserver.calls import Caller
from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.status import Object


def answer(resource: Resource, review: Object, caller: Caller) -> Object:
    """The review with its status filled in."""
    user = {"username": caller.user, "groups": list(caller.groups)}
    if resource.kind == "TokenReview":
        token = str((review.get("spec") or {}).get("token") or "")
        status: Object = {"authenticated": bool(token), "user": {"username": token, "groups": ["system:authenticated"]}}
    elif resource.kind == "SelfSubjectReview":
        status = {"userInfo": user}
    else:
        status = {"allowed": True, "reason": "the lab allows everything"}
    return {**review, "kind": resource.kind, "apiVersion": resource.group_version, "status": status}
