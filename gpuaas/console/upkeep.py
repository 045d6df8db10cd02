"""What does a node's page say of its maintenance and of cards that were replaced?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placement.domain.leaving import DrainPlan, Leaving, in_words
from placement.domain.maintenance import fate
from placement.models import CardReplacement, MaintenanceWindow, Node
from placement.models.maintenance import OPEN
from placement.selectors.occupants import occupants_of
from placement.services.replacements import card_seen
from placement.states import ReplacementState

HISTORY = 8


@dataclass(frozen=True, slots=True)
class Replaced:
    """One replacement, with the card that was discovered in the old one's place."""

    row: CardReplacement
    seen: str


def upkeep_of(node: Node) -> dict[str, Any]:
    """The node's open windows and its replaced cards, as the page shows them."""
    rows = CardReplacement.objects.filter(node=node).order_by("-created_at")[:HISTORY]
    replaced = []
    for row in rows:
        seen = card_seen(row) if row.state == ReplacementState.DECLARED else None
        replaced.append(Replaced(row, seen["gpu_uuid"] if seen else row.new_uuid))
    windows = MaintenanceWindow.objects.filter(OPEN, node=node).order_by("starts_at")
    return {"windows": list(windows), "replaced": replaced}


def fates_in_words(node: Node) -> str:
    """What becomes of what stands on a node if it is drained now, without looking for places."""
    leaving = tuple(
        Leaving(
            one.allocation.pk,
            one.allocation.name,
            one.allocation.tenant.slug,
            one.allocation.sku.name,
            one.allocation.slots,
            fate(one.occupant, one.occupant.ends_at or one.allocation.created_at),
            one.occupant.ends_at,
        )
        for one in occupants_of(node.pk)
    )
    return in_words(DrainPlan(node.name, None, leaving))
