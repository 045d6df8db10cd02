"""Damages documents: the same seed damages the same document in the same way."""

from __future__ import annotations

import pickle
import random
from typing import Any

_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**400,
    1.5,
    "",
    "x" * 300,
    "../../etc/passwd",
    "$(id)",
    "`id`; rm -rf /",
    "a\0b",
    "\ud800",
    "\u202e",
    "-oProxyCommand=id",
    "GPU-of-nobody",
    [],
    {},
    [[]],
    {"a": {}},
    ["x"] * 300,
)
_NAMES = ("surprise", "script", "__class__", "")


def damaged(document: Any, chance: random.Random) -> Any:
    """A copy with one to three places changed, dropped, doubled, or added to."""
    made = _copy(document)
    for _ in range(chance.randint(1, 3)):
        _damage(made, chance)
    return made


def _copy(document: Any) -> Any:
    """A copy, faster than a deep one."""
    return pickle.loads(pickle.dumps(document))


def _damage(made: Any, chance: random.Random) -> None:
    places = list(_places(made))
    if not places:
        return
    holder, key = chance.choice(places)
    what = chance.randrange(5)
    if what == 0:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[chance.choice(_NAMES)] = _copy(chance.choice(_VALUES))
    elif what == 2 and isinstance(holder, list):
        holder.append(_copy(holder[key]))
    elif what == 3 and isinstance(holder[key], str) and holder[key]:
        holder[key] = _bent(holder[key], chance)
    else:
        holder[key] = _copy(chance.choice(_VALUES))


def _bent(text: str, chance: random.Random) -> str:
    place = chance.randrange(len(text))
    return text[:place] + chance.choice(("'", "\n", "/", ";", "9", "", "é")) + text[place + 1 :]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of every object and list in a document."""
    found: list[tuple[Any, Any]] = []
    members: list[Any] = [value]
    while members:
        one = members.pop()
        keys = (
            list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        )
        for key in keys:
            found.append((one, key))
            members.append(one[key])
    return found


def damaged_bytes(content: bytes, chance: random.Random) -> bytes:
    """The same for what is not yet a document: cut, flipped, or with something put in."""
    place = chance.randrange(len(content) + 1)
    return chance.choice(
        (
            content[:place],
            content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :],
            content[:place] + b'{"a":' * chance.choice((1, 200)) + content[place:],
            content + content,
            b"\xff\xfe" + content,
        )
    )
