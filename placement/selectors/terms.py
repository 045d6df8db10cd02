"""Which terms and weights of placement hold, who set them, and why?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuaas.kernel.models import Event
from placement.domain.lookahead import Lookahead
from placement.domain.terms import Alone, told
from placement.models import PlacementTerms, Scoring

SHOWN = 50


@dataclass(frozen=True, slots=True)
class TermsNow:
    """The terms of one noun as people give them, and who set them last. Version 0: never set."""

    about: str
    version: int
    alone: str
    own: str
    driver_min: str
    driver_below: str
    runtime_min: str
    tenants: list[str]
    set_by: dict[str, Any] | None
    reason: str
    set_at: datetime | None
    versions: list[Event]

    def given(self) -> dict[str, Any]:
        """What the services take."""
        names = ("alone", "own", "driver_min", "driver_below", "runtime_min", "tenants")
        return {name: getattr(self, name) for name in names}


def terms_now(about: str) -> TermsNow:
    """The terms of one noun, such as ``sku:NAME``; without a row they bind nothing."""
    row = PlacementTerms.objects.filter(about=about).first()
    return _now(row or PlacementTerms(about=about, version=0), _events([row] if row else []))


def terms_list() -> list[TermsNow]:
    """All that were ever set, by what they are about, in two statements."""
    rows = list(PlacementTerms.objects.order_by("about"))
    events = _events(rows)
    return [_now(row, events) for row in rows]


def _events(rows: list[PlacementTerms]) -> list[Event]:
    ids = [row.pk for row in rows]
    found = Event.objects.filter(kind="placement.terms.set", subject_id__in=ids).order_by("-id")
    return list(found[: SHOWN * max(len(rows), 1)])


def _now(row: PlacementTerms, events: list[Event]) -> TermsNow:
    mine = [event for event in events if event.subject_id == row.pk]
    last = mine[0] if mine else None
    return TermsNow(
        about=row.about,
        version=row.version,
        alone=Alone(row.alone).name.lower(),
        own=row.own,
        driver_min=told(tuple(row.driver_min)),
        driver_below=told(tuple(row.driver_below)),
        runtime_min=told(tuple(row.runtime_min)),
        tenants=list(row.tenants),
        set_by=last.actor if last else None,
        reason=last.reason if last else "",
        set_at=last.at if last else None,
        versions=mine[:SHOWN],
    )


@dataclass(frozen=True, slots=True)
class Weights:
    """One version of the weights of the placement score, in thousandths. Number 0: never set."""

    number: int
    gap: int
    fragment: int
    stranded: int
    broken: int
    reason: str
    set_by: dict[str, Any] | None
    created_at: datetime | None


def scoring_list() -> list[Weights]:
    """Every version of the weights, that in force first; the product's own where none was set."""
    names = ("number", "gap", "fragment", "stranded", "broken", "reason", "set_by", "created_at")
    rows = [
        Weights(**{name: getattr(row, name) for name in names})
        for row in Scoring.objects.order_by("-number")[:SHOWN]
    ]
    usual = Lookahead()
    product = (usual.gap, usual.fragment, usual.stranded, usual.broken)
    return rows or [Weights(0, *product, "as the product comes", None, None)]
