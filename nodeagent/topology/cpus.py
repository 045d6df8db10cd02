"""Which CPUs does a mask name, and how are a NUMA node's CPUs divided among its slots?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodeagent.protocol.cpus import MAX_CPUS, cpu_ranges

_HEX_WORD = re.compile(r"(0[xX])?[0-9a-fA-F]{0,16}")

CpuUnits = tuple[tuple[int, ...], ...]


def parse_mask(text: str | None) -> frozenset[int] | None:
    """CPU numbers of a hexadecimal mask; None when unknown, malformed, infinite or too large.

    Accepts the kernel's and NCCL's form (32-bit words split by commas, most significant first) and
    hwloc's (the same with 0x before words, empty words meaning 0). A mask that starts with
    hwloc's "0xf...f" is infinite and so says nothing.
    """
    if not text or "..." in text:
        return None
    value = 0
    words = text.strip().split(",")
    if len(words) > MAX_CPUS // 32 or not any(words):
        return None
    for word in words:
        if not _HEX_WORD.fullmatch(word.strip()):
            return None
        digits = word.strip().lower().removeprefix("0x")
        # A single long word is one big mask; between commas every word has 32 bits.
        if len(words) > 1 and len(digits.lstrip("0")) > 8:
            return None
        value = (value << 32) | int(digits or "0", 16)
    return frozenset(bit for bit in range(value.bit_length()) if value >> bit & 1)


def sibling_units(cpus: frozenset[int], cores: Sequence[frozenset[int]]) -> CpuUnits:
    """The CPUs as units that must not be split between tenants: the threads of one core.

    cores: known cores. Where none is known and the CPUs form several runs of one length, CPUs at
    the same place in each run are taken as siblings, since Linux numbers first threads first; this
    is harmless where it is wrong. Otherwise each CPU is a unit.
    """
    inside = sorted(tuple(sorted(core & cpus)) for core in cores if core & cpus)
    if inside and frozenset().union(*inside) == cpus and sum(map(len, inside)) == len(cpus):
        return tuple(inside)
    runs = cpu_ranges(cpus)
    lengths = {last - first + 1 for first, last in runs}
    if len(runs) > 1 and len(lengths) == 1:
        return tuple(tuple(first + place for first, _ in runs) for place in range(lengths.pop()))
    return tuple((cpu,) for cpu in sorted(cpus))


def divide(units: CpuUnits, parts: int) -> list[frozenset[int]] | None:
    """Divide units into that many disjoint parts that cover all of them.

    Parts are consecutive and differ by at most one unit. None when there are fewer units than
    parts, so that some part would have no CPU.
    """
    if parts < 1 or len(units) < parts:
        return None
    share, rest = divmod(len(units), parts)
    divided: list[frozenset[int]] = []
    begin = 0
    for part in range(parts):
        end = begin + share + (1 if part < rest else 0)
        divided.append(frozenset(cpu for unit in units[begin:end] for cpu in unit))
        begin = end
    return divided
