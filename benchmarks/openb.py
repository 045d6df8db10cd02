"""What is in a pair of trace files, and what sequence does a seed make of it?"""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from placement.domain.demand import WHOLE, Bundle
from placement.domain.packing import Host

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
GZIP: Final = b"\x1f\x8b"
BEYOND: Final = "beyond the columns"
MOST: Final = 2**53
MOST_GPUS: Final = 1024


class TraceError(ValueError):
    """A trace cannot be used: the file, and the line and column where there is one."""

    def __init__(self, path: Path, what: str, *, line: int | None = None, column: str = "") -> None:
        self.file, self.line, self.column = path.name, line, column
        self.what = what
        where = path.name
        where += "" if line is None else f", line {line}"
        where += f", column {column}" if column else ""
        super().__init__(f"{where}: {what}")

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {"error": self.what, "file": self.file, "line": self.line, "column": self.column}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a file."""

    path: Path
    line: int
    cells: dict[str, str | None]

    def wrong(self, column: str, what: str) -> TraceError:
        """What is wrong with a cell."""
        return TraceError(self.path, what, line=self.line, column=column)

    def text(self, column: str) -> str:
        """A cell that has to be there."""
        cell = self.cells.get(column)
        if cell is None or not cell.strip():
            raise self.wrong(column, "it is empty or missing")
        return cell.strip()

    def whole(self, column: str, *, most: int = MOST) -> int:
        """A cell that is a whole number, of 0 to ``most``."""
        cell = self.text(column)
        if not (cell.isascii() and cell.isdecimal()) or int(cell) > most:
            raise self.wrong(column, f"{cell!r} is not a whole number of 0 to {most}")
        return int(cell)


def _text_of(path: Path) -> str:
    """The whole file; packed by gzip or not, whatever its name says."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(GZIP) else data).decode("utf-8-sig")
    except (OSError, EOFError) as error:
        raise TraceError(path, f"it cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(path, f"it is not UTF-8 text: byte {error.start} is not") from error


def _rows(path: Path, columns: Sequence[str], what: str) -> Iterator[Row]:
    reader = csv.DictReader(_text_of(path).splitlines(), restkey=BEYOND)
    if not reader.fieldnames:
        raise TraceError(path, f"it is empty; line 1 names the columns {', '.join(columns)}")
    missing = [name for name in columns if name not in reader.fieldnames]
    if missing:
        raise TraceError(path, f"it has no column {', '.join(missing)}", line=1)
    found = False
    for cells in reader:
        found = True
        if cells.pop(BEYOND, None):
            raise TraceError(path, "it has more cells than line 1", line=reader.line_num)
        yield Row(path, reader.line_num, cells)
    if not found:
        raise TraceError(path, f"there are no {what} below line 1")


def read_nodes(path: Path) -> list[Host]:
    """The hosts of a file, all free, in its order. Raises TraceError."""
    hosts = [
        Host(
            row.text("sn"),
            row.text("model"),
            row.whole("cpu_milli"),
            row.whole("memory_mib"),
            (WHOLE,) * row.whole("gpu", most=MOST_GPUS),
        )
        for row in _rows(path, NODE_COLUMNS, "hosts")
    ]
    if not any(host.gpus for host in hosts):
        raise TraceError(path, "no host has a GPU", column="gpu")
    return hosts


def read_pods(path: Path) -> list[Bundle]:
    """The tasks of a file in its order. ``gpu_spec`` may be missing: any model will do.

    Raises TraceError, also where no task asks for a GPU: copies would never suffice then.
    """
    bundles = [_bundle(row) for row in _rows(path, POD_COLUMNS, "tasks")]
    if not any(bundle.gpus for bundle in bundles):
        raise TraceError(path, "no task asks for a GPU", column="num_gpu")
    return bundles


def _bundle(row: Row) -> Bundle:
    models = frozenset(part.strip() for part in (row.cells.get("gpu_spec") or "").split("|"))
    gpus, milli = row.whole("num_gpu", most=MOST_GPUS), row.whole("gpu_milli", most=WHOLE)
    try:
        return Bundle(row.whole("cpu_milli"), row.whole("memory_mib"), gpus, milli, models - {""})
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise row.wrong("gpu_milli", f"{error} (num_gpu {gpus}, gpu_milli {milli})") from error


def trace_of(path: Path) -> str:
    """The trace's name: of ``pods_default.csv.gz`` it is ``default``."""
    return path.name.removesuffix(".gz").removesuffix(".csv").removeprefix("pods_")


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
