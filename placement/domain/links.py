"""Which slots of a host are linked directly, by how many links, and what is a set worth by that?

A layout (placement.domain.wiring) has the links as a slot's fifth part: a digit of base 36 for
each slot before it, 0 where there is no link; ``z`` is 35 and more. Where any two slots of one
domain have the same number, that is written once, as ``*`` and the digit with the first slot.
Where no slot has a fifth part the links were not read: nothing speaks for or against any set.

Links through NVSwitches join any two GPUs of a domain, as wide as the narrower one's share. Only
a set's own GPUs count as a way between two of them: others may be another tenant's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, Final

from placement.domain.wiring import groups

DIRECT, HOP, PCIE = range(3)
"""Any two GPUs have a direct link; NVLink leads over GPUs of the set; some have PCIe only."""
REACHES: Final = ("direct", "hop", "pcie")
DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
EVEN: Final = "*"
MOST: Final = len(DIGITS) - 1
_REMEMBERED: Final = "remembered"
_PARTS: Final = 4

Links = tuple[tuple[int, ...], ...]


def with_links(layout: str, links: Mapping[tuple[int, int], int] | None) -> str:
    """The layout with these links, by pairs of slots (the lower one first); None: not read."""
    parts = [_bare(part) for part in layout.split("|")] if layout else []
    if links is None or not parts:
        return "|".join(parts)
    even = _even("|".join(parts), links)
    if even is not None:
        return "|".join([f"{parts[0]}.{EVEN}{DIGITS[even]}", *parts[1:]])
    return "|".join(
        f"{part}." + "".join(DIGITS[min(links.get((low, high), 0), MOST)] for low in range(high))
        for high, part in enumerate(parts)
    )


def _bare(part: str) -> str:
    """A slot's part without links, with all of the four before them."""
    fields = part.split(".")[:_PARTS]
    return ".".join([*fields, *[""] * (_PARTS - len(fields))])


def _even(layout: str, links: Mapping[tuple[int, int], int]) -> int | None:
    """How many links any two slots of one domain have, if all have as many and others none."""
    domains = [domain for _, _, domain in groups(layout)]
    seen = set()
    for low, high in combinations(range(len(domains)), 2):
        count = min(links.get((low, high), 0), MOST)
        if domains[low] == domains[high]:
            seen.add(count)
        elif count:
            return None
    return seen.pop() if len(seen) == 1 else None


@lru_cache(maxsize=4096)
def linked(layout: str) -> Links | None:
    """How many direct links any two slots have; None where that is unknown."""
    parts = [part.split(".") for part in layout.split("|")] if layout else []
    told = [fields[_PARTS] if len(fields) > _PARTS else "" for fields in parts]
    if not any(told):
        return None
    size = len(told)
    rows = [[0] * size for _ in told]
    domains = [domain for _, _, domain in groups(layout)]
    for low, high in combinations(range(size), 2):
        if told[0].startswith(EVEN):
            count = DIGITS.index(told[0][1]) if domains[low] == domains[high] else 0
        else:
            count = DIGITS.index(told[high][low]) if low < len(told[high]) else 0
        rows[low][high] = rows[high][low] = count
    return tuple(map(tuple, rows))


@lru_cache(maxsize=4096)
def alike(layout: str) -> int | None:
    """How many links any two slots have where all have as many (0 where unknown); None if not."""
    links = linked(layout) or ()
    counts = {links[low][high] for low, high in combinations(range(len(links)), 2)}
    return None if len(counts) > 1 else counts.pop() if counts else 0


def joined(layout: str, chosen: Sequence[int]) -> tuple[int, int, int]:
    """How far NVLink reaches within a set of slots, the links of its narrowest way, and in all.

    The narrowest way is that of the two slots which are joined worst, over the best way between
    them. All are 0 for a single slot, and where links are unknown.
    """
    links, size, same = linked(layout), len(chosen), alike(layout)
    if links is None or size < 2:
        return DIRECT, 0, 0
    if same:
        return DIRECT, same, same * size * (size - 1) // 2
    counts = [links[low][high] for low, high in combinations(chosen, 2)]
    least, total = min(counts), sum(counts)
    if least:
        return DIRECT, least, total
    narrowest = _narrowest(links, chosen)
    return HOP if narrowest else PCIE, narrowest, total


def _narrowest(links: Links, chosen: Sequence[int]) -> int:
    """The narrowest edge of the widest tree that joins the set (Prim); 0 where none does."""
    first, *others = chosen
    ways = {slot: links[first][slot] for slot in others}
    narrowest = MOST
    while ways:
        slot = max(ways, key=lambda one: ways[one])
        narrowest = min(narrowest, ways.pop(slot))
        for other in ways:
            ways[other] = max(ways[other], links[slot][other])
    return narrowest


def cut(layout: str, mask: int, left: int) -> int:
    """The direct links between a set of slots and those that are left behind, both as masks.

    0 as well where any two slots have as many: then no set cuts more than another.
    """
    links = linked(layout)
    if links is None or alike(layout) is not None:
        return 0
    others = [slot for slot in range(len(links)) if left >> slot & 1]
    return sum(row[k] for slot, row in enumerate(links) if mask >> slot & 1 for k in others)


def links_between(topology: Mapping[str, Any]) -> dict[tuple[str, str], int] | None:
    """The links of any two GPUs of a topology report, by their UUIDs in ascending order.

    A link whose number is not told counts as one. None where none was read, or where some GPU
    could not be asked and nobody remembers its links.
    """
    gpus = {gpu["pci"]: gpu for gpu in topology.get("gpus", ()) if gpu.get("pci")}
    direct: dict[tuple[str, str], int] = {}
    through: dict[str, int] = {}
    for link in topology.get("nvlinks", ()):
        ends, count = (link["from"], link["to"]), link.get("count") or 1
        mine = [end for end in ends if end in gpus]
        if len(mine) == 2:
            _add(direct, gpus[mine[0]], gpus[mine[1]], count)
        elif mine:
            through[mine[0]] = through.get(mine[0], 0) + count
    if not direct and not through:
        return None
    touched = {uuid for pair in direct for uuid in pair} | {gpus[end]["uuid"] for end in through}
    for gpu in gpus.values():
        if gpu.get("uuid_source") == _REMEMBERED and gpu["uuid"] not in touched:
            return None
    for one, other in combinations(through, 2):
        domain = gpus[one].get("nvlink_domain")
        if domain and domain == gpus[other].get("nvlink_domain"):
            _add(direct, gpus[one], gpus[other], min(through[one], through[other]))
    return direct


def _add(
    links: dict[tuple[str, str], int], one: Mapping[str, Any], other: Mapping[str, Any], count: int
) -> None:
    """So many more links between two GPUs; one that cannot say who it is makes no slot."""
    if one["uuid"] and other["uuid"]:
        low, high = sorted((str(one["uuid"]), str(other["uuid"])))
        links[low, high] = links.get((low, high), 0) + count
