"""Which devices do hwloc's tables say are linked, and how wide is each link beside the others?

Tables give bandwidths or hops between objects named `Type:gp_index`, never a number of links. In a
table of one width the number stays unknown. Where widths differ each counts in proportion, so that
a pair with two links beats one with one. Two objects that are more than one hop apart have no link
of their own, whatever bandwidth is told of the way between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd

from nodeagent.topology.nvlink import RawLink
from nodeagent.topology.xml import Element

_WIDTHS = frozenset({"NVLinkBandwidth", "XGMIBandwidth"})
_HOPS = "XGMIHops"
_MOST_LINKS = 36
"""More than any GPU has; beyond it the widths were measured, and are no multiples of a link's."""

Pairs = dict[tuple[str, str], int]


def table_links(tables: Iterable[Element], by_object: Mapping[str, str]) -> list[RawLink]:
    """The links of all tables; by_object: PCI address by gp_index."""
    widths: list[Pairs] = []
    hops: Pairs = {}
    for table in tables:
        name = table.get("name") or ""
        if name in _WIDTHS:
            widths.append(_pairs(table, by_object))
        elif name == _HOPS:
            hops |= _pairs(table, by_object)
    if not any(widths):
        return [RawLink(one, other, None, None) for (one, other), far in hops.items() if far == 1]
    links: list[RawLink] = []
    for told in widths:
        direct = {pair: width for pair, width in told.items() if hops.get(pair, 1) == 1}
        unit = _unit(direct.values())
        links.extend(
            RawLink(one, other, None, round(width / unit) if unit else None)
            for (one, other), width in direct.items()
        )
    return links


def _unit(widths: Iterable[int]) -> int:
    """The width that counts as one link; 0 where all are as wide."""
    told = set(widths)
    if len(told) < 2:
        return 0
    common = gcd(*told)
    return common if max(told) <= common * _MOST_LINKS else min(told)


def _pairs(table: Element, by_object: Mapping[str, str]) -> Pairs:
    """What a square table says of any two known devices; its diagonal says nothing.

    A table of the wrong size is no table.
    """
    names = [by_object.get(name.rpartition(":")[2]) for name in _words(table, "indexes")]
    values = _words(table, "u64values")
    if not names or len(values) != len(names) ** 2:
        return {}
    pairs: Pairs = {}
    for row, source in enumerate(names):
        for column, target in enumerate(names):
            text = values[row * len(names) + column]
            value = int(text) if text.isdecimal() and len(text) < 20 else 0
            if source and target and source != target and value:
                pairs[source, target] = value
    return pairs


def _words(table: Element, tag: str) -> list[str]:
    return [word for part in table.named(tag) for word in part.text.split()]
