"""What is in a pair of trace files, and what sequence does a seed make of it?"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from placement.domain.demand import WHOLE, Bundle
from placement.domain.packing import Host

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"{path.name} has no column {', '.join(missing)}")
        yield from enumerate(reader, 2)


def read_nodes(path: Path) -> list[Host]:
    """The hosts of a file, all free, in its order. ValueError names a line that is not one."""
    hosts = []
    for line, row in _rows(path, NODE_COLUMNS):
        try:
            gpus = (WHOLE,) * int(row["gpu"])
            hosts.append(
                Host(row["sn"], row["model"], int(row["cpu_milli"]), int(row["memory_mib"]), gpus)
            )
        except ValueError as error:
            raise ValueError(f"{path.name}, line {line}: {error}") from error
    return hosts


def read_pods(path: Path) -> list[Bundle]:
    """The tasks of a file in its order. ``gpu_spec`` may be missing: any model will do."""
    bundles = []
    for line, row in _rows(path, POD_COLUMNS):
        models = frozenset(part for part in (row.get("gpu_spec") or "").split("|") if part)
        try:
            bundle = Bundle(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]),
                models,
            )
        except ValueError as error:
            raise ValueError(f"{path.name}, line {line}: {error}") from error
        bundles.append(bundle)
    return bundles


def copies_until(pods: Sequence[Bundle], milli: float, seed: int) -> list[Bundle]:
    """All tasks and copies drawn uniformly until their GPU-milli reach ``milli``, shuffled.

    The draw and the shuffle are Python's Mersenne Twister from ``seed``. ValueError if no task
    asks for a GPU.
    """
    queue = list(pods)
    requested = sum(bundle.demand_milli for bundle in pods)
    if not requested:
        raise ValueError("no task asks for a GPU")
    rng = random.Random(seed)
    while requested < milli:
        copy = rng.choice(pods)
        queue.append(copy)
        requested += copy.demand_milli
    rng.shuffle(queue)
    return queue


def seeds_of(text: str) -> list[int]:
    """Seeds of a list of numbers and ranges such as ``42-51`` or ``1,2,5-7``."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        seeds += range(int(first), int(last or first) + 1)
    if not seeds:
        raise ValueError("no seed given")
    return seeds
