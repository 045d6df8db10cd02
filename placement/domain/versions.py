"""May an agent of this version work for this control plane?

The two are released together and may differ by one minor version in either direction, so that a
fleet is upgraded host by host after its control plane.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})(\.\d{1,6})?([.+-][A-Za-z0-9.+-]{1,40})?")
MOST_MINORS_APART = 1
SIGNED_SINCE = (0, 2)
"""The first version that signs what it cleaned; an older one's cleanups are proven by nothing."""

PROFILES_SINCE = (0, 3)
"""The first version that knows MIG profiles that draw, or have all or no media engines."""
VERSION_SIGNED_SINCE = (0, 3)
"""The first version that signs which version it is, with each message."""
_KNOWN_BEFORE = re.compile(r"[1-9]g\.[1-9][0-9]{0,2}gb(\+me)?")


def profile_unknown(agent: str, profiles: Iterable[str]) -> str | None:
    """The first of these MIG profiles that an agent of this version cannot read; None: it can.

    What cannot be read of a version is taken for one that knows none of the newer ones.
    """
    theirs = _VERSION.fullmatch(agent)
    if theirs is not None and (int(theirs[1]), int(theirs[2])) >= PROFILES_SINCE:
        return None
    return next((one for one in profiles if not _KNOWN_BEFORE.fullmatch(one)), None)


def version_signed(agent: str) -> str:
    """What a message of an agent that says this version has signed of it; empty where it is of
    one that signs nothing of it.

    Whoever changes what is said to or from a version that signs it breaks the signature.
    """
    theirs = _VERSION.fullmatch(agent)
    if theirs is None or (int(theirs[1]), int(theirs[2])) < VERSION_SIGNED_SINCE:
        return ""
    return agent


def version_problem(agent: str, ours: str) -> str | None:
    """Why they may not work together: unreadable, unsigned, too_old or too_new; None when they may.

    Raises ValueError when our own version cannot be read.
    """
    own = _VERSION.fullmatch(ours)
    if own is None:
        raise ValueError(f"{ours!r} is not a version")
    theirs = _VERSION.fullmatch(agent)
    if theirs is None:
        return "unreadable"
    major, minor = int(theirs[1]), int(theirs[2])
    if (major, minor) < SIGNED_SINCE:
        return "unsigned"
    if major != int(own[1]):
        return "too_old" if major < int(own[1]) else "too_new"
    apart = minor - int(own[2])
    if abs(apart) <= MOST_MINORS_APART:
        return None
    return "too_old" if apart < 0 else "too_new"
