"""Which MIG instances does a board offer, and do these go onto one GPU together?

A board is chosen from what was discovered (model name and memory), never from a name alone; what
is not in the tables has none. Counts are those of NVIDIA's mig-parted (config-default.yaml),
places those of go-nvml's A100 (memory slices; compute slices follow), media engines those of
NVIDIA's MIG user guide. An instance is written ``profile@start``, where start and size count
memory slices: eighths of a GPU, on small boards quarters. Instances never speak to each other
over NVLink (P2P is none in every row).

What stands behind a profile's name: ``+me`` has the engines of which one instance of a GPU can,
``+me.all`` all media engines of the GPU, ``-me`` none, and ``+gfx`` can draw as well as compute.

Where a new instance goes: where most is left of the largest profile, then of the next, by memory
slices, compute slices and count; of equal places the last. It looks one instance ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

ME: Final = "+me"
ALL_ME: Final = "+me.all"
NO_ME: Final = "-me"
GFX: Final = "+gfx"
GIB_MIB: Final = 1024
SLOT_MILLI: Final = 1000
ENGINES: Final = "their media engines overlap"


@dataclass(frozen=True, slots=True)
class Profile:
    """One row: what an instance takes, where it may begin (memory slices), nominal memory in GB,
    how many of it fit on an empty GPU, and what it has of the media engines.

    ``single``: it has the engine of which a GPU has one (on most boards all that there is to
    have). ``engines``: those of its own slices, or all; only where a board has some in each slice.
    """

    name: str
    compute: int
    size: int
    starts: tuple[int, ...]
    memory_gb: int
    most: int
    single: bool = False
    engines: Literal["", "own", "all"] = ""


@dataclass(frozen=True, slots=True)
class BoardKind:
    """A kind of GPU: its slices, its profiles, and the models with the memory (GiB) that are it."""

    name: str
    compute: int
    slices: int
    models: str
    memory_gib: tuple[int, int]
    profiles: tuple[Profile, ...]

    @property
    def width(self) -> int:
        """Bits of a GPU's state: a memory slice each, the single engine, a slice's engines each."""
        return self.slices + 1 + (self.slices if any(row.engines for row in self.profiles) else 0)

    def profile(self, name: str) -> Profile | None:
        """The row of this name."""
        return next((row for row in self.profiles if row.name == name), None)


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """An instance of a profile that begins at a memory slice."""

    start: int
    size: int
    profile: str

    def __str__(self) -> str:
        return f"{self.profile}@{self.start}:{self.size}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why placements do not go together: a reason, and the instances with their spans."""

    reason: str
    spans: tuple[str, ...]


_ALL = tuple(range(7))
_EVEN = (0, 2, 4, 6)


def _eighths(
    one: int, double: int, half: int, full: int, *, media: bool = True
) -> tuple[Profile, ...]:
    """The rows of a board with eight memory and seven compute slices, by their gigabytes."""
    rows = [Profile(f"1g.{one}gb", 1, 1, _ALL, one, 7)]
    if media:
        rows.append(Profile(f"1g.{one}gb{ME}", 1, 1, _ALL, one, 1, single=True))
    return (
        *rows,
        Profile(f"1g.{double}gb", 1, 2, _EVEN, double, 4),
        Profile(f"2g.{double}gb", 2, 2, (0, 2, 4), double, 3),
        Profile(f"3g.{half}gb", 3, 4, (0, 4), half, 2),
        Profile(f"4g.{half}gb", 4, 4, (0,), half, 1),
        Profile(f"7g.{full}gb", 7, 8, (0,), full, 1),
    )


def _drawing(one: int, half: int, full: int) -> tuple[Profile, ...]:
    """The rows of a board with four slices, each with media engines of its own, that can draw.

    One engine for optical flow is the whole GPU's: +me, +me.all and the largest have it.
    """
    all_of_it = (0, 1, 2, 3)
    rows: list[Profile] = []
    for slices, starts, memory in ((1, all_of_it, one), (2, (0, 2), half)):
        name, most = f"{slices}g.{memory}gb", 4 // slices
        took = (slices, slices, starts, memory)
        rows.append(Profile(name, *took, most, engines="own"))
        if slices == 1:
            rows.append(Profile(name + ME, *took, 1, single=True, engines="own"))
        rows.append(Profile(name + GFX, *took, most, engines="own"))
        rows.append(Profile(name + ALL_ME, *took, 1, single=True, engines="all"))
        rows.append(Profile(name + NO_ME, *took, most))
    whole = Profile(f"4g.{full}gb", 4, 4, (0,), full, 1, single=True, engines="all")
    return (*rows, whole, replace(whole, name=whole.name + GFX))


BOARDS: Final = (
    BoardKind("a100-40", 7, 8, r"A[18]00\b", (38, 42), _eighths(5, 10, 20, 40)),
    BoardKind("a100-80", 7, 8, r"A[18]00\b", (76, 82), _eighths(10, 20, 40, 80)),
    BoardKind("h100-80", 7, 8, r"H[18]00\b(?!.*\bNVL\b)", (76, 82), _eighths(10, 20, 40, 80)),
    BoardKind("h100-nvl-94", 7, 8, r"H100\b.*\bNVL\b", (91, 95), _eighths(12, 24, 47, 94)),
    BoardKind(
        "h100-96",
        7,
        8,
        r"GH200\b|H100\b(?!.*\bNVL\b)",
        (93, 97),
        _eighths(12, 24, 48, 96, media=False),
    ),
    BoardKind("h200-141", 7, 8, r"\bH200\b", (138, 143), _eighths(18, 35, 71, 141)),
    BoardKind("b200-180", 7, 8, r"\bB200\b", (176, 182), _eighths(23, 45, 90, 180)),
    BoardKind("gb200-186", 7, 8, r"\bGB200\b", (183, 188), _eighths(23, 47, 93, 186)),
    BoardKind("b300-269", 7, 8, r"\bB300\b", (264, 272), _eighths(34, 67, 135, 269)),
    BoardKind("gb300-278", 7, 8, r"\bGB300\b", (274, 281), _eighths(35, 70, 139, 278)),
    BoardKind(
        "a30-24",
        4,
        4,
        r"\bA30\b",
        (22, 25),
        (
            Profile("1g.6gb", 1, 1, (0, 1, 2, 3), 6, 4),
            Profile(f"1g.6gb{ME}", 1, 1, (0, 1, 2, 3), 6, 1, single=True),
            Profile("2g.12gb", 2, 2, (0, 2), 12, 2),
            Profile(f"2g.12gb{ME}", 2, 2, (0, 2), 12, 1, single=True),
            Profile("4g.24gb", 4, 4, (0,), 24, 1),
        ),
    ),
    BoardKind("rtx-pro-6000", 4, 4, r"RTX PRO 6000\b", (94, 97), _drawing(24, 48, 96)),
)
"""What is known."""
_BY_NAME: Final = {board.name: board for board in BOARDS}


def board_named(name: str) -> BoardKind | None:
    """The kind of this name."""
    return _BY_NAME.get(name)


def board_of(model: str | None, memory_bytes: int | None) -> BoardKind | None:
    """The kind of a discovered GPU; None where its model or memory is unknown or not listed."""
    if not model or not memory_bytes:
        return None
    gib = memory_bytes / 2**30
    for board in BOARDS:
        least, most = board.memory_gib
        if least <= gib <= most and re.search(board.models, model):
            return board
    return None


# The state of a GPU in one number: a bit a used memory slice, one above them for the single engine,
# and, where slices have media engines, one a slice above that. An instance that has all engines is
# never beside one that has any, which the bits say: those of a slice go with its memory. Compute
# slices need no bit: where memory slices are disjoint and starts are the rows' own, the compute
# slices of all boards suffice (a test goes through every combination).


def state_of(board: BoardKind, placements: Iterable[Placement]) -> int:
    """The state with these instances on an otherwise empty GPU."""
    state = 0
    for one in placements:
        state |= bits(board, one)
    return state


def bits(board: BoardKind, one: Placement) -> int:
    """The bits of the state that an instance takes; of an unknown profile those of its memory."""
    row = board.profile(one.profile)
    memory = ((1 << one.size) - 1) << one.start
    return memory if row is None else memory | _engine_bits(board, row, one.start)


def _engine_bits(board: BoardKind, row: Profile, start: int) -> int:
    every = (1 << board.slices) - 1
    own = {"": 0, "own": ((1 << row.size) - 1) << start, "all": every}[row.engines]
    return row.single << board.slices | own << (board.slices + 1)


def left(board: BoardKind, state: int) -> int:
    """Free memory slices."""
    return board.slices - (state & ((1 << board.slices) - 1)).bit_count()


def open_starts(board: BoardKind, state: int, profile: Profile) -> tuple[int, ...]:
    """Where another instance may begin."""
    mask = (1 << profile.size) - 1
    return tuple(
        start
        for start in profile.starts
        if not state & (mask << start | _engine_bits(board, profile, start))
    )


@lru_cache(maxsize=65536)
def room(board: BoardKind, state: int, profile: Profile) -> int:
    """How many more of a profile fit; equal intervals, so that the first that fits is right."""
    count = 0
    while starts := open_starts(board, state, profile):
        state |= bits(board, Placement(starts[0], profile.size, profile.name))
        count += 1
    return count


@lru_cache(maxsize=65536)
def usefulness(board: BoardKind, state: int) -> tuple[int, ...]:
    """How many of each profile still fit, the largest first: the more, the better."""
    rows = sorted(board.profiles, key=lambda row: (-row.size, -row.compute, row.single))
    return tuple(room(board, state, row) for row in rows)


@lru_cache(maxsize=65536)
def best_start(board: BoardKind, state: int, profile: Profile) -> Placement | None:
    """Where a new instance leaves most of use; None where it does not fit."""
    options = [
        Placement(start, profile.size, profile.name) for start in open_starts(board, state, profile)
    ]
    return max(
        options,
        key=lambda one: (usefulness(board, state | bits(board, one)), one.start),
        default=None,
    )


@lru_cache(maxsize=1024)
def states_by_preference(board: BoardKind, profile: Profile) -> tuple[int, ...]:
    """The states in which a profile fits, the best to take it first.

    Most used first (an already broken GPU is filled before another is broken), then where most
    of use is left behind, then the number.
    """
    out = []
    for state in range(1 << board.width):
        one = best_start(board, state, profile)
        if one is not None:
            after = usefulness(board, state | bits(board, one))
            out.append((left(board, state), tuple(-n for n in after), state))
    return tuple(state for _, _, state in sorted(out))


def conflict_of(board: BoardKind, placements: Sequence[Placement]) -> Conflict | None:
    """Why these instances do not go onto one GPU together, with their spans; None where they do."""
    for one in placements:
        row = board.profile(one.profile)
        if row is None:
            return Conflict(f"{board.name} has no profile {one.profile}", (str(one),))
        if one.size != row.size or one.start not in row.starts:
            places = ", ".join(f"{start}:{row.size}" for start in row.starts)
            return Conflict(f"{one.profile} is placed at {places}", (str(one),))
    ordered = sorted(placements)
    for one, other in _pairs(ordered):
        if one.start < other.start + other.size and other.start < one.start + one.size:
            return Conflict("their memory slices overlap", (str(one), str(other)))
    for one, other in _pairs(ordered):
        if bits(board, one) & bits(board, other):
            return Conflict(ENGINES, (str(one), str(other)))
    return None


def _pairs(ordered: Sequence[Placement]) -> list[tuple[Placement, Placement]]:
    return [(one, other) for k, one in enumerate(ordered) for other in ordered[k + 1 :]]


def packing(board: BoardKind, names: Sequence[str]) -> tuple[Placement, ...] | Conflict:
    """Where instances of these profiles go on one empty GPU; or what stands in whose way.

    Every order of starts is tried, so a refusal is final. The conflict is that of the try that
    came furthest: the first instance without a place, and what lies on each of its spans.
    """
    rows = []
    for name in names:
        row = board.profile(name)
        if row is None:
            return Conflict(f"{board.name} has no profile {name}", (name,))
        rows.append(row)
    rows.sort(key=lambda row: (-row.size, -row.compute, not row.single, row.name))
    furthest: list[Placement] = []

    def place(done: list[Placement]) -> list[Placement] | None:
        nonlocal furthest
        if len(done) > len(furthest):
            furthest = list(done)
        if len(done) == len(rows):
            return done
        row = rows[len(done)]
        for start in open_starts(board, state_of(board, done), row):
            found = place([*done, Placement(start, row.size, row.name)])
            if found is not None:
                return found
        return None

    found = place([])
    if found is not None:
        return tuple(sorted(found))
    return _stands_in_the_way(board, rows[len(furthest)], furthest)


def _stands_in_the_way(board: BoardKind, row: Profile, done: list[Placement]) -> Conflict:
    have = [
        str(one)
        for one in done
        if all(bits(board, one) & _engine_bits(board, row, start) for start in row.starts)
    ]
    if have:
        return Conflict(ENGINES, (row.name, *have))
    spans = []
    for start in row.starts:
        over = [o for o in done if o.start < start + row.size and start < o.start + o.size]
        spans.append(f"{row.name}@{start}:{row.size} is on {', '.join(map(str, over))}")
    return Conflict(f"there is no place left for {row.name}", tuple(spans))


def span_milli(board: BoardKind, one: Placement) -> tuple[int, int]:
    """Its part of a slot's thousand milli: memory slices in order, each an equal share."""
    share = SLOT_MILLI // board.slices
    return one.start * share, (one.start + one.size) * share
