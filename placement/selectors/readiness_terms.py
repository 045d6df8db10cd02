"""What is required of the hosts of each family, who set it, and why?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpuaas.kernel.errors import NotFound
from gpuaas.kernel.models import Event
from placement.domain.readiness import CAPABILITIES, CHECKS, DEFAULT
from placement.domain.terms import told
from placement.models import NodeFamily, ReadinessTerms

SHOWN: Final = 50
KINDS: Final = ("placement.readinessterms.set", "placement.readinessterms.remove")
EVERY: Final = "any"
"""The name under which people speak of every family that has no terms of its own."""


@dataclass(frozen=True, slots=True)
class Need:
    """One check that a shape needs. ``valid_s``: seconds for which it is good; None: no end."""

    capability: str
    check: str
    valid_s: int | None


@dataclass(frozen=True, slots=True)
class FamilyTerms:
    """The terms of one family as people give them. Version 0: not set; they are another's."""

    family: str
    version: int
    required: list[Need]
    driver_min: str
    firmware_min: str
    auto_promote: bool
    set_by: dict[str, Any] | None
    reason: str
    set_at: datetime | None
    versions: list[Event]


def told_terms(row: ReadinessTerms | None) -> dict[str, Any]:
    """A row's terms in one flat table of words; without a row the product's."""
    table: dict[str, Any] = {}
    for need in needs_of(row):
        end = "no end" if need.valid_s is None else f"{need.valid_s} s"
        table[f"{need.capability} {need.check}"] = end
    for capability in CAPABILITIES:
        for check in CHECKS:
            table.setdefault(f"{capability} {check}", "not needed")
    table["driver_min"] = told(tuple(row.driver_min)) if row else ""
    table["firmware_min"] = row.firmware_min if row else ""
    table["auto_promote"] = bool(row and row.auto_promote)
    return dict(sorted(table.items()))


def needs_of(row: ReadinessTerms | None) -> list[Need]:
    """The checks that a row asks for; without a row those that the product asks for."""
    if row is None:
        return [
            Need(capability, need.check, need.valid_s)
            for capability, required in DEFAULT.items()
            for need in required
            if need.check != "burn_in"
        ]
    return [
        Need(capability, check, valid_s)
        for capability in CAPABILITIES
        for check, valid_s in sorted(row.required.get(capability, {}).items())
    ]


def readiness_terms_now(family: str) -> FamilyTerms:
    """The terms of one family, or of every other one. Raises NotFound for a family of no name.

    A family without own terms is shown with those that it has from the others.
    """
    if family != EVERY and not NodeFamily.objects.filter(name=family).exists():
        raise NotFound
    row = ReadinessTerms.objects.filter(
        **({"family__isnull": True} if family == EVERY else {"family__name": family})
    ).first()
    return _now(family, row, _holds(row) or _every(), _events([row] if row else []))


def readiness_terms_list() -> list[FamilyTerms]:
    """What holds for every family without own terms, and for each family, in three statements."""
    rows = list(ReadinessTerms.objects.select_related("family"))
    by_name = {row.family.name if row.family else EVERY: row for row in rows}
    every = _holds(by_name.get(EVERY))
    names = [EVERY, *NodeFamily.objects.order_by("name").values_list("name", flat=True)]
    events = _events(rows)
    return [
        _now(name, by_name.get(name), _holds(by_name.get(name)) or every, events) for name in names
    ]


def _holds(row: ReadinessTerms | None) -> ReadinessTerms | None:
    return None if row is None or row.removed else row


def _every() -> ReadinessTerms | None:
    return ReadinessTerms.objects.filter(family__isnull=True, removed=False).first()


def _events(rows: list[ReadinessTerms]) -> list[Event]:
    ids = [row.pk for row in rows]
    found = Event.objects.filter(kind__in=KINDS, subject_id__in=ids)
    return list(found.order_by("-id")[: SHOWN * max(len(rows), 1)])


def _now(
    family: str,
    row: ReadinessTerms | None,
    holds: ReadinessTerms | None,
    events: list[Event],
) -> FamilyTerms:
    mine = [event for event in events if row is not None and event.subject_id == row.pk]
    last = mine[0] if mine else None
    return FamilyTerms(
        family=family,
        version=row.version if row and not row.removed else 0,
        required=needs_of(holds),
        driver_min=told(tuple(holds.driver_min)) if holds else "",
        firmware_min=holds.firmware_min if holds else "",
        auto_promote=bool(holds and holds.auto_promote),
        set_by=last.actor if last else None,
        reason=last.reason if last else "",
        set_at=last.at if last else None,
        versions=mine[:SHOWN],
    )
