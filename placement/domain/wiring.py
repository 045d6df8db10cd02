"""Which slots of a host have a switch, an NVLink domain or a NIC in common?

A layout says for each slot ``numa.switch.domain.nic.links``, joined by ``|``, with names that count
within the host only; the links are for placement.domain.links. It comes from what the host
discovered, never from its model. An empty part is unknown; a NIC of ``-`` is known to be none.
A domain of ``?`` could not be read, though others of the host could.
A switch that others above join with other slots' is ``leaf:top``: what is spanned counts the
leaves, and two slots with one top share wiring.
Where one slot of a host has an NVLink domain the links were read, so that a slot without one is in
none; where no slot has one, nothing is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

NONE = "-"
ABOVE = ":"
UNTOLD = "?"
_DOMAIN, _NIC = 2, 3
_EVEN = "*"
_NO_LINK = "0"


@lru_cache(maxsize=4096)
def groups(layout: str) -> tuple[tuple[str, str, str], ...]:
    """(numa, switch, domain) of each slot; an unknown part is a group of its own slot."""
    out: list[tuple[str, str, str]] = []
    for index, part in enumerate(layout.split("|") if layout else []):
        fields = [*part.split("."), "", "", ""][:3]
        fields[1] = fields[1].partition(ABOVE)[0]
        fields[2] = fields[2].removeprefix(UNTOLD)
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
    parts = [[*part.split("."), *[""] * 4] for part in (layout.split("|") if layout else [])]
    parts += [[""] * 5] * (count - len(parts))
    domains = _joined(parts)
    out = []
    for one in range(count):
        mask = 0
        for other in range(count):
            domain = domains is None or not domains[one].isdisjoint(domains[other])
            share = one == other or domain or _shares(parts[one], parts[other])
            mask |= share << other
        out.append(mask)
    return tuple(out)


def _shares(one: list[str], other: list[str]) -> bool:
    below = set(one[1].split(ABOVE))
    switch = not one[1] or not other[1] or not below.isdisjoint(other[1].split(ABOVE))
    nic = not one[3] or not other[3] or (one[3] == other[3] and one[3] != NONE)
    return switch or nic


def _joined(parts: list[list[str]]) -> list[set[int]] | None:
    """For each slot, the slots of its domain; None where nothing is known of any.

    By the domains as approved, and by the links as last read: a bridge that was put on since joins
    its two GPUs, whatever was approved before. One of which nothing could be read is in all.
    """
    everybody = set(range(len(parts)))
    members = [{slot} for slot in everybody]
    seen: dict[str, int] = {}
    for slot, fields in enumerate(parts):
        joins = set()
        if fields[2] and fields[2] != UNTOLD:
            joins.add(seen.setdefault(fields[2], slot))
        if not fields[4].startswith(_EVEN):
            joins |= {low for low, digit in enumerate(fields[4][:slot]) if digit != _NO_LINK}
        for other in joins:
            if members[other] is not members[slot]:
                merged = members[other] | members[slot]
                for one in merged:
                    members[one] = merged
    untold = {slot for slot, fields in enumerate(parts) if fields[2] == UNTOLD}
    if not seen:
        return None
    return [
        everybody if slot in untold and len(members[slot]) == 1 else members[slot]
        for slot in sorted(everybody)
    ]


@lru_cache(maxsize=65536)
def beside(layout: str, count: int, mask: int) -> int:
    """The slots that may share a switch, a domain or a NIC with one of ``mask``, and ``mask``."""
    near = neighbours(layout, count)
    out = mask
    for index in range(count):
        if mask >> index & 1:
            out |= near[index]
    return out


def with_cards(layout: str, cards: Mapping[int, Collection[str]]) -> str:
    """The layout in which slots with virtual functions of one card have one NIC.

    ``cards``: those that a slot's functions are of, by its index. What goes over one card is behind
    one port, whichever of its functions a tenant has.
    """
    parts = [part.split(".") for part in layout.split("|")] if layout else []
    first: dict[str, str] = {}
    for index in sorted(index for index in cards if index < len(parts)):
        for card in sorted(cards[index]):
            own = parts[index][_NIC : _NIC + 1]
            name = first.setdefault(card, own[0] if own else "")
            for fields in parts:
                if own and name and fields[_NIC : _NIC + 1] == own:
                    fields[_NIC] = name
    return "|".join(".".join(fields) for fields in parts)


def with_untold(layout: str, untold: Collection[int]) -> str:
    """The layout in which these slots' domains could not be read, and all others' could.

    Only of slots that have none: one that was approved with a domain keeps it.
    """
    parts = [part.split(".") for part in layout.split("|")] if layout else []
    for index, fields in enumerate(parts):
        if len(fields) > _DOMAIN and fields[_DOMAIN] in ("", UNTOLD):
            fields[_DOMAIN] = UNTOLD if index in untold else ""
    return "|".join(".".join(fields) for fields in parts)


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
