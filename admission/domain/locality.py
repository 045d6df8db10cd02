"""Where does a request have to run, given the zones it names and where its data lies?

A data set that is required binds the request to the places that hold it; one that is
preferred only orders the choice. Several requirements hold at once: their places are
intersected, kind by kind (zones, racks, nodes); a kind nobody requires binds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Data:
    """A data set as it was declared: names of zones, racks and nodes that hold it."""

    name: str
    version: int
    zones: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    required: bool = True


@dataclass(frozen=True, slots=True)
class Near:
    """Where it has to run; an empty tuple binds nothing."""

    zones: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    @property
    def anywhere(self) -> bool:
        """Whether nothing is bound."""
        return not (self.zones or self.racks or self.nodes)

    def as_json(self) -> dict[str, Any]:
        """What is bound, for the record."""
        parts = {"zones": self.zones, "racks": self.racks, "nodes": self.nodes}
        return {kind: list(names) for kind, names in parts.items() if names}


@dataclass(frozen=True, slots=True)
class Conflict:
    """Requirements that no place satisfies at once: the kind, and who requires what."""

    kind: str
    wants: tuple[tuple[str, tuple[str, ...]], ...]


def near(zones: Sequence[str], data: Sequence[Data]) -> Near | Conflict:
    """Where a request with these zones and data sets has to run, or why nowhere."""
    bound: dict[str, tuple[str, ...]] = {}
    for kind in ("zones", "racks", "nodes"):
        wants = [("the request", tuple(zones))] if kind == "zones" and zones else []
        wants += [(d.name, getattr(d, kind)) for d in data if d.required and getattr(d, kind)]
        if not wants:
            bound[kind] = ()
            continue
        common = set(wants[0][1])
        for _, names in wants[1:]:
            common &= set(names)
        if not common:
            return Conflict(kind, tuple(wants))
        bound[kind] = tuple(sorted(common))
    return Near(**bound)


def preferred(data: Sequence[Data]) -> Near:
    """Where it would rather run: the places of the data sets that are only preferred."""
    out: dict[str, tuple[str, ...]] = {}
    for kind in ("zones", "racks", "nodes"):
        names = {name for d in data if not d.required for name in getattr(d, kind)}
        out[kind] = tuple(sorted(names))
    return Near(**out)
