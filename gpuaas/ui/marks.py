"""How is a state shown?  One icon, one word and one colour role, the same everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["ok", "info", "waiting", "warning", "blocked", "failed", "ended"]
ROLES: tuple[Role, ...] = ("ok", "info", "waiting", "warning", "blocked", "failed", "ended")


@dataclass(frozen=True, slots=True)
class Mark:
    """What stands beside a thing to tell its state: never the colour alone."""

    role: Role
    word: str

    @property
    def icon(self) -> str:
        """The name of the role's icon in the sprite."""
        return f"s-{self.role}"


_WORDS: dict[Role, tuple[str, ...]] = {
    "ok": (
        "active",
        "succeeded",
        "ready",
        "published",
        "approved",
        "free",
        "fully_available",
        "admitted",
        "ok",
        "present",
        "running",
        "complete",
        "open",
        "admit",
        "healthy",
        "promoted",
        "pass",
    ),
    "info": (
        "provisioning",
        "in_use",
        "leased",
        "inspecting",
        "partially_allocated",
        "fully_allocated",
        "exclusive_baremetal",
        "executing",
        "defined",
    ),
    "waiting": (
        "pending",
        "planned",
        "announced",
        "declared",
        "asked",
        "submitted",
        "scheduled",
        "dry_run",
        "placed",
        "queued",
        "received",
        "releasing",
        "reserved",
        "candidate",
        "verified",
        "enrolling",
        "verifying",
        "draft",
        "starting",
        "stopping",
        "compensating",
        "wait",
    ),
    "warning": (
        "draining",
        "preempting",
        "maintenance",
        "suspended",
        "degraded",
        "unknown",
        "stale",
        "overdue",
        "stopped",
        "drift",
        "demoted",
    ),
    "blocked": (
        "cleanup_blocked",
        "blocked",
        "denied",
        "quarantined",
        "unavailable",
        "refused",
        "deny",
        "override",
        "unhealthy",
    ),
    "failed": ("failed", "lost", "rejected", "evicted", "error", "preempted", "incomplete", "fail"),
    "ended": (
        "released",
        "retired",
        "cancelled",
        "withdrawn",
        "expired",
        "ended",
        "deleting",
        "deleted",
        "absent",
        "revoked",
        "not_leasable",
        "none",
    ),
}
_ROLE_OF: dict[str, Role] = {word: role for role, words in _WORDS.items() for word in words}


def role_of(state: str) -> Role:
    """The colour role of a state's code; an unlisted one is shown as unknown is."""
    return _ROLE_OF.get(state, "warning")


def mark_of(state: str) -> Mark:
    """The mark of a state's code, such as ``cleanup_blocked``."""
    return Mark(role_of(state), state.replace("_", " ") or "unknown")


def mark_of_phase(phase: str, state: str) -> Mark:
    """The mark of a computed phase: its own words, in the colour of the state beneath."""
    code = phase.lower().replace(" ", "_")
    return Mark(_ROLE_OF.get(code) or role_of(state), phase.replace("_", " "))
