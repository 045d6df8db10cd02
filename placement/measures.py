"""What does placement tell in numbers?  Attempts, phases of leases, lost leases of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gpuaas.kernel import measuring, on_the_spot
from gpuaas.kernel.families import PHASE, WORK, Family, Observation
from gpuaas.kernel.measuring import Told
from placement.models import Allocation, NodeTask
from placement.states import ALLOCATION, TASK, AllocationState, TaskState

PLACED, UNPLACED, LOST = "placed", "unplaced", "lost"
ATTEMPTS: Final = on_the_spot.family(
    Family(
        "gpuaas_placement_attempts",
        "Attempts to give an authorised request a place: placed, unplaced with the reason, or "
        "lost to somebody who was faster and tried again",
        ("shape", "outcome", "reason"),
    )
)
CANDIDATES: Final = on_the_spot.family(
    Family(
        "gpuaas_placement_candidates",
        "Hosts, or GPUs that are sold in parts, that one look for a place chose among: those with "
        "room by the index, before the request's own terms; looks of plans are counted, too",
        ("shape",),
        (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0),
    )
)
RECONCILE: Final = on_the_spot.family(
    Family(
        "gpuaas_reconcile_duration_seconds",
        "How long it took to compare all hosts with what is wanted, and to begin repairs",
        (),
        WORK,
    )
)
PHASES: Final = Family(
    "gpuaas_allocation_phase_seconds",
    "How long allocations were in each phase that is over: waiting (from the request to a place), "
    "each state, and until_active (from the request to being handed over)",
    ("shape", "phase", "sku"),
    PHASE,
)
LEASES_LOST: Final = Family(
    "gpuaas_agent_lease_lost",
    "Leases of node tasks that were taken back: no heartbeat came, or the host restarted",
    ("kind",),
)
WAITING, UNTIL_ACTIVE = "waiting", "until_active"
PLACE = f"{ALLOCATION.noun}.place"


def phases(told: Sequence[Told]) -> Iterator[Observation]:
    """How long allocations were in the phases that these events end."""
    mine = [one for one in told if one.subject_kind == ALLOCATION.noun and one.after]
    rows = Allocation.objects.filter(pk__in={one.subject_id for one in mine})
    made = {
        pk: (shape, sku, asked_at)
        for pk, shape, sku, asked_at in rows.values_list(
            "pk", "shape", "sku__name", "request__created_at"
        )
    }
    for one in mine:
        if one.subject_id not in made:
            continue
        shape, sku, asked_at = made[one.subject_id]
        since_asked_s = (one.at - asked_at).total_seconds()
        if one.kind == PLACE:
            yield Observation(PHASES, (shape, WAITING, sku), since_asked_s)
        if one.since is not None and one.before:
            yield Observation(PHASES, (shape, one.before, sku), one.stayed_s)
        if one.after == AllocationState.ACTIVE:
            yield Observation(PHASES, (shape, UNTIL_ACTIVE, sku), since_asked_s)


def leases_lost(told: Sequence[Told]) -> Iterator[Observation]:
    """Which tasks' leases the platform took back; what a host gave back itself is not lost."""
    mine = [
        one
        for one in told
        if one.subject_kind == TASK.noun
        and one.actor == "system"
        and one.before == TaskState.LEASED
        and one.after in (TaskState.PENDING, TaskState.FAILED)
    ]
    rows = NodeTask.objects.filter(pk__in={one.subject_id for one in mine})
    kinds = {
        pk: (kind, attempt >= most)
        for pk, kind, attempt, most in rows.values_list("pk", "kind", "attempt", "max_attempts")
    }
    for one in mine:
        if one.subject_id not in kinds:
            continue
        kind, last = kinds[one.subject_id]
        # What failed before its last attempt was given up at its deadline, with its lease held.
        if one.after == TaskState.PENDING or last:
            yield Observation(LEASES_LOST, (kind,))


measuring.register("placement.phases", (PHASES,), phases)
measuring.register("placement.leases_lost", (LEASES_LOST,), leases_lost)
