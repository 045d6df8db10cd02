"""How is JSON read with bounds, and how is it written so that both sides hash the same bytes?"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

from nodeagent.protocol.errors import WireError, child_pointer

MAX_BODY_BYTES = 1_048_576
MAX_DEPTH = 16
MAX_INTEGER = 2**63 - 1
MAX_KEY_CHARS = 128
MAX_VALUES = 50_000
_MAX_NUMBER_CHARS = 32
_LINE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def load_json(body: bytes | str, *, max_bytes: int = MAX_BODY_BYTES) -> Any:
    """Parse one JSON document within bounds.

    Raises WireError when it is too large, too deep, not JSON, has a duplicate key, an infinite or
    not-a-number literal, or an integer outside 64 bits.
    """
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    if len(raw) > max_bytes:
        raise WireError("", "too_large", f"the document is over {max_bytes} bytes")
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_unique_pairs,
            parse_int=_bounded_int,
            parse_float=_finite_float,
            parse_constant=_refuse_constant,
        )
    except WireError:
        raise
    except UnicodeDecodeError as error:
        raise WireError("", "not_json", "the document is not UTF-8") from error
    except RecursionError as error:
        raise WireError("", "too_deep", f"nesting goes beyond {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise WireError("", "not_json", "the document is not JSON") from error
    check_bounds(value)
    return value


def check_bounds(value: Any, pointer: str = "") -> None:
    """Refuse a value with more than MAX_DEPTH levels or MAX_VALUES values, or a foreign type."""
    if not _within_bounds(value):
        _refuse_first(value, pointer)


def _within_bounds(value: Any) -> bool:
    """Whether there is nothing to refuse: most documents, for which no pointer need be made."""
    seen = 0
    level: list[Any] = [value]
    for depth in range(1, MAX_DEPTH + 2):
        below: list[Any] = []
        seen += len(level)
        for item in level:
            kind = type(item)
            if kind is str:
                if _CONTROL.search(item):
                    return False
            elif kind is int:
                if not -MAX_INTEGER <= item <= MAX_INTEGER:
                    return False
            elif depth > MAX_DEPTH and kind in (dict, list):
                return False
            elif kind is dict:
                for key in item:
                    if type(key) is not str or len(key) > MAX_KEY_CHARS or _LINE.search(key):
                        return False
                below += item.values()
            elif kind is list:
                below += item
            elif kind is float:
                if not math.isfinite(item):
                    return False
            elif item is not None and kind is not bool:
                return False
        if not below or seen > MAX_VALUES:
            return seen <= MAX_VALUES
        level = below
    return False


def _refuse_first(value: Any, pointer: str) -> None:
    """Raise WireError naming what is wrong; nothing where it was of a type that is taken, too."""
    seen = 0
    pending: list[tuple[Any, str, int]] = [(value, pointer, 1)]
    while pending:
        item, where, depth = pending.pop()
        seen += 1
        if seen > MAX_VALUES:
            raise WireError(pointer, "too_many", f"more than {MAX_VALUES} values")
        if isinstance(item, dict | list):
            if depth > MAX_DEPTH:
                raise WireError(where, "too_deep", f"nesting goes beyond {MAX_DEPTH} levels")
            members = item.items() if isinstance(item, dict) else enumerate(item)
            for key, member in members:
                if isinstance(item, dict):
                    _check_key(key, where)
                pending.append((member, child_pointer(where, key), depth + 1))
        elif isinstance(item, str):
            check_characters(item, where)
        elif isinstance(item, float) and not math.isfinite(item):
            raise WireError(where, "out_of_range", "not a finite number")
        elif isinstance(item, int) and abs(item) > MAX_INTEGER:
            raise WireError(where, "out_of_range", "an integer outside 64 bits")
        elif item is not None and not isinstance(item, int | float):
            raise WireError(where, "wrong_type", "not a JSON value")


def check_characters(value: str, pointer: str, *, multiline: bool = True) -> None:
    """Refuse NUL, other control characters and lone surrogates; line breaks only if multiline."""
    if (_CONTROL if multiline else _LINE).search(value):
        raise WireError(pointer, "bad_characters", "contains a control character or surrogate")


def canonical_json(value: Any) -> bytes:
    """The one byte string of a JSON value: sorted keys, no blanks, UTF-8, no floating point.

    Floating point is refused (WireError wrong_type) because its text form is not canonical.
    """
    _refuse_floats(value, "")
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise WireError("", "bad_characters", "contains a lone surrogate") from error


def sha256_hex(data: bytes) -> str:
    """SHA-256 as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _check_key(key: Any, pointer: str) -> None:
    if not isinstance(key, str):
        raise WireError(pointer, "wrong_type", "a member name that is not a string")
    if len(key) > MAX_KEY_CHARS:
        raise WireError(pointer, "too_long", f"a member name over {MAX_KEY_CHARS} characters")
    check_characters(key, pointer, multiline=False)


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise WireError("", "duplicate_key", "an object names one member twice")
    return members


def _bounded_int(text: str) -> int:
    if len(text) > _MAX_NUMBER_CHARS:
        raise WireError("", "out_of_range", "an integer outside 64 bits")
    return int(text)


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise WireError("", "out_of_range", "not a finite number")
    return number


def _refuse_constant(text: str) -> Any:
    raise WireError("", "out_of_range", "not a finite number")


def _refuse_floats(value: Any, pointer: str) -> None:
    if isinstance(value, float):
        raise WireError(pointer, "wrong_type", "floating point has no canonical form")
    if isinstance(value, dict):
        for key, member in value.items():
            _refuse_floats(member, child_pointer(pointer, key))
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            _refuse_floats(member, child_pointer(pointer, index))
