"""How does a value become the text of a JSON argument?

The statements of the claim path carry documents of some kilobytes; a compiled writer takes a
tenth of the time of the standard library's. What is hashed is written as it always was, to the
byte; what is shown goes on through the standard library.
"""

import json
from typing import Any

import orjson

_PLAIN = json.JSONEncoder(separators=(",", ":"), default=str, allow_nan=False).encode
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode
_WHOLE = frozenset({str, int, bool, type(None)})
_SORTED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def canonical_json(value: Any) -> bytes:
    """The one text of a value, for a digest: keys in order, nothing between, in ASCII; what is no
    JSON as its own text. It never changes, since digests are kept: it is the standard library's,
    and the compiled writer is taken where both write the same."""
    try:
        text = b"" if _fractions(value) else orjson.dumps(value, option=_SORTED, default=_own_text)
    except TypeError:
        text = b""
    # Beyond printable ASCII they escape differently.
    return text if text and text.isascii() and b"\x7f" not in text else _CANONICAL(value).encode()


def _fractions(value: Any) -> bool:
    """Whether a number with a point is in it: they write those differently."""
    if isinstance(value, dict):
        rest = [inner for inner in value.values() if type(inner) not in _WHOLE]
        return any(map(_fractions, rest))
    if isinstance(value, list | tuple):
        return any(map(_fractions, [inner for inner in value if type(inner) not in _WHOLE]))
    return isinstance(value, float)


def _own_text(value: Any) -> str:
    if isinstance(value, str | int | float | tuple | list | dict):
        # A kind of its own of what JSON has: the standard library knows how.
        raise TypeError
    return str(value)


def as_json(value: Any) -> str:
    """Compact JSON text; ids and times are written as text.

    What the compiled writer refuses (keys that are more than text, numbers beyond 64 bits) the
    standard library's writes. Raises TypeError or ValueError for what neither does.
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return _PLAIN(value)
