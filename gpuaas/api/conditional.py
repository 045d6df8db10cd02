"""Does the caller have this version?  ETag, If-None-Match and If-Match.

A tag is ``"<version>.<digest>"``: the version is what a change must name, the digest tells
a reader that something observed beside it has changed. Ages, which change with every look,
are left out of the digest.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from gpuaas.api import errors
from gpuaas.kernel.errors import InvalidRequest, PreconditionFailed

_TAG = re.compile(r'(?:W/)?"(\d{1,10})(?:\.[0-9a-f]{16})?"')
_FLEETING = frozenset({"age_s", "server_time"})


def tag_of(version: int, body: Any) -> str:
    """The ETag of a representation."""
    digest = hashlib.sha256(JSONRenderer().render(_lasting(body))).hexdigest()[:16]
    return f'"{version}.{digest}"'


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(inner) for key, inner in value.items() if key not in _FLEETING}
    if isinstance(value, list | tuple):
        return [_lasting(inner) for inner in value]
    return value


def is_known(request: Request, tag: str) -> bool:
    """Whether If-None-Match names this tag."""
    given = [part.strip() for part in request.headers.get("If-None-Match", "").split(",")]
    return "*" in given or tag in {part.removeprefix("W/") for part in given}


def version_asked(request: Request) -> int | None:
    """The version that If-Match names, or None for ``*``.

    Raises PreconditionRequired when there is none and InvalidRequest when it is no tag.
    """
    given = request.headers.get("If-Match", "").strip()
    if not given:
        raise errors.PreconditionRequired
    if given == "*":
        return None
    found = _TAG.fullmatch(given)
    if found is None:
        raise InvalidRequest("If-Match is not one of our ETags.")
    return int(found[1])


def require_version(request: Request, version: int) -> None:
    """Raises PreconditionFailed when If-Match names another version than this."""
    asked = version_asked(request)
    if asked is not None and asked != version:
        raise PreconditionFailed(version=version, asked=asked)
