"""Which NVLink domain does a host share with others, by what each of its GPUs says?

A host is in a domain when all of its GPUs say the same one. When some say another or nothing, the
host's domain is not known: that is never taken for "none", since what a tenant was promised alone
hangs on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from placement.domain.identity import FABRIC_CHANGED, Difference

PRESENT, ABSENT, UNKNOWN = "present", "absent", "unknown"
MOST: Final = 80
"""Characters of a domain's name."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one GPU says of its domain. ``name``: cluster and clique, where it is in one."""

    presence: str
    name: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """What follows for a host.

    ``fabric``: the domain it counts in from now on. ``seen``: one more in which it counts too,
    because its GPUs are there now and its claims were made elsewhere.
    """

    fabric: str
    seen: str
    difference: Difference | None = None


def common(told: Iterable[Told | None]) -> tuple[str | None, str]:
    """The domain of a host ("" for none, None when it is not known), and why it is not known.

    None among ``told`` is a GPU of which nobody asked.
    """
    gpus = list(told)
    asked = [one for one in gpus if one is not None]
    if not asked:
        return None, "nobody looked"
    names = sorted({one.name for one in asked if one.presence == PRESENT})
    inside = sum(one.presence == PRESENT for one in asked)
    if len(names) == 1 and inside == len(gpus):
        return names[0][:MOST], ""
    if all(one is not None and one.presence == ABSENT for one in gpus):
        return "", ""
    if names:
        return None, f"{inside} of {len(gpus)} GPUs say {', '.join(names)}"
    why = sorted({one.reason or "not told" for one in asked if one.presence == UNKNOWN})
    return None, f"{len(gpus) - len(asked)} GPUs were not asked; others: {', '.join(why) or 'none'}"


def fold(told: Iterable[Told | None], *, was: str, seen: str, live: bool) -> Fold:
    """The host's domain after a discovery. ``live``: somebody holds something of it.

    What was known stays where nobody can say, and where a claim was made on it. Then the host
    counts in both domains, so that neither's promise to share with nobody is broken anew.
    """
    now, why = common(told)
    if now is None:
        if not was and not seen:
            return Fold(was, seen)
        detail = f"nobody can say which NVLink domain it shares ({why}); {was or seen} stays"
        return Fold(was, seen, _difference(detail, was, {"fabric": None}))
    if now == was:
        return Fold(was, "")
    if not live:
        return Fold(now, "")
    kept = f"{was or 'no domain'} stays until its claims have ended"
    detail = f"its GPUs are in {now or 'no NVLink domain with other hosts'} now; {kept}"
    return Fold(was, now, _difference(detail, was, {"fabric": now}))


def _difference(detail: str, was: str, now: dict[str, Any]) -> Difference:
    return Difference(FABRIC_CHANGED, None, "", detail, {"fabric": was}, now)
