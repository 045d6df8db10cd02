"""What must always be true, and is it?  A registry of questions asked of the database.

An audit is a function that returns its findings; an empty list is a pass. Each app declares
its own in ``audits.py``; the command ``audits`` asks them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Q

from gpuaas.kernel import clock
from gpuaas.kernel.models.events import Delivery
from gpuaas.kernel.models.work import ENDED, WorkflowRun
from gpuaas.kernel.scope import platform_scope

LATE_S = 120
"""A run that is due longer than this has been forgotten by every worker."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be: a permanent code, what it is about, the facts."""

    code: str
    subject: str
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)


MOST = 1000
"""Findings of one kind that are listed; a database that has more has been told enough."""

Audit = Callable[[], list[Finding]]

_audits: dict[str, Audit] = {}


def register(name: str, audit: Audit) -> None:
    """Make an audit known, at import. The name is what ``audits --name`` takes."""
    known = _audits.get(name)
    if known is not None and known is not audit:
        raise ValueError(f"audit {name!r} is declared twice")
    _audits[name] = audit


def registered() -> dict[str, Audit]:
    """Every audit, by name."""
    return dict(sorted(_audits.items()))


def ask(
    code: str, sql: str, *, subject: str, detail: str, params: Mapping[str, Any] | None = None
) -> list[Finding]:
    """One statement, whose rows are the findings: so it sees one moment of the database.

    ``subject`` and ``detail`` are format strings over the statement's columns.
    """
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM ({sql}) AS found LIMIT {MOST}", params)
        names = [column.name for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [Finding(code, subject.format_map(row), detail.format_map(row), row) for row in rows]


def deliveries_set_aside() -> list[Finding]:
    """News that reached its subscriber on no attempt: an operator has to look."""
    with platform_scope():
        rows = Delivery.objects.filter(state="failed").select_related("event").order_by("pk")
        return [
            Finding(
                "delivery_set_aside",
                f"delivery {row.pk}",
                f"{row.subscriber} could not take {row.event.kind}: {row.last_error}",
                {"event": str(row.event.uid), "attempts": row.attempts},
            )
            for row in rows[:MOST]
        ]


def runs_left_alone() -> list[Finding]:
    """Runs that are due for minutes and that no worker looks at, or that nothing will wake."""
    with platform_scope():
        late = clock.db_now() - timedelta(seconds=LATE_S)
        rows = WorkflowRun.objects.exclude(state__in=ENDED).filter(
            Q(due_at__isnull=True) | Q(due_at__lt=late)
        )
        return [
            Finding(
                "run_left_alone",
                f"run {row.pk}",
                f"{row.kind} at {row.step or 'its first step'} is due since {row.due_at}",
                {"state": row.state, "attempt": row.attempt},
            )
            for row in rows.order_by("due_at")[:1000]
        ]


register("deliveries", deliveries_set_aside)
register("runs", runs_left_alone)
