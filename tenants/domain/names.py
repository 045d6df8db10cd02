"""Which names are kept, which are refused, and what slug does a name get?

A name keeps any script. It is NFC-normalised and trimmed; control characters, lone
surrogates and bidirectional overrides are refused, since they can disguise a name.
"""

from __future__ import annotations

import re
import unicodedata

MAX_LENGTH = 120
_OVERRIDES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


class BadName(ValueError):
    """A name that is refused; the text says why."""


def clean_name(raw: str, *, limit: int = MAX_LENGTH) -> str:
    """The name as it is kept. ``limit`` counts characters. Raises BadName."""
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        raise BadName("it contains a lone surrogate, which is not text") from None
    text = unicodedata.normalize("NFC", raw).strip()
    if not text:
        raise BadName("it is empty")
    if len(text) > limit:
        raise BadName(f"it has {len(text)} characters; {limit} are allowed")
    for char in text:
        if unicodedata.category(char) in ("Cc", "Cs") or char in _OVERRIDES:
            raise BadName(f"it contains the control character U+{ord(char):04X}")
    return text


def slug_of(name: str, *, limit: int = 50) -> str:
    """An ASCII slug for addresses and labels; empty when nothing of the name is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:limit].strip("-")
