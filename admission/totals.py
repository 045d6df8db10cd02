"""How many decisions were there ever, of each kind?  At a cost that does not grow with them.

Those older than ``SETTLED`` are in totals; the few since are counted when somebody asks. What is
removed later stays counted, as a counter has to.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import connection, transaction
from django.db.models import Count, F

from admission.models import Decision, DecisionsCounted, DecisionTotal
from gpuaas.kernel import clock
from gpuaas.kernel.scope import platform_scope

SETTLED: Final = timedelta(minutes=10)
"""Longer than any transaction lives: a decision that commits later would be in no total."""
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
TRIES: Final = 5
STEP, STEPS = timedelta(days=1), 30

Kind = tuple[str, str, str]
"""Action, verdict and reason code."""

_SINCE = """
    SELECT action, verdict, code, count FROM admission_decisiontotal
     UNION ALL
    SELECT r.action, d.verdict, d.code, count(*)
      FROM admission_decision d JOIN admission_admissionrequest r ON r.id = d.request_id
     WHERE d.created_at > %(until)s
     GROUP BY 1, 2, 3
     UNION ALL
    SELECT NULL, NULL, NULL, 1 FROM admission_decisionscounted WHERE until > %(until)s
"""


def decision_totals() -> Counter[Kind]:
    """Every decision there was, counted by kind.

    The moment is read first, so that the database can look at the newest rows only; when
    somebody moved it in between, the answer would count rows twice and is asked for again.
    """
    found: Counter[Kind] = Counter()
    for _ in range(TRIES):
        until = DecisionsCounted.objects.values_list("until", flat=True).first() or BEGINNING
        with connection.cursor() as cursor:
            cursor.execute(_SINCE, {"until": until})
            rows = cursor.fetchall()
        if all(row[0] is not None for row in rows):
            break
    for action, verdict, code, count in rows:
        if action is not None:
            found[action, verdict, code] += count
    return found


def decisions_count_sweep() -> int:
    """Put into the totals what has settled since the last time; returns how many decisions.

    At most ``STEPS`` days of history in one call, each in a transaction of its own, so that a
    long one is caught up with and no statement is as long as it.
    """
    added = 0
    for _ in range(STEPS):
        done, further = _counted_on()
        added += done
        if not further:
            break
    return added


def _counted_on() -> tuple[int, bool]:
    """How many decisions of the next day were counted, and whether there is a day after it."""
    with transaction.atomic(), platform_scope():
        DecisionsCounted.objects.get_or_create(one=True, defaults={"until": BEGINNING})
        counted = DecisionsCounted.objects.select_for_update().get(one=True)
        settled = clock.db_now() - SETTLED
        # Ids rise with time: the oldest is the first by its index.
        first = Decision.objects.order_by("pk").values_list("created_at", flat=True).first()
        if settled <= counted.until or first is None:
            return 0, False
        since = max(counted.until, first - SETTLED)
        until = min(settled, since + STEP)
        rows = Decision.objects.filter(created_at__gt=counted.until, created_at__lte=until)
        kinds = rows.values_list("request__action", "verdict", "code").annotate(n=Count("pk"))
        added = 0
        for action, verdict, code, count in kinds.order_by():
            total, _ = DecisionTotal.objects.get_or_create(
                action=action, verdict=verdict, code=code, defaults={"count": 0}
            )
            DecisionTotal.objects.filter(pk=total.pk).update(count=F("count") + count)
            added += count
        counted.until = until
        counted.save(update_fields=["until"])
    return added, until < settled
