"""How much of the GPUs that are cut can a part not use, and why?  Pure, over slots that are alike.

Milli that nobody holds are *idle*. A part may use some: *open*, as many parts as go onto each GPU,
times what one takes. Every other idle milli has exactly one cause, the first that applies, so that
open and the causes add up to what is idle. Causes of a host are those of whole slots
(placement.domain.stranding); those of a slot have the codes with which a part is refused there
(placement.domain.parts). For each profile of the boards it is told how many fit now, and how many
would at most if the free memory slices of a board stood together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from placement.domain.mig import SLOT_MILLI, BoardKind, Profile, board_named, left, room
from placement.domain.parts import MIG, PartAsk
from placement.domain.stranding import CAUSES, HELPS, SCATTERED, Hosts, Sold, host_cause

CUT_OTHERWISE, NO_PROFILE, MEMORY_OF_GPU = "cut_otherwise", "no_such_profile", "memory_of_gpu"
OTHERS_SHARES, MEMORY = "shared_by_another_tenant", "memory_headroom"
GEOMETRY, REST = "no_place_for_profile", "free_milli"
PART_CAUSES: Final = (
    *(cause for cause in CAUSES if cause not in (SCATTERED, "nic_shared")),
    CUT_OTHERWISE,
    NO_PROFILE,
    MEMORY_OF_GPU,
    OTHERS_SHARES,
    MEMORY,
    GEOMETRY,
    REST,
)
"""Why idle milli of a cut GPU are of no use to a part, in the order in which they are asked."""
PART_HELPS: Final = {
    **HELPS,
    CUT_OTHERWISE: "Cut these slots for this kind once nothing is on them: {cut}.",
    NO_PROFILE: "Sell a profile that this board has, or cut slots of another board.",
    MEMORY_OF_GPU: "Sell a share with less memory, or cut slots of a larger GPU.",
    OTHERS_SHARES: "Only the tenant that is there already may use it; it ends with its shares.",
    MEMORY: "Sell shares with less memory for their milli.",
    GEOMETRY: "The free memory slices are not where the profile may begin: it ends with a release.",
    REST: "Sell a smaller part beside it: what is left is less than one takes.",
}


@dataclass(frozen=True, slots=True)
class CutSlots:
    """Cut slots that are alike, and how many.

    ``host`` is what their hosts are like, with ``free`` the slot's own bit and ``state`` also the
    cause of a slot that is closed by itself. ``somebodys``: a tenant's shares are on it.
    """

    slots: int
    host: Hosts
    cut: str
    board: str = ""
    state: int = 0
    free_milli: int = SLOT_MILLI
    memory_mib: int = 0
    memory_used_mib: int = 0
    somebodys: bool = False


@dataclass(frozen=True, slots=True)
class SoldPart:
    """What a product that is a part needs: of a slot, and of its host."""

    ask: PartAsk
    sold: Sold


@dataclass(frozen=True, slots=True)
class PartFit:
    """How many parts of a size fit now, and at most if what is open stood together."""

    part: str
    now: int
    ideal: int


@dataclass(frozen=True, slots=True)
class PartStranding:
    """One part's account, in thousandths of a GPU: ``open`` and the causes add up to ``idle``."""

    sku: str
    part: str
    cut_slots: int
    idle: int
    open: int
    now: int
    largest: str
    fits: tuple[PartFit, ...]
    causes: dict[str, int]

    @property
    def stranded(self) -> int:
        """Idle milli of no use to the part."""
        return sum(self.causes.values())


def part_stranding(product: SoldPart, fleet: Iterable[CutSlots]) -> PartStranding:
    """The account of one part over the cut slots of its pool and family."""
    groups = list(fleet)
    causes: Counter[str] = Counter()
    opened = now = 0
    serving: list[CutSlots] = []
    for group in groups:
        parts, each, cause, rest = _usable(product, group)
        now += parts * group.slots
        opened += parts * each * group.slots
        if cause:
            causes[cause] += (group.free_milli - parts * each) * group.slots
        if rest:
            serving.append(group)
    fits = _profiles(serving) if product.ask.kind == MIG else (_share(product.ask, serving, now),)
    return PartStranding(
        sku=product.sold.sku,
        part=str(product.ask),
        cut_slots=sum(group.slots for group in groups),
        idle=sum(group.free_milli * group.slots for group in groups),
        open=opened,
        now=now,
        largest=_largest(product.ask, fits, serving),
        fits=fits,
        causes={cause: causes[cause] for cause in PART_CAUSES if causes[cause]},
    )


def _usable(product: SoldPart, g: CutSlots) -> tuple[int, int, str, bool]:
    """How many parts go onto such a slot, the milli of each, the cause of the rest, and whether
    the slot gives parts of this kind at all."""
    ask, closed = product.ask, host_cause(product.sold, g.host)
    if closed:
        return 0, 0, closed, False
    if g.cut != ask.kind:
        return 0, 0, CUT_OTHERWISE, False
    if ask.kind == MIG:
        board = board_named(g.board)
        row = board.profile(ask.profile) if board else None
        if board is None or row is None:
            return 0, 0, NO_PROFILE, board is not None
        parts, each = room(board, g.state, row), row.size * SLOT_MILLI // board.slices
        over = g.free_milli - parts * each
        return parts, each, _cause(over, GEOMETRY if over >= each else REST), True
    if ask.memory_mib > g.memory_mib:
        return 0, 0, MEMORY_OF_GPU, False
    if g.somebodys:
        return 0, 0, _cause(g.free_milli, OTHERS_SHARES), True
    fitting = g.free_milli // ask.milli
    parts = min(fitting, (g.memory_mib - g.memory_used_mib) // ask.memory_mib)
    over = g.free_milli - parts * ask.milli
    return parts, ask.milli, _cause(over, MEMORY if fitting > parts else REST), True


def _cause(milli: int, cause: str) -> str:
    return cause if milli else ""


def _profiles(serving: list[CutSlots]) -> tuple[PartFit, ...]:
    """Every profile of the boards there are, the largest last."""
    found: dict[str, tuple[tuple[int, int, str], int, int]] = {}
    for name in sorted({group.board for group in serving}):
        board = board_named(name)
        if board is None:
            continue
        mine = [group for group in serving if group.board == name]
        slices = sum(left(board, group.state) * group.slots for group in mine)
        for row in board.profiles:
            now = sum(room(board, group.state, row) * group.slots for group in mine)
            order, before, ideal = found.get(row.name, ((row.size, row.compute, row.name), 0, 0))
            gathered = max(_gathered(board, row, slices), now)
            found[row.name] = (order, before + now, ideal + gathered)
    return tuple(
        PartFit(name, now, ideal)
        for name, (_, now, ideal) in sorted(found.items(), key=lambda one: one[1][0])
    )


def _gathered(board: BoardKind, row: Profile, slices: int) -> int:
    """At most so many instances go into so many memory slices, on GPUs as empty as can be."""
    whole, rest = divmod(slices, board.slices)
    return whole * row.most + min(row.most, rest // row.size)


def _share(ask: PartAsk, serving: list[CutSlots], now: int) -> PartFit:
    """The share itself. Gathered, free milli and memory of all GPUs would be nobody's."""
    milli = sum(group.free_milli * group.slots for group in serving)
    memory = sum((g.memory_mib - g.memory_used_mib) * g.slots for g in serving)
    whole, rest = divmod(milli, SLOT_MILLI)
    ideal = whole * (SLOT_MILLI // ask.milli) + rest // ask.milli
    return PartFit(str(ask), now, max(min(ideal, memory // ask.memory_mib), now))


def _largest(ask: PartAsk, fits: tuple[PartFit, ...], serving: list[CutSlots]) -> str:
    """The largest part of this kind that fits now, whether it is sold or not; empty for none."""
    if ask.kind == MIG:
        return next((fit.part for fit in reversed(fits) if fit.now), "")
    nobodys = [g for g in serving if not g.somebodys and g.free_milli and g.memory_mib]
    best = max(
        nobodys, key=lambda g: (g.free_milli, g.memory_mib - g.memory_used_mib), default=None
    )
    if best is None:
        return ""
    memory = best.memory_mib - best.memory_used_mib
    return str(PartAsk(ask.kind, milli=best.free_milli, memory_mib=memory))
