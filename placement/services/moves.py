"""How does a workload leave its old places for its new ones, and which go if fewer are wanted?"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final
from uuid import UUID

from admission.models import Action, AdmissionRequest, Workload
from gpuaas.kernel.actor import Actor
from placement.models import Allocation
from placement.services.allocations import allocations_release
from placement.services.intents import STANDING, last_move, leaving_of
from placement.states import AllocationState, Outcome

FAILED: Final = (Outcome.FAILED, Outcome.EVICTED, Outcome.PREEMPTED, Outcome.EXPIRED)
"""Ends of an allocation that nobody wanted: a move of which a part ends so is given up."""


def standing_newest(row: Workload) -> list[Allocation]:
    """The workload's allocations that stand, the newest first."""
    rows = Allocation.objects.filter(workload=row, state__in=STANDING)
    return list(rows.order_by("-created_at", "-pk"))


def move_under_way(row: Workload, leaving: Collection[UUID]) -> AdmissionRequest | None:
    """The move that takes all of these allocations away already, while its new places stand."""
    taken = {str(pk) for pk in leaving} <= set(leaving_of(row.pk))
    return last_move(row.pk) if taken else None


def surplus(row: Workload, replicas: int) -> list[Allocation]:
    """What goes when only so many are wanted: the newest, of new and of old places alike.

    While a move is under way both stand, and whichever stays has to have the right number.
    """
    last = last_move(row.pk)
    replaced = set(last.spec.get("moves", [])) if last else set()
    old: list[Allocation] = []
    fresh: list[Allocation] = []
    others: list[Allocation] = []
    for allocation in standing_newest(row):
        if str(allocation.pk) in replaced:
            old.append(allocation)
        elif last and allocation.request_id == last.pk:
            fresh.append(allocation)
        else:
            others.append(allocation)
    if not fresh or not old:
        # Fewer may stand than are wanted, where one has ended by itself: those are gone already.
        all_of_them = [*fresh, *others, *old]
        return all_of_them[: max(0, len(all_of_them) - replicas)]
    # A move of some only: what does not move goes first, then as many new places as old ones.
    kept = others[: max(0, len(others) + len(fresh) - replicas)]
    left = len(others) - len(kept)
    return [
        *kept,
        *fresh[: max(0, left + len(fresh) - replicas)],
        *old[: max(0, left + len(old) - replicas)],
    ]


def release_all(rows: Iterable[Allocation], reason: str, actor: Actor) -> None:
    """Release some together: all of them, or none."""
    allocations_release(allocation_ids=[row.pk for row in rows], reason=reason, actor=actor)


def workload_moved(*, request_id: UUID, actor: Actor) -> int:
    """Release what a move has replaced, once every new allocation that stands is active."""
    request = AdmissionRequest.objects.get(pk=request_id)
    if request.action != Action.PLACEMENT:
        return 0
    fresh = Allocation.objects.filter(request=request)
    states = set(fresh.filter(state__in=STANDING).values_list("state", flat=True))
    if states != {AllocationState.ACTIVE} or fresh.filter(outcome__in=FAILED).exists():
        return 0
    old = Allocation.objects.filter(pk__in=request.spec.get("moves", []), state__in=STANDING)
    gone = list(old)
    release_all(gone, "moved", actor)
    return len(gone)


def workload_not_moved(*, request_id: UUID, actor: Actor) -> int:
    """Give up a move of which a new allocation came to nothing: what is old stays, alone."""
    request = AdmissionRequest.objects.get(pk=request_id)
    if request.action != Action.PLACEMENT:
        return 0
    fresh = Allocation.objects.filter(request=request)
    old = Allocation.objects.filter(pk__in=request.spec.get("moves", []), state__in=STANDING)
    if not fresh.filter(outcome__in=FAILED).exists() or not old.exists():
        return 0
    gone = list(fresh.filter(state__in=STANDING))
    release_all(gone, "not moved", actor)
    return len(gone)
