"""Which slots of a host have a switch, an NVLink domain or a NIC in common?

A layout says for each slot ``numa.switch.domain.nic.links``, joined by ``|``, with names that count
within the host only; the links are for placement.domain.links. It comes from what the host
discovered, never from its model. An empty part is unknown; a NIC of ``-`` is known to be none.
A switch that others above join with other slots' is ``leaf:top``: what is spanned counts the
leaves, and two slots with one top share wiring.
Where one slot of a host has an NVLink domain the links were read, so that a slot without one is in
none; where no slot has one, nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

NONE = "-"
ABOVE = ":"


@lru_cache(maxsize=4096)
def groups(layout: str) -> tuple[tuple[str, str, str], ...]:
    """(numa, switch, domain) of each slot; an unknown part is a group of its own slot."""
    out: list[tuple[str, str, str]] = []
    for index, part in enumerate(layout.split("|") if layout else []):
        fields = [*part.split("."), "", "", ""][:3]
        fields[1] = fields[1].partition(ABOVE)[0]
        numa, switch, domain = (field or f"?{index}" for field in fields)
        out.append((numa, f"{numa}/{switch}", domain))
    return tuple(out)


@lru_cache(maxsize=4096)
def numa_masks(layout: str) -> tuple[int, ...]:
    """The slots of each NUMA node as a mask."""
    masks: dict[str, int] = {}
    for index, (numa, _, _) in enumerate(groups(layout)):
        masks[numa] = masks.get(numa, 0) | 1 << index
    return tuple(masks.values())


@lru_cache(maxsize=4096)
def neighbours(layout: str, count: int) -> tuple[int, ...]:
    """For each of ``count`` slots a mask of those it may share wiring with, itself among them.

    What is unknown may be shared with anybody: such a slot neighbours every other one.
    """
    parts = [[*part.split("."), "", "", ""] for part in (layout.split("|") if layout else [])]
    parts += [["", "", "", ""]] * (count - len(parts))
    linked = any(fields[2] for fields in parts)
    out = []
    for one in range(count):
        mask = 0
        for other in range(count):
            mask |= (one == other or _shares(parts[one], parts[other], linked)) << other
        out.append(mask)
    return tuple(out)


def _shares(one: list[str], other: list[str], linked: bool) -> bool:
    below = set(one[1].split(ABOVE))
    switch = not one[1] or not other[1] or not below.isdisjoint(other[1].split(ABOVE))
    domain = not linked or (bool(one[2]) and one[2] == other[2])
    nic = not one[3] or not other[3] or (one[3] == other[3] and one[3] != NONE)
    return switch or domain or nic


@lru_cache(maxsize=65536)
def beside(layout: str, count: int, mask: int) -> int:
    """The slots that may share a switch, a domain or a NIC with one of ``mask``, and ``mask``."""
    near = neighbours(layout, count)
    out = mask
    for index in range(count):
        if mask >> index & 1:
            out |= near[index]
    return out


def with_above(layout: str, switches: Mapping[int, str], tops: Mapping[str, str]) -> str:
    """The layout with the switch above each slot's own, where it has none yet.

    ``switches``: the own switch of a slot by its index; ``tops``: the one above, by the own one.
    Names that are in the layout stay.
    """
    parts = [part.split(".") for part in layout.split("|")]
    told = {k: top for k, name in switches.items() if k < len(parts) and (top := tops.get(name))}
    # A switch above may itself be the own one of some slot, and then has a name already.
    known = {switches[k]: part[1] for k, part in enumerate(parts) if switches.get(k) and part[1:]}
    fresh = max((int(f) for part in parts for f in part[:4] if f.isdecimal()), default=0)
    for top in sorted(set(told.values()) - set(known)):
        fresh += 1
        known[top] = str(fresh)
    for k, top in told.items():
        if parts[k][1:] and parts[k][1] and ABOVE not in parts[k][1]:
            parts[k][1] += f"{ABOVE}{known[top].partition(ABOVE)[0]}"
    return "|".join(".".join(part) for part in parts)
