"""Which CPUs does a Linux list name ("0-23,48-71"), and how is it written?"""

from __future__ import annotations

from collections.abc import Iterable

MAX_CPUS = 16_384


def cpu_ranges(cpus: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive CPU numbers as (first, last), ascending."""
    runs: list[tuple[int, int]] = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1] = (runs[-1][0], cpu)
        else:
            runs.append((cpu, cpu))
    return runs


def cpu_list(cpus: Iterable[int]) -> str:
    """The Linux list form, for example "0-23,48-71"; "" for no CPU."""
    return ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in cpu_ranges(cpus))


def cpu_set(text: str) -> frozenset[int]:
    """The CPUs of a Linux list. Raises ValueError when malformed."""
    cpus: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        if not 0 <= low <= high < MAX_CPUS:
            raise ValueError("CPU range out of bounds")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def cpu_numbers(text: str | None) -> frozenset[int] | None:
    """The CPUs of a list; None where it is unknown or malformed."""
    try:
        return None if text is None else cpu_set(text)
    except ValueError:
        return None
