"""Leaving secrets out of Kubernetes objects and settings, before anybody outside sees them.

What may be shown is listed, not what may not: an environment variable's value, an argument or an annotation that we do not
know may hold anything.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

HIDDEN: Final = "(left out)"

_SECRET_WORD: Final = re.compile(
    r"pass(word|wd|phrase)?|secret|token|credential|api[-_]?key|access[-_]?key|private|bearer|authorization|cookie|session|dsn",
    re.IGNORECASE,
)
_SECRET_TEXT: Final = re.compile(
    r"-----BEGIN [A-Z ]*-----.*?(?:-----END [A-Z ]*-----|\Z)"  # keys and certificates
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON web tokens
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # name and password in a URL
    r"|(?i:bearer)\s+[\w.~+/=-]{8,}"
    r"|(?i:(?:pass(?:word|wd)?|secret|token|api[-_]?key)\s*[=:]\s*)\S+",
    re.DOTALL,
)
_KEPT_PREFIXES: Final = ("hami.io/", "app.kubernetes.io/", "helm.sh/", "pod-security.kubernetes.io/")
_NEVER: Final = frozenset({"managedFields", "kubectl.kubernetes.io/last-applied-configuration", "caBundle"})

Keep = Callable[[str], bool]
"""Whether an annotation's value may be shown, by its key."""


def redacted(found: Mapping[str, Any], keep: Keep = lambda _key: False) -> dict[str, Any]:
    """An object of the API without what may be secret.

    :param keep: further annotations to show, besides our own and those about the installation. Secrets and data of ConfigMaps
        are left out whole; environment values and arguments of containers too, but for the names.
    """
    if found.get("kind") in ("Secret", "SecretList"):
        metadata = found.get("metadata") or {}
        return {"kind": "Secret", "metadata": {key: metadata.get(key) for key in ("namespace", "name")}}
    result: dict[str, Any] = _walk(found, keep)
    return result


def redacted_text(text: str) -> str:
    """A text without keys, tokens and passwords that show as such."""
    return _SECRET_TEXT.sub(HIDDEN, text)


def redacted_settings(value: Any) -> Any:
    """Settings without the values of fields whose name speaks of a secret."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if _SECRET_WORD.search(str(key)) and one not in (None, "", True, False)
            else redacted_settings(one)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted_settings(one) for one in value]
    return redacted_text(value) if isinstance(value, str) else value


def _walk(value: Any, keep: Keep) -> Any:
    if isinstance(value, Mapping):
        is_ours = isinstance(value.get("command"), list) and value["command"][:1] == ["hami"]
        return {
            # Our own processes take no secret as an argument.
            key: _texts(one) if is_ours and key in ("args", "command") else _field(key, one, keep)
            for key, one in value.items()
            if key not in _NEVER
        }
    if isinstance(value, list | tuple):
        return [_walk(one, keep) for one in value]
    return redacted_text(value) if isinstance(value, str) else value


def _field(key: str, value: Any, keep: Keep) -> Any:
    match key, value:
        case "annotations", Mapping():
            return {
                k: redacted_text(str(v)) if _is_kept(k, keep) else HIDDEN for k, v in value.items() if k not in _NEVER
            }
        case "env", list():
            return [_variable(one) for one in value]
        case (("args" | "command"), list()):
            # What runs is told by the first word of a command; arguments carry passwords.
            return [
                _argument(str(one)) if i or key == "args" else redacted_text(str(one)) for i, one in enumerate(value)
            ]
        case (("data" | "stringData" | "binaryData"), Mapping()):
            return dict.fromkeys(value, HIDDEN)
    return _walk(value, keep)


def _texts(value: Any) -> list[str]:
    return [redacted_text(str(one)) for one in value] if isinstance(value, list) else []


def _is_kept(key: str, keep: Keep) -> bool:
    return key.startswith(_KEPT_PREFIXES) or keep(key)


def _variable(one: Any) -> Any:
    """Name and source of an environment variable; a value is shown only where it is empty."""
    if not isinstance(one, Mapping):
        return HIDDEN
    return {key: HIDDEN if key == "value" and text else text for key, text in one.items()}


def _argument(text: str) -> str:
    name, equals, _ = text.partition("=")
    if text.startswith("-"):
        return f"{name}={HIDDEN}" if equals else name
    return HIDDEN
