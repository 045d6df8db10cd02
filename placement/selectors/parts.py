"""Which parts of a host's cut slots are held, by whom, and what is free beside them?"""

from __future__ import annotations

from dataclasses import dataclass

from placement.domain.parts import Spans, label_of, spans_within
from placement.models import Claim, CutSlot, Node
from placement.states import LIVE


@dataclass(frozen=True, slots=True)
class HeldPart:
    """One held part: its kind, its name for people, its spans in thousandths of the GPU."""

    slot_index: int
    kind: str
    label: str
    spans: Spans
    claim: Claim


def held_parts(node: Node) -> dict[int, list[HeldPart]]:
    """The held parts of each cut slot of a host, from the first milli on."""
    rows = Claim.objects.select_related("tenant", "allocation").filter(
        node_num=node.num, state__in=LIVE, part__isnull=False
    )
    found: dict[int, list[HeldPart]] = {}
    for claim in rows:
        assert claim.part is not None  # by the filter
        spans = spans_within(claim.span, claim.slot_index)
        part = HeldPart(claim.slot_index, claim.part["kind"], label_of(claim.part), spans, claim)
        found.setdefault(claim.slot_index, []).append(part)
    return {index: sorted(parts, key=lambda part: part.spans) for index, parts in found.items()}


def free_milli(node: Node) -> dict[int, int]:
    """What is in no part, of each cut slot of a host."""
    rows = CutSlot.objects.filter(node=node).values_list("slot_index", "free_milli")
    return dict(rows)
