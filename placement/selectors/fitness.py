"""What is known of a host's fitness and required of it, as the rules read it?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from placement.domain.readiness import DEFAULT, Item, Requirement, Terms
from placement.domain.seen import firmware_in
from placement.models import Node, ReadinessEvidence, ReadinessTerms


@dataclass(frozen=True, slots=True)
class InForce:
    """What is required of a node, and whether it is promoted without being asked."""

    terms: Terms
    auto: bool
    version: int
    """0: nobody has set terms, or they were removed."""


def terms_of(node: Node) -> InForce:
    """The family's own terms, else those of every family, else the product's."""
    rows = {
        row.family_id: row
        for row in ReadinessTerms.objects.filter(family__isnull=True, removed=False)
        | ReadinessTerms.objects.filter(family=node.family_id, removed=False)
    }
    row = rows.get(node.family_id) or rows.get(None)
    return as_terms(row)


def as_terms(row: ReadinessTerms | None) -> InForce:
    """A row of terms as the rules read it; without one the product's."""
    if row is None:
        return InForce(DEFAULT, False, 0)
    at_least = {"driver": tuple(row.driver_min), "firmware": firmware_in(row.firmware_min)}
    terms = {
        capability: tuple(
            Requirement(
                check,
                valid_s,
                at_least=at_least.get(check, ()),
                unless_failed=check == "runtime",
            )
            for check, valid_s in required.items()
        )
        # A burn-in that failed counts also where nobody asks for one.
        + ((Requirement("burn_in", unless_failed=True),) if "burn_in" not in required else ())
        for capability, required in row.required.items()
    }
    return InForce(terms, row.auto_promote, row.version)


def items_of(rows: Iterable[ReadinessEvidence]) -> list[Item]:
    """Rows of evidence as the rules read them."""
    return [
        Item(
            check=row.check_name,
            verdict=row.verdict,
            observed_at=row.observed_at,
            source=row.source,
            device=row.device,
            reason=row.reason,
            version=tuple(row.version),
            expires_at=row.expires_at,
            facts=row.facts,
        )
        for row in rows
    ]
