"""Hosts that nobody sells, as topology files: made from a number, the same each time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

from nodeagent.protocol import TopologyReport
from nodeagent.topology.load import load_topology
from nodeagent.topology.slots import topology_report

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
LINKS = ("none", "pairs", "islands", "ring", "mesh", "switch", "some", "uneven", "worn")
GPU, NIC, NVME, NVSWITCH = "0x030200", "0x020700", "0x010802", "0x068000"


class _Host:
    """One host while it is written."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.by = Random(seed)
        self.count = SIZES[seed % len(SIZES)]
        self.links = self.by.choice(LINKS)
        self.addresses = [f"0000:{0x10 + k:02x}:00.0" for k in range(self.count)]
        self.next = 0x80

    def address(self) -> str:
        """An address that nothing has."""
        self.next += 1
        return f"0000:{self.next:02x}:00.0"

    def pci(self, kind: str, address: str, inside: str = "") -> str:
        """A device, now and then with a field that is empty or not there."""
        speed = self.by.choice(['link_speed="16 GT/s" link_width="16"', 'link_speed=""', ""])
        return f'<pci busid="{address}" class="{kind}" {speed}>{inside}</pci>'

    def linked(self, k: int) -> list[int]:
        """The GPUs to which this one has links, by the host's kind of mesh."""
        others = [other for other in range(self.count) if other != k]
        if self.links == "pairs":
            return [other for other in others if other // 2 == k // 2]
        if self.links == "islands":
            return [other for other in others if other // 2 == k // 2 and k < self.count // 2]
        if self.links == "ring":
            return [other for other in others if (other - k) % self.count in (1, self.count - 1)]
        if self.links == "some":
            return [other for other in others if (other + k) % 3 == 0]
        if self.links == "uneven":
            return [other for other in others if self.wide(k, other)]
        return others if self.links == "mesh" else []

    def wide(self, k: int, other: int) -> int:
        """How many links two GPUs have; an uneven mesh has none, one or two of each."""
        return (k * other + k + other + self.seed) % 3 if self.links == "uneven" else 2

    def gpu(self, k: int) -> str:
        """One GPU with its links."""
        text = "".join(
            f'<nvlink target="{self.addresses[other]}" count="{self.wide(k, other)}" '
            f'tclass="{GPU}"/>'
            for other in self.linked(k)
        )
        if self.links in ("switch", "worn"):
            # Of a worn host, some ways to the switches are down.
            count = 6 - (k % 3 == 1) if self.links == "worn" else 6
            text = f'<nvlink target="" count="{count}" tclass="{NVSWITCH}"/>'
        return self.pci(GPU, self.addresses[k], f'<gpu dev="{k}">{text}</gpu>')

    def numa(self, number: int, gpus: list[int]) -> str:
        """A NUMA node: its GPUs below switches or right below it, and cards wherever."""
        groups: list[str] = []
        left = list(gpus)
        while left:
            size = self.by.randint(1, 4)
            part, left = left[:size], left[size:]
            inside = "".join(self.gpu(k) for k in part)
            inside += self.cards(NIC, self.by.choice((0, 1, len(part)))) if part else ""
            inside += self.cards(NVME, self.by.choice((0, 1, len(part))))
            bare = self.by.random() < 0.3
            groups.append(inside if bare else self.pci("0x060400", self.address(), inside))
        if self.by.random() < 0.3:
            groups.append(self.pci("0x060400", self.address(), self.cards(NIC, 1)))
        if len(groups) > 1 and self.by.random() < 0.4:
            # A switch of switches, with a port of its own.
            upper = self.pci("0x060400", self.address(), "".join(groups[:2]))
            groups[:2] = [self.pci("0x060400", self.address(), upper)]
        mask = f"{0xFF << (8 * number):032x}"
        affinity = ",".join(mask[k : k + 8] for k in range(0, 32, 8))
        known = self.by.random()
        number_text = "" if known < 0.1 else f'numaid="{number}"'
        affinity_text = "" if known < 0.2 else f'affinity="{affinity}"'
        return f"<cpu {number_text} {affinity_text}>{''.join(groups)}</cpu>"

    def cards(self, kind: str, count: int) -> str:
        """So many cards of a kind."""
        return "".join(self.pci(kind, self.address()) for _ in range(count))

    def text(self) -> str:
        """The file. Its GPUs are shared out among NUMA nodes in any way, some may have none."""
        nodes = self.by.randint(1, 4)
        cut = sorted(self.by.randint(0, self.count) for _ in range(nodes - 1))
        bounds = [0, *cut, self.count]
        parts = [list(range(a, b)) for a, b in pairwise(bounds)]
        return (
            f'<system version="1">{"".join(self.numa(n, p) for n, p in enumerate(parts))}</system>'
        )


def odd_report(seed: int) -> TopologyReport:
    """What a host of this number reports; its GPUs say who they are."""
    return named(topology_report(load_topology(_Host(seed).text().encode()), f"odd-{seed}"))


def file_report(path: Path) -> TopologyReport:
    """What the host of a file reports; its GPUs say who they are."""
    return named(topology_report(load_topology(path.read_bytes()), path.stem[:30].lower()))


def named(report: TopologyReport) -> TopologyReport:
    """The same with a UUID for each GPU that has none: the files leave them out."""
    gpus = tuple(
        replace(gpu, uuid=gpu.uuid or f"GPU-{report.hostname}-{gpu.index}") for gpu in report.gpus
    )
    uuids = {gpu.index: gpu.uuid for gpu in gpus}
    slots = tuple(replace(slot, gpu_uuid=uuids[slot.gpu_index]) for slot in report.slots)
    return replace(report, gpus=gpus, slots=slots)
