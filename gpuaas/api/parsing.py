"""Is this body acceptable JSON?  Every refusal names the place by a JSON pointer."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from gpuaas.api import errors
from gpuaas.kernel.errors import FieldError

MAX_BYTES = 1_048_576
MAX_DEPTH = 16
MAX_VALUES = 50_000
MAX_KEY = 128
MAX_INTEGER = 2**63 - 1
_MAX_DIGITS = 32


class _Wrong:
    """Stands in the parsed tree for a thing that JSON lets through and we do not."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail


def refusal(pointer: str, code: str, detail: str) -> errors.MalformedJson:
    """The error for one wrong place of a body."""
    where = pointer or "the document"
    return errors.MalformedJson(f"{where}: {detail}.", errors=(FieldError(pointer, code, detail),))


def loads(raw: bytes) -> Any:
    """Parse one strict JSON document. Raises BodyTooLarge or MalformedJson."""
    if len(raw) > MAX_BYTES:
        raise errors.BodyTooLarge(f"The body is over {MAX_BYTES} bytes.", limit_bytes=MAX_BYTES)
    try:
        value = json.loads(
            # Some programs begin a file with the mark of its encoding, which means nothing here.
            raw.removeprefix(codecs.BOM_UTF8).decode("utf-8"),
            object_pairs_hook=_members,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=lambda text: _Wrong("not_finite", f"{text} is not a JSON number"),
        )
    except UnicodeDecodeError:
        raise refusal("", "not_utf8", "the body is not UTF-8") from None
    except RecursionError:
        raise refusal("", "too_deep", f"nesting goes beyond {MAX_DEPTH} levels") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise refusal("", "not_json", f"the body is not JSON at {place}") from None
    _check(value)
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        twice = key in members
        members[key] = _Wrong("duplicate_key", "the member is named twice") if twice else value
    return members


def _integer(text: str) -> Any:
    if len(text) > _MAX_DIGITS or abs(int(text)) > MAX_INTEGER:
        return _Wrong("out_of_range", "the integer does not fit 64 bits")
    return int(text)


def _real(text: str) -> Any:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        return _Wrong("not_finite", "the number is not finite")
    return value


def _check(root: Any) -> None:
    pending: list[tuple[Any, str, int]] = [(root, "", 1)]
    seen = 0
    while pending:
        value, where, depth = pending.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise refusal("", "too_many", f"the body has more than {MAX_VALUES} values")
        if isinstance(value, _Wrong):
            raise refusal(where, value.code, value.detail)
        if isinstance(value, str):
            check_text(value, where)
        elif isinstance(value, dict | list):
            if depth > MAX_DEPTH:
                raise refusal(where, "too_deep", f"nesting goes beyond {MAX_DEPTH} levels")
            members = value.items() if isinstance(value, dict) else enumerate(value)
            for key, member in members:
                if isinstance(key, str):
                    if len(key) > MAX_KEY:
                        raise refusal(where, "too_long", f"a name is over {MAX_KEY} characters")
                    check_text(key, where)
                pending.append((member, f"{where}/{escape(key)}", depth + 1))


def check_text(value: str, where: str) -> None:
    """Refuse NUL, which the database cannot keep, and lone surrogates, which are no characters."""
    for character in value:
        code = ord(character)
        if code == 0:
            raise refusal(where, "null_character", "contains the NUL character")
        if 0xD800 <= code <= 0xDFFF:
            raise refusal(where, "lone_surrogate", "contains a lone surrogate")


def escape(key: str | int) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


class StrictJSONParser(BaseParser):
    """Reads application/json and nothing else."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The parsed body. Raises BodyTooLarge, UnsupportedMedia or MalformedJson."""
        charset = _charset(media_type or "")
        if charset not in {"", "utf-8", "utf8", "us-ascii"}:
            raise errors.UnsupportedMedia("JSON is UTF-8; another charset is not supported.")
        coding = _coding(parser_context or {})
        if coding not in {"", "identity"}:
            raise errors.UnsupportedMedia(
                f"A body in Content-Encoding {coding} is not supported: send it as it is."
            )
        raw: bytes = stream.read(MAX_BYTES + 1)
        return loads(raw)


def _coding(context: Mapping[str, Any]) -> str:
    request = context.get("request")
    given = request.headers.get("Content-Encoding", "") if request is not None else ""
    return str(given).strip().lower()[:40]


def _charset(media_type: str) -> str:
    for part in media_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return ""
