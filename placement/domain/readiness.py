"""May a host be sold in slices, or whole?  From evidence, what is required of it, and the time.

A capability is a decision on evidence, so each check of it stands somewhere: ready, missing, failed
or expired. What nobody could tell is missing, never failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

SLICES, BAREMETAL = "slices", "baremetal"
CAPABILITIES: Final = (SLICES, BAREMETAL)
CHECKS: Final = (
    "driver",
    "iommu",
    "vfio",
    "fabric",
    "numa",
    "runtime",
    "burn_in",
    "firmware",
)
HANDED_IN: Final = ("fabric", "burn_in", "firmware")
"""Checks that somebody else than the host may answer; the others are read from the host."""
PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
VERDICTS: Final = (PASS, FAIL, UNKNOWN)
SOURCES: Final = ("discovery", "observed", "hook", "operator", "grandfathered")
READY, MISSING, FAILED, EXPIRED = "ready", "missing", "failed", "expired"
STANDINGS: Final = (READY, EXPIRED, MISSING, FAILED)
"""From the best to the worst; a capability stands as its worst check does."""
CODES: Final = {
    MISSING: "evidence_missing",
    FAILED: "evidence_failed",
    EXPIRED: "evidence_expired",
}
DAY_S: Final = 86_400

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of evidence. ``device`` is empty where it is about the host itself."""

    check: str
    verdict: str
    observed_at: datetime
    source: str = "discovery"
    device: str = ""
    reason: str = ""
    version: Version = ()
    expires_at: datetime | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One check that a capability needs.

    ``valid_s``: seconds for which a passed check is good; None: until it is contradicted.
    ``at_least``: the lowest version. ``unless_failed``: only a failure counts, silence does not.
    """

    check: str
    valid_s: int | None = None
    at_least: Version = ()
    unless_failed: bool = False


@dataclass(frozen=True, slots=True)
class CheckStanding:
    """Where one required check stands, since when, and until when it is good."""

    check: str
    standing: str
    reason: str
    device: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        """As it is kept with a capability that it holds back."""
        return {
            "check": self.check,
            "standing": self.standing,
            "code": CODES.get(self.standing, ""),
            "reason": self.reason,
            "device": self.device,
            "since": self.since.isoformat() if self.since else None,
        }


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a capability stands. ``until``: when time alone changes that. None: never."""

    capability: str
    standing: str
    checks: tuple[CheckStanding, ...]
    until: datetime | None = None

    @property
    def ready(self) -> bool:
        """Whether every check holds."""
        return self.standing == READY

    @property
    def misses(self) -> tuple[CheckStanding, ...]:
        """The checks that hold it back."""
        return tuple(check for check in self.checks if check.standing != READY)


Terms = Mapping[str, Sequence[Requirement]]
_FROM_HOST: Final = 30 * DAY_S
DEFAULT: Final[Terms] = {
    SLICES: (
        Requirement("driver", _FROM_HOST),
        Requirement("iommu", _FROM_HOST),
        Requirement("vfio", _FROM_HOST),
        Requirement("fabric", _FROM_HOST),
        Requirement("numa", _FROM_HOST),
        Requirement("runtime", unless_failed=True),
        Requirement("burn_in", unless_failed=True),
    ),
    BAREMETAL: (
        Requirement("driver", _FROM_HOST),
        Requirement("fabric", _FROM_HOST),
        Requirement("numa", _FROM_HOST),
        Requirement("burn_in", unless_failed=True),
    ),
}
"""What is required where a family has no terms of its own. That a host was burnt in, and its
firmware, are asked for by terms, since not every host can answer them; a burn-in that failed counts
under any terms."""


def judge(items: Iterable[Item], terms: Terms, now: datetime) -> dict[str, Standing]:
    """Where each capability stands; one that the terms do not name needs nothing.

    What is about one device takes no shape from its host: the device's slot is blocked alone.
    """
    by_check: dict[str, list[Item]] = {}
    for item in items:
        if not item.device:
            by_check.setdefault(item.check, []).append(item)
    return {
        capability: _capability(capability, terms.get(capability, ()), by_check, now)
        for capability in CAPABILITIES
    }


def _capability(
    capability: str,
    required: Sequence[Requirement],
    by_check: Mapping[str, Sequence[Item]],
    now: datetime,
) -> Standing:
    checks = tuple(_check(need, by_check.get(need.check, ()), now) for need in required)
    worst = max((check.standing for check in checks), key=STANDINGS.index, default=READY)
    ends = [check.until for check in checks if check.standing == READY and check.until]
    return Standing(capability, worst, checks, min(ends, default=None))


def _check(need: Requirement, items: Sequence[Item], now: datetime) -> CheckStanding:
    """The worst of what is said about a check; among equals the one that ends first."""
    if not items:
        standing = READY if need.unless_failed else MISSING
        return CheckStanding(need.check, standing, "nothing was said about it")
    found = [_item(need, item, now) for item in items]
    worst = max(STANDINGS.index(one.standing) for one in found)
    alike = [one for one in found if STANDINGS.index(one.standing) == worst]
    return min(alike, key=lambda one: (one.until is None, one.until, one.device))


def _item(need: Requirement, item: Item, now: datetime) -> CheckStanding:
    def stands(standing: str, reason: str, since: datetime = item.observed_at) -> CheckStanding:
        until = ends_at(item, need) if standing == READY and not need.unless_failed else None
        return CheckStanding(need.check, standing, reason, item.device, since, until)

    if item.verdict == FAIL:
        return stands(FAILED, item.reason)
    if need.unless_failed:
        return stands(READY, item.reason)
    if item.verdict == UNKNOWN:
        return stands(MISSING, item.reason or "nobody could tell")
    end = ends_at(item, need)
    if end is not None and end <= now:
        return stands(EXPIRED, f"last seen {item.observed_at:%Y-%m-%d %H:%M} UTC", end)
    if need.at_least and not item.version:
        return stands(MISSING, f"its version is unknown; {_told(need.at_least)} is required")
    if need.at_least and item.version < need.at_least:
        words = f"{_told(item.version)} is below the family's {_told(need.at_least)}"
        return stands(FAILED, words)
    return stands(READY, item.reason)


def ends_at(item: Item, need: Requirement) -> datetime | None:
    """When a passed check is good no longer: by its own end, or by what is required of it.

    What stood before evidence was kept never ends by time.
    """
    if item.source == "grandfathered":
        return None
    ends = [item.expires_at] if item.expires_at else []
    if need.valid_s is not None:
        ends.append(item.observed_at + timedelta(seconds=need.valid_s))
    return min(ends, default=None)


def renewal_at(items: Iterable[Item], terms: Terms) -> datetime | None:
    """When a host should be looked at again: once three quarters of an answer's time are over."""
    times = []
    for need in (need for required in terms.values() for need in required):
        for item in items:
            end = ends_at(item, need)
            if item.check == need.check and item.source == "discovery" and end is not None:
                times.append(item.observed_at + (end - item.observed_at) * 3 / 4)
    return min(times, default=None)


def merged(known: Item | None, said: Item, now: datetime) -> Item:
    """What is kept when something is said anew: the newest answer, and an answer before none.

    That nobody can tell now takes nothing back that was seen and has not expired.
    """
    if known is None or said.verdict != UNKNOWN or known.verdict == UNKNOWN:
        return said
    over = known.expires_at is not None and known.expires_at <= now
    return said if over else known


def takes_of(intended: str, promoted: Iterable[str]) -> str:
    """What may be placed: slices, baremetal, any or none; intent narrowed by what is promoted."""
    wanted = set(CAPABILITIES) if intended == "any" else {intended}
    found = [one for one in CAPABILITIES if one in wanted and one in set(promoted)]
    return "any" if len(found) == len(CAPABILITIES) else found[0] if found else "none"


def _told(version: Version) -> str:
    return ".".join(map(str, version))
