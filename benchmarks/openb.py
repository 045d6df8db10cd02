"""What is in a pair of trace files, and what sequence does a seed make of it?"""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from placement.domain.demand import WHOLE, Bundle
from placement.domain.packing import Host

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
GZIP: Final = b"\x1f\x8b"
NUMBER: Final = re.compile(r"([0-9]{1,40})(?:\.([0-9]{0,40}))?(?:[eE]([+-]?[0-9]{1,3}))?")
"""Tools that know one kind of number write 8 as 8.0, and 100000 as 1e+05."""
MOST: Final = 2**53
MOST_GPUS: Final = 1024
SEEDS: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
MOST_SEEDS: Final = 10_000


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
    cells: dict[str, str]

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
        number = _number(cell)
        if number is None or number > most:
            raise self.wrong(column, f"{cell[:40]!r} is not a whole number of 0 to {most}")
        return number


def _number(cell: str) -> int | None:
    """The whole number that a cell says exactly; None when it says another or none."""
    parts = NUMBER.fullmatch(cell)
    if parts is None:
        return None
    decimals = parts[2] or ""
    digits, power = int(parts[1] + decimals), int(parts[3] or 0) - len(decimals)
    whole, rest = divmod(digits * 10 ** max(power, 0), 10 ** max(-power, 0))
    return None if rest else whole


def _text_of(path: Path) -> str:
    """The whole file; packed by gzip or not, whatever its name says."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(GZIP) else data).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(path, f"it cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(path, f"it is not UTF-8 text: byte {error.start} is not") from error


def _rows(path: Path, columns: Sequence[str], what: str) -> Iterator[Row]:
    """The lines below the heading; empty ones are passed over. Raises TraceError."""
    lines = csv.reader(io.StringIO(_text_of(path), newline=""), strict=True)
    try:
        names = [name.strip().lower() for name in next((line for line in lines if any(line)), [])]
        heading = lines.line_num
        if not names:
            raise TraceError(path, f"it is empty; line 1 names the columns {', '.join(columns)}")
        missing = [name for name in columns if name not in names]
        if missing:
            said = f"it has no column {', '.join(missing)}; it has {', '.join(names)}"
            raise TraceError(path, said, line=heading, column=missing[0])
        twice = next((name for name in (*columns, "gpu_spec") if names.count(name) > 1), None)
        if twice is not None:
            raise TraceError(path, "two columns have this name", line=heading, column=twice)
        found = False
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            found = True
            if any(cells[len(names) :]):
                said = f"it has more cells than line {heading}"
                raise TraceError(path, said, line=lines.line_num)
            yield Row(path, lines.line_num, dict(zip(names, cells, strict=False)))
    except csv.Error as error:
        raise TraceError(path, f"it is not CSV: {error}", line=lines.line_num) from error
    if not found:
        raise TraceError(path, f"there are no {what} below line {heading}")


def read_nodes(path: Path) -> list[Host]:
    """The hosts of a file, all free, in its order. Raises TraceError.

    A host without GPUs takes tasks that ask for none. One whose model is empty takes those that
    name no model: which it has is unknown.
    """
    hosts: list[Host] = []
    seen: dict[str, int] = {}
    for row in _rows(path, NODE_COLUMNS, "hosts"):
        name, gpus = row.text("sn"), row.whole("gpu", most=MOST_GPUS)
        first = seen.setdefault(name, row.line)
        if first != row.line:
            raise row.wrong("sn", f"{name!r} is the host of line {first} already")
        model = (row.cells.get("model") or "").strip()
        cpu_milli, memory_mib = row.whole("cpu_milli"), row.whole("memory_mib")
        hosts.append(Host(name, model, cpu_milli, memory_mib, (WHOLE,) * gpus))
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
    gpus = row.whole("num_gpu", most=MOST_GPUS)
    blank = gpus != 1 and not (row.cells.get("gpu_milli") or "").strip()
    milli = 0 if blank else row.whole("gpu_milli", most=WHOLE * max(gpus, 1))
    if gpus > 1 and milli in (0, WHOLE * gpus):
        # The column is the share of one GPU: of several it is left out, or says their sum.
        milli = WHOLE
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
    """Seeds of a list of numbers and ranges such as ``42-51`` or ``1,2,5-7``.

    ValueError of what is neither, of a range that runs backwards, and of a seed given twice.
    """
    seeds: list[int] = []
    for part in text.split(","):
        bounds = SEEDS.fullmatch(part.strip())
        if bounds is None:
            raise ValueError(
                f"{part!r} is no seed; give numbers and ranges such as 42-51 or 1,2,5-7"
            )
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if not first <= last < first + MOST_SEEDS:
            raise ValueError(f"{part!r} holds no seed, or more than {MOST_SEEDS}")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{text!r} names a seed twice")
    return seeds
