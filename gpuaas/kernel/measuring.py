"""What do events tell in numbers?  Each sealed event is taken once, behind whoever wrote it.

Nothing is written for a measure where something happens: a tick reads the seals on from where it
was, in the one order that they have, and adds to the totals in the same transaction in which it
says how far it came. So each event is counted exactly once, whatever dies, and what nobody can
overtake any more is what is read. The totals are as many rows as there are series.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.apps import apps
from django.db import connection, transaction

from gpuaas.kernel import clock, lifecycle, seals
from gpuaas.kernel.families import Family, Key, Observation, Series, folded
from gpuaas.kernel.models import MeasuresRead, MeasureTotal
from gpuaas.kernel.scope import platform_scope

log = logging.getLogger(__name__)

BATCH: Final = 2000
BATCHES: Final = 20
"""How many batches one turn takes at most: after an outage the next turns go on."""


@dataclass(frozen=True, slots=True)
class Told:
    """What measures see of an event. ``before`` and ``after`` are states, empty without a move.

    ``since`` is when the subject came into ``before``; ``first`` says that it was made in it.
    ``of`` is the kind of the run, where the event is about one.
    """

    at: datetime
    kind: str
    subject_kind: str
    subject_id: UUID | None
    reason: str
    actor: str
    of: str
    before: str
    after: str
    since: datetime | None
    first: bool = False

    @property
    def stayed_s(self) -> float:
        """Seconds in the state that was left."""
        return (self.at - self.since).total_seconds() if self.since is not None else 0.0


Take = Callable[[Sequence[Told]], Iterable[Observation]]

_takes: dict[str, Take] = {}
_families: dict[str, Family] = {}

_NEXT: Final = """
SELECT s.id, e.at, e.kind, e.subject_kind, e.subject_id, e.reason,
       coalesce(e.actor ->> 'kind', ''), coalesce(e.facts ->> 'kind', ''),
       coalesce(e.before ->> 'state', ''), coalesce(e.after ->> 'state', ''), came.at
  FROM (SELECT id, event_id FROM kernel_eventseal WHERE id > %s ORDER BY id LIMIT %s) s
  JOIN kernel_event e ON e.id = s.event_id
  LEFT JOIN LATERAL (
       SELECT p.at FROM kernel_event p
        WHERE p.subject_id = e.subject_id AND p.id < e.id
          AND p.subject_kind = e.subject_kind AND p.after ->> 'state' = e.before ->> 'state'
        ORDER BY p.id DESC LIMIT 1) came ON e.before ->> 'state' IS NOT NULL
 ORDER BY s.id
"""
# Sorted, so that nobody waits for another in a circle, were there ever two.
_ADD: Final = """
INSERT INTO kernel_measuretotal AS t (name, labels, count, sum_us, classes)
SELECT x.name, x.labels, x.count, x.sum_us, x.classes
  FROM jsonb_to_recordset(%s::jsonb)
       AS x(name text, labels text[], count bigint, sum_us bigint, classes bigint[])
 ORDER BY x.name, x.labels
    ON CONFLICT (name, labels) DO UPDATE
   SET count = t.count + excluded.count, sum_us = t.sum_us + excluded.sum_us,
       classes = ARRAY(SELECT coalesce(u.a, 0) + coalesce(u.b, 0)
                         FROM unnest(t.classes, excluded.classes) WITH ORDINALITY AS u(a, b, n)
                        ORDER BY u.n)
"""


def register(name: str, families: Sequence[Family], take: Take) -> None:
    """Make it known, at import, what somebody takes from events. ``take`` sees each event once,
    in a transaction in which it may read, and is not to write."""
    _takes[name] = take
    _families.update((family.name, family) for family in families)


def registered() -> list[Family]:
    """Every family that is taken from events, by name."""
    return [_families[name] for name in sorted(_families)]


def measures_sweep() -> int:
    """Read on, and add what was told to the totals; returns how many events were taken.

    Where somebody else reads on at the moment, nothing is done.
    """
    taken = 0
    for _ in range(BATCHES):
        here = _batch()
        taken += here
        if here < BATCH:
            break
    return taken


def totals(of: Family | None = None) -> dict[Key, Series]:
    """What was counted of each series, or of a family's: one look, as long as there are series."""
    kept = MeasureTotal.objects.all() if of is None else MeasureTotal.objects.filter(name=of.name)
    rows = kept.values_list("name", "labels", "count", "sum_us", "classes")
    return {
        (name, tuple(labels)): Series(count, sum_us, list(classes))
        for name, labels, count, sum_us, classes in rows
    }


def read_until() -> datetime | None:
    """Up to when events are in the totals; None before the first look."""
    return MeasuresRead.objects.values_list("at", flat=True).first()


@transaction.atomic
def _batch() -> int:
    with platform_scope():
        now = clock.db_now()
        MeasuresRead.objects.get_or_create(one=True, defaults={"at": now})
        here = MeasuresRead.objects.select_for_update(skip_locked=True).filter(one=True).first()
        if here is None:
            return 0
        with connection.cursor() as cursor:
            cursor.execute(_NEXT, [here.seal, BATCH])
            rows = cursor.fetchall()
        if rows:
            add(_observed(_dated([Told(*row[1:]) for row in rows])))
            here.seal = rows[-1][0]
        # All that is sealed is in: what is missing is what is not, if there is anything.
        here.at = rows[-1][1] if len(rows) == BATCH else seals.waiting_since() or now
        here.save(update_fields=["seal", "at"])
    return len(rows)


def _observed(told: Sequence[Told]) -> list[Observation]:
    """What everybody takes from these. Who breaks takes nothing, and stops nobody."""
    found: list[Observation] = []
    for name, take in sorted(_takes.items()):
        try:
            with transaction.atomic():
                # As a list: who breaks halfway has taken nothing.
                found += list(take(told))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            log.exception("%s can take nothing from %d events", name, len(told))
    return found


def _dated(told: Sequence[Told]) -> list[Told]:
    """With the time of creation, where a subject left the state in which it was made."""
    tables = lifecycle.registered()
    missing: dict[str, set[UUID]] = defaultdict(set)
    for one in told:
        if _was_made_in(one, tables) and one.subject_id is not None:
            missing[one.subject_kind].add(one.subject_id)
    made = {
        (noun, pk): at
        for noun, pks in sorted(missing.items())
        for pk, at in apps.get_model(noun)
        ._default_manager.filter(pk__in=pks)
        .values_list("pk", "created_at")
    }
    return [
        replace(one, since=made.get((one.subject_kind, one.subject_id)), first=True)
        if _was_made_in(one, tables)
        else one
        for one in told
    ]


def _was_made_in(one: Told, tables: dict[str, lifecycle.Lifecycle]) -> bool:
    table = tables.get(one.subject_kind)
    return one.since is None and table is not None and one.before == table.initial


def add(observations: Iterable[Observation]) -> None:
    """Add these to the totals, in the caller's transaction."""
    found = folded(observations)
    if not found:
        return
    parts = [
        {
            "name": name,
            "labels": list(labels),
            "count": series.count,
            "sum_us": series.sum_us,
            "classes": series.classes,
        }
        for (name, labels), series in found.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_ADD, [json.dumps(parts)])
