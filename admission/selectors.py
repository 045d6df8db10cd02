"""Which decisions and requests ended in which of the five ways?"""

from __future__ import annotations

from typing import Final

from django.db.models import Q

from admission.domain import outcome
from admission.states import RequestState

_VERDICT_OF: Final = {
    RequestState.ADMITTED: "admit",
    RequestState.QUEUED: "wait",
    RequestState.DENIED: "deny",
}


def ended_as(wanted: str, *, field: str, admit: str, wait: str, deny: str) -> Q:
    """The rows that ``outcome_of`` would give this outcome, by the field that tells the verdict."""
    special = outcome.CAPACITY_CODES | outcome.PLACE_CODES
    if wanted == outcome.ADMITTED:
        return Q(**{field: admit})
    if wanted == outcome.FORBIDDEN:
        return Q(**{f"{field}__in": (wait, deny), "code__in": outcome.PLACE_CODES})
    if wanted == outcome.NO_CAPACITY:
        return Q(**{f"{field}__in": (wait, deny), "code__in": outcome.CAPACITY_CODES})
    verdict = wait if wanted == outcome.WAITING_FOR_AUTHORITY else deny
    return Q(**{field: verdict}) & ~Q(code__in=special)


def decisions_ended(wanted: str) -> Q:
    """Decisions of one outcome."""
    return ended_as(wanted, field="verdict", admit="admit", wait="wait", deny="deny")


def requests_standing(wanted: str) -> Q:
    """Requests that stand at one outcome now; what was withdrawn or expired stands at none."""
    return ended_as(
        wanted,
        field="state",
        admit=RequestState.ADMITTED,
        wait=RequestState.QUEUED,
        deny=RequestState.DENIED,
    )


def outcome_standing(state: str, code: str) -> str:
    """The outcome at which a request of this state and code stands, or ``""``."""
    verdict = _VERDICT_OF.get(RequestState(state))
    return outcome.outcome_of(verdict, code) if verdict else ""
