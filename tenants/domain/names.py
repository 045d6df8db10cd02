"""Which names are kept, which are refused, and what slug does a name get?

A name keeps any script and direction. It is NFC-normalised and trimmed. Refused is what can
disguise a name or break a line that shows it: control characters, line and paragraph
separators, lone surrogates, private-use characters, bidirectional overrides, characters
without width, piles of combining marks, and words that mix Latin letters with Cyrillic or
Greek ones, which look like other words. See docs/decisions/0013-names.md.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_LENGTH = 120
SHELF_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,58}[a-z0-9])?")
"""How SKUs, classes, pools, families and images are called: in addresses and agents' settings."""
SHELF_RULE: Final = "lower-case letters, digits, and inner dots and hyphens, at most 60"
MOST_MARKS = 4
_OVERRIDES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
_REFUSED = frozenset({"Cc", "Cs", "Co", "Zl", "Zp"})
# Joiners are part of how some scripts, and composed emoji, are written; never between ASCII.
_JOINERS = frozenset("\u200c\u200d")
_ALIKE = frozenset({"CYRILLIC", "GREEK"})


class BadName(ValueError):
    """A name that is refused; the text says why."""


def clean_name(raw: str, *, limit: int = MAX_LENGTH) -> str:
    """The name as it is kept. ``limit`` counts characters. Raises BadName."""
    try:
        raw.encode("utf-8")
    except UnicodeEncodeError:
        raise BadName("it contains a lone surrogate, which is not text") from None
    if len(raw) > limit * 8:
        raise BadName(f"it has {len(raw)} characters; {limit} are allowed")
    text = unicodedata.normalize("NFC", raw).strip()
    if not text:
        raise BadName("it is empty")
    if len(text) > limit:
        raise BadName(f"it has {len(text)} characters; {limit} are allowed")
    if text.isascii() and text.isprintable():
        # Nothing that follows finds fault with it.
        return text
    _no_hidden(text)
    _no_piles(text)
    for word in re.findall(r"\w+", text):
        _one_alphabet(word)
    if all(unicodedata.category(char)[0] in "CMZ" for char in text):
        raise BadName("nothing of it can be seen")
    return text


def _no_hidden(text: str) -> None:
    for at, char in enumerate(text):
        kind = unicodedata.category(char)
        if kind in _REFUSED or char in _OVERRIDES:
            raise BadName(f"it contains the control character U+{ord(char):04X}")
        if kind != "Cf":
            continue
        around = text[max(0, at - 1) : at] + text[at + 1 : at + 2]
        if char not in _JOINERS or len(around) < 2 or around.isascii():
            raise BadName(f"it contains the invisible character U+{ord(char):04X}")


def _no_piles(text: str) -> None:
    pile = 0
    for char in text:
        pile = pile + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        if pile > MOST_MARKS:
            raise BadName(f"more than {MOST_MARKS} marks stand on one letter")


def _one_alphabet(word: str) -> None:
    scripts = {
        unicodedata.name(char, "").split(" ")[0]
        for char in word
        if unicodedata.category(char)[0] == "L"
    }
    alike = sorted(scripts & _ALIKE)
    if alike and (len(alike) > 1 or "LATIN" in scripts):
        mixed = " and ".join(sorted(name.title() for name in scripts & (_ALIKE | {"LATIN"})))
        raise BadName(f"{word!r} mixes {mixed} letters, and looks like another word")


def slug_of(name: str, *, limit: int = 50) -> str:
    """An ASCII slug for addresses and labels; empty when nothing of the name is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:limit].strip("-")
