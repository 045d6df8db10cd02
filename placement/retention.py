"""Which of placement's rows are over, and since when?  Their events tell of them for good."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from gpuaas.kernel import retention
from placement.models import (
    AutomaticAction,
    Defragmentation,
    Drift,
    MaintenanceWindow,
    NodeDrain,
    Notice,
)
from placement.states import (
    OPEN_AUTOMATIC,
    OPEN_WINDOW,
    AllocationState,
    DriftState,
)


def _differences(before: datetime) -> QuerySet[Drift]:
    rows = Drift.objects.filter(state=DriftState.CLOSED, closed_at__lt=before)
    return rows.order_by("closed_at")


def _actions(before: datetime) -> QuerySet[AutomaticAction]:
    rows = AutomaticAction.objects.exclude(state__in=OPEN_AUTOMATIC)
    return rows.filter(state_since__lt=before).order_by("state_since")


def _notices(before: datetime) -> QuerySet[Notice]:
    """Those of allocations that have ended: a notice keeps its tenant from being told twice."""
    rows = Notice.objects.filter(created_at__lt=before)
    return rows.filter(
        allocation__state=AllocationState.RELEASED, allocation__released_at__lt=before
    ).order_by("created_at")


def _moves(before: datetime) -> QuerySet[Defragmentation]:
    return Defragmentation.objects.filter(ended_at__lt=before).order_by("ended_at")


def _windows(before: datetime) -> QuerySet[MaintenanceWindow]:
    """Those whose drain has been lifted: the window's row is what lifts it."""
    drains = NodeDrain.objects.filter(ended_at__isnull=True, owner__kind="window")
    owners = [UUID(kept) for kept in drains.values_list("owner__id", flat=True)]
    rows = MaintenanceWindow.objects.exclude(state__in=OPEN_WINDOW).exclude(pk__in=owners)
    return rows.filter(state_since__lt=before, ends_at__lt=before).order_by("ends_at")


def _drains(before: datetime) -> QuerySet[NodeDrain]:
    return NodeDrain.objects.filter(ended_at__lt=before).order_by("ended_at")


retention.register("drift", _differences)
retention.register("automatic_actions", _actions)
retention.register("notices", _notices)
retention.register("defragmentations", _moves)
retention.register("maintenance_windows", _windows)
retention.register("drains", _drains)
