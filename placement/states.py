"""Which moves exist for inventory, claims, allocations and node tasks?"""

from __future__ import annotations

from django.db.models import TextChoices

from gpuaas.kernel.lifecycle import Edge, Lifecycle


class AllocationState(TextChoices):
    """Where an allocation stands."""

    PLACED = "placed"
    PROVISIONING = "provisioning"
    ACTIVE = "active"
    PREEMPTING = "preempting"
    RELEASING = "releasing"
    CLEANUP_BLOCKED = "cleanup_blocked"
    RELEASED = "released"


class Outcome(TextChoices):
    """How an allocation came to its end; kept beside the state."""

    ENDED = "ended"
    CANCELLED = "cancelled"
    FAILED = "failed"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    EXPIRED = "expired"


class ClaimState(TextChoices):
    """Where a hold of a physical thing stands; all but released are live."""

    RESERVED = "reserved"
    ACTIVE = "active"
    RELEASING = "releasing"
    CLEANUP_BLOCKED = "cleanup_blocked"
    RELEASED = "released"


class SlotState(TextChoices):
    """Where a slot stands on its way to being sold."""

    CANDIDATE = "candidate"
    VERIFIED = "verified"
    APPROVED = "approved"
    BLOCKED = "blocked"
    RETIRED = "retired"


class ResidueState(TextChoices):
    """Where traces of an earlier tenant on one slot stand; only what was found blocks."""

    FOUND = "found"
    OVERRIDDEN = "overridden"
    GONE = "gone"


class CapabilityState(TextChoices):
    """Whether a host may be sold in one shape; suspended: its evidence does not hold now."""

    CANDIDATE = "candidate"
    PROMOTED = "promoted"
    SUSPENDED = "suspended"
    DEMOTED = "demoted"


class NodeState(TextChoices):
    """Where a host stands."""

    ENROLLING = "enrolling"
    INSPECTING = "inspecting"
    VERIFYING = "verifying"
    READY = "ready"
    MAINTENANCE = "maintenance"
    QUARANTINED = "quarantined"
    RETIRED = "retired"


class TaskState(TextChoices):
    """Where a node task stands."""

    PENDING = "pending"
    LEASED = "leased"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AutomaticState(TextChoices):
    """Where something that automation does, or wants to do, to a node stands."""

    HELD = "held"
    ALLOWED = "allowed"
    TAKEN = "taken"
    REJECTED = "rejected"
    LAPSED = "lapsed"


class DriftState(TextChoices):
    """Where a difference between what is wanted and what is seen stands."""

    SEEN = "seen"
    OPEN = "open"
    ESCALATED = "escalated"
    ACCEPTED = "accepted"
    CLOSED = "closed"


class WindowState(TextChoices):
    """Where a window of maintenance of one node stands."""

    PLANNED = "planned"
    ANNOUNCED = "announced"
    ACTIVE = "active"
    ENDED = "ended"
    CANCELLED = "cancelled"


class ReplacementState(TextChoices):
    """Where the replacement of a card stands."""

    DECLARED = "declared"
    APPROVED = "approved"
    CANCELLED = "cancelled"


A, C, S, N, K = AllocationState, ClaimState, SlotState, NodeState, TaskState
R, U, D, W = ResidueState, AutomaticState, DriftState, WindowState

LIVE_CLAIM = (C.RESERVED, C.ACTIVE, C.RELEASING, C.CLEANUP_BLOCKED)
OPEN_RESIDUE = (R.FOUND, R.OVERRIDDEN)
OPEN_WINDOW = (W.PLANNED, W.ANNOUNCED, W.ACTIVE)
OPEN_AUTOMATIC = (U.HELD, U.ALLOWED, U.REJECTED)
STANDING_DRIFT = (D.OPEN, D.ESCALATED)
LIVE = [str(state) for state in LIVE_CLAIM]
"""The live states as the database has them."""

ALLOCATION = Lifecycle(
    "placement.allocation",
    AllocationState,
    initial=A.PLACED,
    edges=(
        Edge("provision", (A.PLACED,), A.PROVISIONING, "platform"),
        Edge("activate", (A.PROVISIONING,), A.ACTIVE, "node"),
        Edge("preempt", (A.ACTIVE,), A.PREEMPTING, "platform"),
        Edge("release", (A.PLACED, A.PROVISIONING, A.ACTIVE, A.PREEMPTING), A.RELEASING, "tenant"),
        Edge("block", (A.RELEASING,), A.CLEANUP_BLOCKED, "node"),
        Edge("finish", (A.RELEASING, A.CLEANUP_BLOCKED), A.RELEASED, "node"),
    ),
    final=(A.RELEASED,),
)

CLAIM = Lifecycle(
    "placement.claim",
    ClaimState,
    initial=C.RESERVED,
    edges=(
        Edge("activate", (C.RESERVED,), C.ACTIVE, "node"),
        Edge("release", (C.RESERVED, C.ACTIVE), C.RELEASING, "platform"),
        Edge("block", (C.RELEASING,), C.CLEANUP_BLOCKED, "node"),
        Edge("finish", (C.RELEASING, C.CLEANUP_BLOCKED), C.RELEASED, "node"),
    ),
    final=(C.RELEASED,),
)

SLOT = Lifecycle(
    "placement.slot",
    SlotState,
    initial=S.CANDIDATE,
    edges=(
        Edge("verify", (S.CANDIDATE,), S.VERIFIED, "platform"),
        Edge("approve", (S.VERIFIED,), S.APPROVED, "operator"),
        Edge("block", (S.CANDIDATE, S.VERIFIED, S.APPROVED), S.BLOCKED, "platform"),
        Edge("unblock", (S.BLOCKED,), S.VERIFIED, "operator"),
        Edge("retire", (S.CANDIDATE, S.VERIFIED, S.APPROVED, S.BLOCKED), S.RETIRED, "operator"),
    ),
    final=(S.RETIRED,),
)

RESIDUE = Lifecycle(
    "placement.slotresidue",
    ResidueState,
    initial=R.FOUND,
    edges=(
        Edge("override", (R.FOUND,), R.OVERRIDDEN, "operator"),
        Edge("prove", (R.FOUND, R.OVERRIDDEN), R.GONE, "node"),
    ),
    final=(R.GONE,),
)

CAPABILITY = Lifecycle(
    "placement.nodecapability",
    CapabilityState,
    initial=CapabilityState.CANDIDATE,
    edges=(
        Edge(
            "promote",
            (CapabilityState.CANDIDATE, CapabilityState.DEMOTED),
            CapabilityState.PROMOTED,
            "operator",
        ),
        Edge("suspend", (CapabilityState.PROMOTED,), CapabilityState.SUSPENDED, "platform"),
        Edge("resume", (CapabilityState.SUSPENDED,), CapabilityState.PROMOTED, "platform"),
        Edge(
            "demote",
            (CapabilityState.CANDIDATE, CapabilityState.PROMOTED, CapabilityState.SUSPENDED),
            CapabilityState.DEMOTED,
            "operator",
        ),
    ),
)

NODE = Lifecycle(
    "placement.node",
    NodeState,
    initial=N.ENROLLING,
    edges=(
        Edge("inspect", (N.ENROLLING, N.VERIFYING), N.INSPECTING, "node"),
        Edge("verify", (N.INSPECTING,), N.VERIFYING, "node"),
        Edge("approve", (N.VERIFYING,), N.READY, "operator"),
        Edge("maintain", (N.READY,), N.MAINTENANCE, "operator"),
        Edge(
            "quarantine",
            (N.INSPECTING, N.VERIFYING, N.READY, N.MAINTENANCE),
            N.QUARANTINED,
            "operator",
        ),
        Edge("restore", (N.MAINTENANCE, N.QUARANTINED), N.READY, "operator"),
        # Before its first approval a host goes back to where it was.
        Edge("restore_verifying", (N.QUARANTINED,), N.VERIFYING, "operator"),
        Edge("restore_inspecting", (N.QUARANTINED,), N.INSPECTING, "operator"),
        Edge(
            "retire",
            (N.ENROLLING, N.INSPECTING, N.VERIFYING, N.READY, N.MAINTENANCE, N.QUARANTINED),
            N.RETIRED,
            "operator",
        ),
    ),
    final=(N.RETIRED,),
)

TASK = Lifecycle(
    "placement.nodetask",
    TaskState,
    initial=K.PENDING,
    edges=(
        Edge("lease", (K.PENDING,), K.LEASED, "node"),
        Edge("lose", (K.LEASED,), K.PENDING, "platform"),
        Edge("succeed", (K.LEASED,), K.SUCCEEDED, "node"),
        Edge("fail", (K.PENDING, K.LEASED), K.FAILED, "node"),
        Edge("cancel", (K.PENDING, K.LEASED), K.CANCELLED, "platform"),
    ),
    final=(K.SUCCEEDED, K.FAILED, K.CANCELLED),
)

AUTOMATIC = Lifecycle(
    "placement.automaticaction",
    AutomaticState,
    initial=U.HELD,
    edges=(
        Edge("take", (U.HELD, U.ALLOWED), U.TAKEN, "platform"),
        Edge("allow", (U.HELD, U.REJECTED), U.ALLOWED, "operator"),
        Edge("reject", (U.HELD, U.ALLOWED), U.REJECTED, "operator"),
        Edge("lapse", (U.HELD, U.ALLOWED, U.REJECTED), U.LAPSED, "platform"),
    ),
    final=(U.TAKEN, U.LAPSED),
)

DRIFT = Lifecycle(
    "placement.drift",
    DriftState,
    initial=D.SEEN,
    edges=(
        Edge("count", (D.SEEN,), D.OPEN, "platform"),
        Edge("escalate", (D.OPEN,), D.ESCALATED, "platform"),
        Edge("accept", (D.OPEN, D.ESCALATED), D.ACCEPTED, "operator"),
        Edge("ask", (D.ESCALATED,), D.OPEN, "operator"),
        Edge("close", (D.OPEN, D.ESCALATED, D.ACCEPTED), D.CLOSED, "platform"),
    ),
    final=(D.CLOSED,),
)

WINDOW = Lifecycle(
    "placement.maintenancewindow",
    WindowState,
    initial=W.PLANNED,
    edges=(
        Edge("announce", (W.PLANNED,), W.ANNOUNCED, "operator"),
        Edge("start", (W.ANNOUNCED,), W.ACTIVE, "platform"),
        Edge("end", (W.ACTIVE,), W.ENDED, "platform"),
        Edge("cancel", (W.PLANNED, W.ANNOUNCED, W.ACTIVE), W.CANCELLED, "operator"),
    ),
    final=(W.ENDED, W.CANCELLED),
)

REPLACEMENT = Lifecycle(
    "placement.cardreplacement",
    ReplacementState,
    initial=ReplacementState.DECLARED,
    edges=(
        Edge("approve", (ReplacementState.DECLARED,), ReplacementState.APPROVED, "operator"),
        Edge("cancel", (ReplacementState.DECLARED,), ReplacementState.CANCELLED, "operator"),
    ),
    final=(ReplacementState.APPROVED, ReplacementState.CANCELLED),
)
