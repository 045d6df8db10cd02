"""What is late, and is it said once?"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.apps import apps

from gpuaas.kernel import clock, events, sweeping
from gpuaas.kernel.actor import system
from gpuaas.kernel.models import Event, Stateful
from runtime_enforcement.domain.overdue import EXPECTED_S, Overdue, overdue
from runtime_enforcement.errors import STATE_OVERDUE

WATCH = system("watch")
KIND = "runtime_enforcement.overdue.found"
BATCH = 200


def _late(noun: str, state: str) -> list[tuple[Stateful, Overdue]]:
    model = apps.get_model(noun)
    now = clock.db_now()
    before = now - timedelta(seconds=EXPECTED_S[noun, state])
    rows = model._default_manager.filter(state=state, state_since__lt=before)
    out = []
    for row in rows.order_by("state_since")[:BATCH]:
        found = overdue(noun, state, row.state_since, now)
        if found is not None:
            out.append((row, found))
    return out


def overdue_list() -> list[tuple[Stateful, Overdue]]:
    """Everything that is late now, the longest waiting of each state first."""
    return [entry for noun, state in EXPECTED_S for entry in _late(noun, state)]


def overdue_sweep() -> int:
    """Record each late thing once per stay in its state; returns how many were new."""
    late: dict[UUID, tuple[Stateful, Overdue]] = {}

    def find(resting: Collection[UUID]) -> list[UUID]:
        late.update({row.pk: (row, found) for row, found in overdue_list()})
        return [pk for pk in late if pk not in set(resting)]

    return sweeping.each("enforcement.overdue", find, lambda pk: _say(*late[pk]))


def _say(row: Stateful, found: Overdue) -> bool:
    """Record one late thing; False where that was said already."""
    if Event.objects.filter(kind=KIND, subject_id=row.pk, at__gte=found.since).exists():
        return False
    events.record(
        kind=KIND,
        subject=row,
        actor=WATCH,
        reason=STATE_OVERDUE.code,
        facts={
            "state": found.state,
            "since": found.since.isoformat(),
            "limit_s": found.limit_s,
            "late_s": found.late_s,
        },
    )
    return True
