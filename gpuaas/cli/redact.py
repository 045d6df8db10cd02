"""What must never be shown when a request is traced?"""

import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "[redacted]"

_SECRET_KEYS = re.compile(r"(?i)(password|secret|token|private_key|authorization|cookie)$")
_TOKEN_TEXT = re.compile(r"gpuaas_[a-z]+_[A-Za-z0-9]{6,}_[A-Za-z0-9]{8,}")
_BEARER_TEXT = re.compile(r"(?i)\b(bearer)\s+\S+")
_SECRET_HEADERS = frozenset(
    {"authorization", "cookie", "set-cookie", "proxy-authorization", "gpuaas-second-factor"}
)


def _is_secret(key: str, item: str) -> bool:
    # A problem's code is a word; a second factor's is made of digits.
    return bool(_SECRET_KEYS.search(key) or (key == "code" and item[:1].isdigit()))


def redact_text(text: str) -> str:
    """Replace every product token and bearer value inside free text."""
    return _BEARER_TEXT.sub(rf"\1 {HIDDEN}", _TOKEN_TEXT.sub(HIDDEN, text))


def redact_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as they may be shown: credentials replaced, everything else kept."""
    shown: dict[str, str] = {}
    for name, value in headers.items():
        if name.lower() == "authorization":
            scheme = value.split(" ", 1)[0]
            shown[name] = f"{scheme} {HIDDEN}"
        elif name.lower() in _SECRET_HEADERS:
            shown[name] = HIDDEN
        else:
            shown[name] = redact_text(value)
    return shown


def redact_json(value: Any) -> Any:
    """A JSON value as it may be shown: secret members replaced at any depth."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if isinstance(item, str) and item and _is_secret(str(key), item)
            else redact_json(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [redact_json(item) for item in value]
    return redact_text(value) if isinstance(value, str) else value
