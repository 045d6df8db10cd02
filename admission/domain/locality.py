"""Where does a request have to run, given the zones it names and where its data lies?

A data set that is required binds the request to the places that hold it; one that is
preferred only orders the choice. Several requirements hold at once: their places are
intersected, kind by kind (zones, racks, nodes); a kind nobody requires binds nothing.

Storage is reached from zones. A data set that names storage lies in every zone from which one
of its storages is reached; a request that needs a kind of storage runs in a zone from which one
of that kind is reached. Storage without zones is reached from everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

WEIGHED: Final = 3
"""Of so many preferred data sets every combination is tried: seven at most."""


@dataclass(frozen=True, slots=True)
class Data:
    """A data set as it was declared: names of zones, racks and nodes that hold it."""

    name: str
    version: int
    zones: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    required: bool = True
    storage: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """A storage system as the platform's operator declared it; no zones: reached from all."""

    name: str
    kind: str
    version: int
    zones: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Wish:
    """A place where it would rather run, and the preferred data sets that lie there."""

    names: tuple[str, ...]
    near: Near


def reach(stores: Sequence[Store]) -> tuple[str, ...] | None:
    """The zones from which one of these is reached; None: from everywhere."""
    if any(not store.zones for store in stores):
        return None
    return tuple(sorted({zone for store in stores for zone in store.zones}))


def _holding(data: Data, stores: Sequence[Store]) -> list[Store]:
    return [store for store in stores if store.name in data.storage]


def _on_storage(data: Data) -> str:
    return f"{data.name} on {', '.join(data.storage)}"


def missing_storage(
    kinds: Sequence[str], data: Sequence[Data], stores: Sequence[Store]
) -> tuple[str, ...]:
    """What of the storage that is needed nobody offers: kinds, and storage of required data."""
    offered = {store.kind for store in stores}
    gone = [kind for kind in kinds if kind not in offered]
    must = [d for d in data if d.required and d.storage]
    return (*gone, *(_on_storage(d) for d in must if not _holding(d, stores)))


def _wants(
    zones: Sequence[str], data: Sequence[Data], kinds: Sequence[str], stores: Sequence[Store]
) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Who requires which zones, racks and nodes."""
    must = [d for d in data if d.required]
    wants = {
        kind: [(d.name, getattr(d, kind)) for d in must if getattr(d, kind)]
        for kind in ("zones", "racks", "nodes")
    }
    if zones:
        wants["zones"].insert(0, ("the request", tuple(zones)))
    needed = [(_on_storage(d), _holding(d, stores)) for d in must if d.storage]
    needed += [(f"{k} storage", [s for s in stores if s.kind == k]) for k in kinds]
    for who, offered in needed:
        reached = reach(offered)
        if reached is not None:
            wants["zones"].append((who, reached))
    return wants


def near(
    zones: Sequence[str],
    data: Sequence[Data],
    kinds: Sequence[str] = (),
    stores: Sequence[Store] = (),
) -> Near | Conflict:
    """Where a request with these zones, data sets and kinds of storage has to run, or why nowhere.

    ``stores`` are those that are offered now.
    """
    bound: dict[str, tuple[str, ...]] = {}
    for kind, wants in _wants(zones, data, kinds, stores).items():
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


def in_order(data: Sequence[Data], names: Sequence[str]) -> tuple[Data, ...]:
    """The data sets in the order in which the request names them."""
    at = {name: index for index, name in reversed(list(enumerate(names)))}
    return tuple(sorted(data, key=lambda d: at.get(d.name, len(at))))


def _ladder(rather: Sequence[Data]) -> list[list[Data]]:
    """Sets of preferred data that one may be near at once, the best first."""
    if len(rather) > WEIGHED:
        return [list(rather), *([d] for d in rather)]
    marks = product((True, False), repeat=len(rather))
    return [[d for d, on in zip(rather, row, strict=True) if on] for row in marks if any(row)]


def wishes(
    zones: Sequence[str],
    data: Sequence[Data],
    kinds: Sequence[str] = (),
    stores: Sequence[Store] = (),
) -> tuple[Wish, ...]:
    """Where it would rather run, of where it may, the best first.

    The order in which the request names its data sets is the order of preference: near more
    of the earlier ones goes before near any number of later ones. Of more than ``WEIGHED``
    preferred data sets it is near all of them, then near each. A data set that is nowhere
    within reach is passed over.
    """
    rather = [d for d in data if not d.required]
    must = [d for d in data if d.required]
    plain = near(zones, must, kinds, stores)
    out: list[Wish] = []
    for chosen in _ladder(rather):
        place = near(zones, [*must, *(replace(d, required=True) for d in chosen)], kinds, stores)
        if isinstance(place, Near) and place != plain:
            out.append(Wish(tuple(d.name for d in chosen), place))
    return tuple(out)
