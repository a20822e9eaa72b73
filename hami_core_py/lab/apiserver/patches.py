"""The four kinds of patch that Kubernetes clients send."""

from __future__ import annotations

from typing import Any

import jsonpatch
import orjson

from hami_core_py.lab.apiserver.status import Object, StatusError, bad_request, unsupported_media_type
from hami_core_py.lab.apiserver.strategic import strategic_merge

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH, STRATEGIC_PATCH)


def apply_patch(kind: str, obj: Object, patch_type: str, patch: Any) -> Object:
    """A new object: `obj` with `patch` applied; neither argument changes.

    Server-side apply is a plain merge here: fields are set and added, but none is removed because an applier left it
    out, and no conflicts between field managers are told.

    :param kind: the object's kind, which decides how its lists merge.
    :raises StatusError: 400, 415 or 422 when the patch cannot be read or does not apply.
    """
    if patch_type == JSON_PATCH:
        return json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request(f"patch of type {patch_type}: expected an object, got {type(patch).__name__}")
    match patch_type:
        case "application/merge-patch+json":
            merged = merge_patch(obj, patch)
            return merged if isinstance(merged, dict) else {}
        case "application/strategic-merge-patch+json" | "application/apply-patch+yaml":
            return strategic_merge(kind, obj, patch)
    raise unsupported_media_type(patch_type, PATCH_TYPES)


def json_patch(obj: Object, operations: Any) -> Object:
    """RFC 6902. :raises StatusError: 400 for what is no list of operations, 422 when one does not apply."""
    if not isinstance(operations, list):
        raise bad_request("JSON patch: expected a list of operations")
    try:
        patched = jsonpatch.JsonPatch(operations).apply(orjson.loads(orjson.dumps(obj)), in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise StatusError(422, "Invalid", message) from error
    except (TypeError, KeyError, AttributeError) as error:
        raise bad_request(f"JSON patch: an operation is malformed: {error}") from error
    if not isinstance(patched, dict):
        raise StatusError(422, "Invalid", "JSON patch: the result is no object")
    return patched


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
