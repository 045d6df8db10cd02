"""How are the slots of a host linked with one another, as placement goes by it?"""

from __future__ import annotations

from dataclasses import dataclass

from placement.domain.links import linked
from placement.models import Node


@dataclass(frozen=True, slots=True)
class SlotLinks:
    """Of one slot: the direct links to each slot of the host, None where that is itself."""

    index: int
    counts: tuple[int | None, ...]


def links_of(node: Node) -> tuple[SlotLinks, ...]:
    """The direct links between any two slots, in order; nothing where they were not read."""
    return tuple(
        SlotLinks(index, tuple(None if k == index else count for k, count in enumerate(row)))
        for index, row in enumerate(linked(node.layout) or ())
    )
