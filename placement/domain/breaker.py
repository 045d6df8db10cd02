"""How many nodes of a pool may automation act upon before a person has to look?  Pure.

One wrong rule, one bad sensor, one broken report must not take a pool away. Within a window only a
share of the pool's nodes may be acted upon, and one node at least; what goes beyond is held.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Limits:
    """At most ``percent`` of the nodes, but ``floor`` of them at least, in ``window_s`` seconds."""

    percent: int = 10
    floor: int = 1
    window_s: int = 3600

    def nodes(self, total: int) -> int:
        """How many of ``total`` nodes that is; a share is rounded down."""
        return max(self.floor, total * self.percent // 100)


@dataclass(frozen=True, slots=True)
class Ruling:
    """Whether one more action may happen, and the numbers that say so."""

    allowed: bool
    acted: int
    most: int
    total: int

    def as_json(self) -> dict[str, int]:
        """The numbers, for the record."""
        return {"acted": self.acted, "most": self.most, "nodes": self.total}


def ruling(node: UUID, acted: Iterable[UUID], *, total: int, limits: Limits) -> Ruling:
    """Whether automation may act upon ``node``, having acted upon ``acted`` in the window.

    A node that was acted upon already costs nothing more: it is as much in question as before.
    """
    touched = frozenset(acted)
    most = limits.nodes(total)
    return Ruling(node in touched or len(touched) < most, len(touched), most, total)
