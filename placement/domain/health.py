"""How well is a GPU, why, and what follows?  A judgement of everything known, never a raw alert.

NVML's recovery action is the authority where a host tells it. An error number alone follows our
policy for it (placement.domain.xids) until what ends it is seen: a reset that a cleanup proved, a
later boot, or a clean day. What ends it never comes from silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from placement.domain import xids
from placement.domain.xids import xid_of

HEALTHY, DEGRADED, UNHEALTHY = "healthy", "degraded", "unhealthy"
CLASSES: Final = (HEALTHY, DEGRADED, UNHEALTHY)
TENANT_FAULT = "tenant_fault"
RESET_AT_RELEASE = "reset_at_release"
PREVENT_SLOT = "prevent_slot"
PREVENT_NODE = "prevent_node"
NEEDS_REPAIR = "needs_repair"
CONSEQUENCES: Final = (TENANT_FAULT, RESET_AT_RELEASE, PREVENT_SLOT, PREVENT_NODE, NEEDS_REPAIR)

CLEAN_WINDOW: Final = timedelta(hours=24)
"""After this long without another, what was only watched is over."""
MANY_TENANTS: Final = 3
"""Allocations that one GPU has failed alike before it is no longer the tenants' own doing."""
REBOOTS_ENOUGH: Final = 2
"""Reboots for one error before a third is no answer: somebody has to look at the hardware."""

HOST_ITSELF: Final = "host"
"""In the place of a GPU's UUID: the host, judged by errors of which nobody knows the GPU."""
UNNAMED: Final = "gpu_error_unnamed"
_CLOSING: Final = frozenset({xids.RESET, xids.FOLLOW, xids.REBOOT, xids.REPAIR})
"""Policies by which a GPU takes no new work."""

OCCUPIED: Final = "unknown_vm"
REPLACED: Final = "gpu_serial_changed"
RECORD_DAMAGED: Final = "record_damaged"
NOT_RESTARTED: Final = "machine_not_restarted"
IN_USE: Final = "gpu_in_use"
OWN_TROUBLE: Final = frozenset(
    {
        "gpu_recovery_required",
        "gpu_row_remap_failed",
        OCCUPIED,
        REPLACED,
        RECORD_DAMAGED,
        NOT_RESTARTED,
        IN_USE,
    }
)
"""Conditions that are one GPU's own: its slot is kept from new work, the host goes on."""
HOST_TROUBLE: Final = frozenset({"gpu_lost", "device_missing"})
"""Conditions of a GPU that say that its host cannot be relied on."""
ASKS_FOR: Final = "the driver asks for "
_ACTIONS: Final = {
    "gpu_reset": (PREVENT_SLOT, "gpu_needs_reset", "Release what is on it: its cleanup resets it."),
    "drain_p2p": (PREVENT_SLOT, "gpu_needs_reset", "Release what is on its NVLink peers as well."),
    "drain_and_reset": (PREVENT_SLOT, "gpu_needs_reset", "Release what is on it, then reset it."),
    "bus_reset": (PREVENT_SLOT, "gpu_needs_reset", "Release what is on it, then reset its bus."),
    "node_reboot": (PREVENT_NODE, "node_needs_reboot", "Drain the host and reboot it."),
    "system_reboot": (PREVENT_NODE, "node_needs_reboot", "Drain the host and reboot it."),
    "recover_imex_domain": (
        PREVENT_NODE,
        "node_needs_reboot",
        "Recover the IMEX domain that the host is in.",
    ),
}


@dataclass(frozen=True, slots=True)
class SeenXid:
    """One error number as it was told: when, in which boot, and who had the GPU."""

    xid: int
    at: datetime
    boot: str
    count: int = 1
    allocation: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """A condition that the host's last report has of this GPU."""

    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Everything that a GPU is judged by. ``boot`` is the host's present one.

    ``reset_at``: when a complete cleanup last proved a reset; ``lifted_at``: when an operator set
    aside what was known. ``observed``: whether the host's report of this boot sees the GPU.
    ``ecc_uncorrected``: uncorrectable memory errors since the driver was loaded; None is unknown.
    """

    xids: Sequence[SeenXid] = ()
    conditions: Sequence[Told] = ()
    boot: str = ""
    observed: bool = False
    reset_at: datetime | None = None
    lifted_at: datetime | None = None
    ecc_uncorrected: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason for a judgement: its code, numbers, what follows and what would end it."""

    code: str
    detail: str
    consequence: str = ""
    unblock: str = ""
    since: datetime | None = None
    numbers: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As it is kept with the device."""
        return {
            "code": self.code,
            "detail": self.detail,
            "consequence": self.consequence,
            "unblock": self.unblock,
            "since": self.since.isoformat() if self.since else None,
            "numbers": self.numbers,
        }


@dataclass(frozen=True, slots=True)
class Judgement:
    """A GPU's class, what follows, and why; the gravest reason first."""

    classification: str = HEALTHY
    consequences: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def prevents(self) -> bool:
        """Whether its slot takes no new work."""
        return PREVENT_SLOT in self.consequences or PREVENT_NODE in self.consequences


def judge(facts: DeviceFacts, now: datetime) -> Judgement:
    """What everything that is known of a GPU comes to, at ``now``."""
    found = [*_conditions(facts), *_xids(facts, now), *_memory(facts)]
    found.sort(key=lambda one: _GRAVITY.get(one.consequence, 0), reverse=True)
    follows = {one.consequence for one in found} - {""}
    if follows & {PREVENT_SLOT, PREVENT_NODE, NEEDS_REPAIR}:
        word = UNHEALTHY
    else:
        word = DEGRADED if any(one.consequence != TENANT_FAULT for one in found) else HEALTHY
    if NEEDS_REPAIR in follows:
        follows.add(PREVENT_SLOT)
    return Judgement(word, tuple(c for c in CONSEQUENCES if c in follows), tuple(found))


def judge_host(facts: DeviceFacts, now: datetime) -> Judgement:
    """What errors that name no GPU come to, at ``now``: any of the host's may be the one.

    What would keep a GPU from new work keeps the host from it; all else stays what it is, a note.
    ``facts`` are the host's: ``observed`` where every GPU was seen, ``reset_at`` of all of them.
    """
    closing = [one for one in facts.xids if xid_of(one.xid).policy in _CLOSING]
    found = tuple(
        replace(
            one,
            code=UNNAMED,
            detail=f"{one.detail}; the driver did not say of which GPU",
            consequence=PREVENT_NODE,
            unblock=(
                "The host's kernel log may say which GPU it was. Look at it, then lift this: "
                f"{{lift}} (its GPU is `{HOST_ITSELF}`)."
                + ("" if one.consequence == NEEDS_REPAIR else " Or reboot the host.")
            ),
        )
        for one in _xids(replace(facts, xids=closing), now)
    )
    return Judgement(UNHEALTHY, (PREVENT_NODE,), found) if found else Judgement()


_GRAVITY: Final = {
    PREVENT_NODE: 5,
    NEEDS_REPAIR: 4,
    PREVENT_SLOT: 3,
    RESET_AT_RELEASE: 2,
    TENANT_FAULT: 1,
}


def _conditions(facts: DeviceFacts) -> list[Finding]:
    """What the host's last report says: it stands until a report says it no longer."""
    found = []
    for told in facts.conditions:
        if told.code == "gpu_recovery_required":
            action = told.detail.removeprefix(ASKS_FOR)
            follows, code, way_out = _ACTIONS.get(
                action, (PREVENT_SLOT, "gpu_needs_reset", "Look at what the driver asks for.")
            )
            found.append(Finding(code, told.detail, follows, way_out, None, {"action": action}))
        elif told.code == "gpu_row_remap_failed":
            way_out = "Have the GPU replaced; then accept what differs."
            found.append(Finding("gpu_needs_repair", told.detail, NEEDS_REPAIR, way_out))
        elif told.code == REPLACED:
            way_out = "Look which card is in the place; put the other back, or replace the card."
            found.append(Finding("gpu_needs_repair", told.detail, PREVENT_SLOT, way_out))
        elif told.code == RECORD_DAMAGED:
            way_out = "Release the allocation that it was of, or mend the record on the host."
            found.append(Finding(RECORD_DAMAGED, told.detail, PREVENT_SLOT, way_out))
        elif told.code == NOT_RESTARTED:
            way_out = "Mend what the host names and restart its helper, or release the allocation."
            found.append(Finding(NOT_RESTARTED, told.detail, PREVENT_SLOT, way_out))
        elif told.code == IN_USE:
            way_out = "End what the host names, or have it let go of the GPU."
            found.append(Finding(IN_USE, told.detail, PREVENT_SLOT, way_out))
        elif told.code == OCCUPIED:
            way_out = "End the machine by hand, or find out who started it."
            found.append(Finding(OCCUPIED, told.detail, PREVENT_SLOT, way_out))
        elif told.code in HOST_TROUBLE:
            way_out = "Drain the host and reboot it; if the GPU stays away, replace it."
            found.append(Finding("node_needs_reboot", told.detail, PREVENT_NODE, way_out))
    return found


def _xids(facts: DeviceFacts, now: datetime) -> list[Finding]:
    by_number: dict[int, list[SeenXid]] = {}
    for seen in facts.xids:
        by_number.setdefault(seen.xid, []).append(seen)
    found = []
    for number, all_seen in sorted(by_number.items()):
        open_ones = [one for one in all_seen if not _over(one, facts, now)]
        if open_ones:
            found.append(_xid(number, all_seen, open_ones, facts))
    return [one for one in found if one is not None]


def _over(seen: SeenXid, facts: DeviceFacts, now: datetime) -> bool:
    """Whether what ends this error was seen; its policy says what that is."""
    if facts.lifted_at is not None and seen.at <= facts.lifted_at:
        return True
    policy = xid_of(seen.xid).policy
    reset = facts.reset_at is not None and facts.reset_at > seen.at
    rebooted = facts.observed and facts.boot != seen.boot
    if policy in (xids.RESET, xids.AT_RELEASE):
        return reset or rebooted
    if policy == xids.FOLLOW:
        return reset or rebooted
    if policy == xids.REBOOT:
        return rebooted
    if policy == xids.REPAIR:
        return False
    return now - seen.at > CLEAN_WINDOW


def _xid(
    number: int, all_seen: Sequence[SeenXid], open_ones: Sequence[SeenXid], facts: DeviceFacts
) -> Finding | None:
    """The finding of one number; None where nothing follows from it."""
    entry = xid_of(number)
    if entry.policy == xids.IGNORE:
        return None
    since = min(one.at for one in open_ones)
    count = sum(one.count for one in open_ones)
    boots = reboots(all_seen, facts)
    numbers = {"xid": number, "count": count, "reboots": boots}
    words = f"XID {number}, {entry.meaning}"

    def finding(code: str, follows: str, way_out: str, why: str = "") -> Finding:
        return Finding(code, f"{words}{why}", follows, way_out, since, numbers)

    if boots >= REBOOTS_ENOUGH and entry.policy in (xids.RESET, xids.REBOOT):
        why = f"; {boots} reboots have not ended it"
        way_out = "Inspect the hardware. Then lift it: {lift}."
        return finding("gpu_needs_repair", NEEDS_REPAIR, way_out, why)
    if entry.policy == xids.TENANT:
        hit = {one.allocation for one in open_ones if one.allocation}
        numbers["allocations"] = len(hit)
        if len(hit) >= MANY_TENANTS:
            why = f"; on {len(hit)} allocations within a day: the GPU is in question"
            return finding("gpu_needs_repair", NEEDS_REPAIR, "Inspect the GPU, then lift it.", why)
        return finding("gpu_tenant_fault", TENANT_FAULT, "Nothing: the tenant mends its program.")
    if entry.policy == xids.REPAIR:
        return finding("gpu_needs_repair", NEEDS_REPAIR, "Have the GPU replaced, or lift it.")
    if entry.policy == xids.REBOOT:
        return finding("node_needs_reboot", PREVENT_NODE, "Drain the host and reboot it.")
    if entry.policy in (xids.RESET, xids.FOLLOW):
        way_out = "Release what is on it: its cleanup resets it. Or reboot the host."
        return finding("gpu_needs_reset", PREVENT_SLOT, way_out)
    if entry.policy == xids.AT_RELEASE:
        return finding("gpu_watched", RESET_AT_RELEASE, "It is reset when it is released.")
    way_out = f"It is over after {CLEAN_WINDOW.total_seconds() / 3600:.0f} hours without another."
    return finding("gpu_watched", "", way_out)


def reboots(all_seen: Sequence[SeenXid], facts: DeviceFacts) -> int:
    """How many reboots an error has come back after; those before an operator lifted it are out."""
    kept = [one for one in all_seen if facts.lifted_at is None or one.at > facts.lifted_at]
    return max(0, len({one.boot for one in kept}) - 1)


def _memory(facts: DeviceFacts) -> list[Finding]:
    errors = facts.ecc_uncorrected
    if not errors:
        return []
    way_out = "It is reset when it is released."
    words = f"{errors} uncorrectable memory errors since its driver was loaded"
    return [Finding("gpu_watched", words, RESET_AT_RELEASE, way_out, None, {"errors": errors})]


def worst_of(words: Iterable[str]) -> str:
    """The gravest class of several devices; healthy where there is none."""
    return max(words, key=CLASSES.index, default=HEALTHY)
