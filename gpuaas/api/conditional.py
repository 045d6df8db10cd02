"""Does the caller have this version?  ETag, If-None-Match and If-Match.

A tag is ``"<version>.<digest>"``: the version is what a change must name, the digest tells
a reader that something observed beside it has changed. Ages, which change with every look,
are left out of the digest.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, NoReturn

from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from gpuaas.api import errors
from gpuaas.kernel.errors import FieldError, InvalidRequest, PreconditionFailed

_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_OURS = re.compile(r'"(\d{1,10})(?:\.[0-9a-f]{16})?"')
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
    return "*" in given or tag in {weakened(part) for part in given}


def versions_asked(request: Request) -> frozenset[int] | None:
    """The versions that If-Match names, or None for ``*``. Tags that are not ours name none.

    Raises PreconditionRequired when there is none and InvalidRequest when it is no list of tags.
    """
    given = request.headers.get("If-Match", "").strip()
    if not given:
        raise errors.PreconditionRequired
    if given == "*":
        return None
    tags = [tag.strip() for tag in given.split(",")]
    if not all(_TAG.fullmatch(tag) for tag in tags):
        raise InvalidRequest(
            'If-Match takes ETags in quotation marks, as in "3", or *.',
            errors=(FieldError("/If-Match", "invalid", "it is no list of ETags"),),
        )
    return frozenset(version for tag in tags if (version := version_in(tag)) is not None)


def weakened(tag: str) -> str:
    """A tag without the mark of a weak one: a proxy that packs answers adds it."""
    return tag.removeprefix("W/")


def require_version(request: Request, version: int) -> None:
    """Raises PreconditionFailed when If-Match names other versions than this."""
    asked = versions_asked(request)
    if asked is not None and version not in asked:
        raise PreconditionFailed(version=version, asked=sorted(asked))


def version_met(request: Request, version: int) -> int | None:
    """What a change is bound to: this version, or none for ``*``. Raises PreconditionFailed."""
    require_version(request, version)
    return None if versions_asked(request) is None else version


def heed_version(request: Request, version: int) -> int | None:
    """The same where If-Match may be left out: then it is bound to none."""
    return version_met(request, version) if request.headers.get("If-Match") else None


def version_in(tag: str) -> int | None:
    """The version that a tag of ours names; None of any other."""
    ours = _OURS.fullmatch(weakened(tag))
    return int(ours[1]) if ours else None


def names_version(request: Request) -> bool:
    """Whether If-Match names versions, and not just any. Raises InvalidRequest when it is no list
    of tags."""
    return bool(request.headers.get("If-Match", "").strip()) and versions_asked(request) is not None


def refuse_unheeded() -> NoReturn:
    """Raises InvalidRequest: a change that names a version of what has none would, carried out all
    the same, undo what the caller meant to keep."""
    raise InvalidRequest(
        "If-Match is not heeded at this address: nothing was done. Leave it out to go on whatever "
        "was changed since you read.",
        errors=(FieldError("/If-Match", "not_heeded", "what is shown here has no version"),),
    )
