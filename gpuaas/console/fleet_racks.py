"""What does a fleet look like that is too large for a tile a GPU?  Its racks, each by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString, mark_safe

from gpuaas.console.fleet_map import NOWHERE, PLACES, Cell, Shade, address
from gpuaas.console.svg import el
from placement.selectors.fleet import FleetNode


@dataclass(frozen=True, slots=True)
class RackTiles:
    """One rack of a fleet that is too large for a tile a GPU."""

    zone: str
    name: str
    href: str
    words: str
    drawn: SafeString


def place_words(node: FleetNode) -> str:
    """Block and rack of a host."""
    return " / ".join(part for part in (node.block, node.rack) if part) or "no rack given"


def racks_of(
    cells: Iterable[Cell], choice: str, shades: Mapping[str, Shade], params: Mapping[str, str]
) -> list[RackTiles]:
    """A tile for each state of each rack, with how many GPUs are so; the cells in their order."""
    racks: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        racks.setdefault((cell.node.zone, cell.node.block, cell.node.rack), []).append(cell)
    return [_rack(at, inside, choice, shades, params) for at, inside in racks.items()]


def _rack(
    at: tuple[str, str, str],
    cells: list[Cell],
    choice: str,
    shades: Mapping[str, Shade],
    params: Mapping[str, str],
) -> RackTiles:
    counted: Counter[str] = Counter()
    for cell in cells:
        if cell.count:
            counted[cell.keys[choice][0]] += cell.count
    hosts = len({cell.node.name for cell in cells})
    told = [f"{counted[key]} {shades[key].word}" for key in shades if counted[key]]
    drawn = [
        el(
            "i",
            escape(f"{shade.sign} {counted[key]}"),
            cls=shade.cls,
            title=f"{counted[key]} {shade.word}",
        )
        for key, shade in shades.items()
        if counted[key]
    ]
    name = place_words(cells[0].node)
    place = {one: part or NOWHERE for one, part in zip(PLACES, at, strict=True)}
    said = ", ".join(told) or "no GPU known yet"
    many = f"{hosts} host{'' if hosts == 1 else 's'}"
    return RackTiles(
        zone=at[0] or "no zone given",
        name=f"{name} · {many}",
        href=address({**params, **place}),
        words=f"{name}, {many}: {said}",
        drawn=mark_safe("".join(drawn)),
    )
