"""How is the end of a decision shown, and how many ended in each way?"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

from django.db.models import Count

from admission.domain.outcome import (
    ADMITTED,
    DENIED,
    FORBIDDEN,
    NO_CAPACITY,
    OUTCOMES,
    WAITING_FOR_AUTHORITY,
    outcome_of,
)
from admission.models import Decision
from gpuaas.ui.marks import Mark

MARKS: Final[dict[str, Mark]] = {
    ADMITTED: Mark("ok", "admitted"),
    DENIED: Mark("blocked", "denied"),
    WAITING_FOR_AUTHORITY: Mark("waiting", "waiting for authority"),
    FORBIDDEN: Mark("warning", "forbidden by locality or topology"),
    NO_CAPACITY: Mark("info", "no capacity"),
}


def mark_of_outcome(verdict: str, code: str) -> Mark:
    """The mark of a decision's end."""
    return MARKS[outcome_of(verdict, code)]


def outcome_counts(since: datetime) -> list[tuple[str, Mark, int]]:
    """How many decisions since a moment ended in each way, in the order of the classes."""
    counts: Counter[str] = Counter()
    rows = Decision.objects.filter(created_at__gte=since).values_list("verdict", "code")
    for verdict, code, count in rows.annotate(count=Count("pk")):
        counts[outcome_of(verdict, code)] += count
    return [(name, MARKS[name], counts[name]) for name in OUTCOMES]
