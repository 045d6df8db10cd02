"""Hosts with the NVLink meshes that are built, as topology files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nodeagent.protocol import TopologyReport
from nodeagent.topology.load import load_topology
from nodeagent.topology.slots import topology_report
from tests.placement.odd_hosts import GPU, NVSWITCH, named

Pairs = Mapping[tuple[int, int], int]

CUBE: Final[Pairs] = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
"""Eight GPUs of six ports each: two quads whose GPUs have one link across, or two."""
BRIDGES: Final[Pairs] = {(k, k + 1): 12 for k in range(0, 8, 2)}
"""Eight PCIe cards with bridges between two each."""
SQUARE: Final[Pairs] = {(0, 1): 2, (1, 2): 1, (2, 3): 2, (0, 3): 1}
"""Four GPUs with none across the diagonal."""
FULL: Final[Pairs] = {(a, b): 1 for b in range(8) for a in range(b)}
"""Eight GPUs, one link between any two."""


def address(index: int) -> str:
    """Where a GPU of such a host is."""
    return f"0000:{0x10 + index:02x}:00.0"


def mesh_text(
    count: int, links: Pairs, *, numa: int = 4, below: int = 2, switched: Mapping[int, int] = {}
) -> str:
    """The file: so many GPUs of a NUMA node and of a switch; ``switched`` links to NVSwitches."""
    nodes = []
    for node in range((count + numa - 1) // numa):
        gpus = range(node * numa, min((node + 1) * numa, count))
        inside = ""
        for first in gpus[::below]:
            cards = "".join(
                _gpu(k, links, switched) for k in range(first, min(first + below, gpus.stop))
            )
            inside += f'<pci busid="0000:{0x80 + first:02x}:00.0" class="0x060400">{cards}</pci>'
        nodes.append(f'<cpu numaid="{node}" affinity="{0xFFFF << 16 * node:08x}">{inside}</cpu>')
    return f'<system version="1">{"".join(nodes)}</system>'


def _gpu(index: int, links: Pairs, switched: Mapping[int, int]) -> str:
    ends = {b: n for (a, b), n in links.items() if a == index}
    ends |= {a: n for (a, b), n in links.items() if b == index}
    inside = "".join(
        f'<nvlink target="{address(other)}" count="{n}" tclass="{GPU}"/>'
        for other, n in ends.items()
    )
    if index in switched:
        inside += f'<nvlink target="" count="{switched[index]}" tclass="{NVSWITCH}"/>'
    gpu = f'<gpu dev="{index}">{inside}</gpu>'
    return f'<pci busid="{address(index)}" class="{GPU}">{gpu}</pci>'


def mesh_report(count: int, links: Pairs, **how: object) -> TopologyReport:
    """What such a host reports."""
    text = mesh_text(count, links, **how)  # type: ignore[arg-type]  # passed on as it is
    return named(topology_report(load_topology(text.encode()), "mesh"))
