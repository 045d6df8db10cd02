"""Which part of a cut GPU does a request get?  Pure, over frozen states of cut slots.

A slot is cut for one of two kinds of part: ``mig``, an instance with memory and faults of its own
(placement.domain.mig), or ``share``, thousandths of a GPU with an amount of memory, without
isolation. Documented order, smaller first: milli left on the GPU (fill what is already broken),
then for an instance the order of states by what is left of use, for a share the memory left; the
slot's index, the host's number. A share takes the first free milli, which need not be together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from admission.domain.sharing import Sharer, compatible
from placement.domain.mig import (
    SLOT_MILLI,
    Placement,
    best_start,
    bits,
    board_named,
    span_milli,
    states_by_preference,
)

MIG, SHARE, WHOLE = "mig", "share", "whole"
KINDS = (MIG, SHARE)
CUTS = (WHOLE, *KINDS)
MIB = 2**20

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PartAsk:
    """A size of part: a profile, or thousandths of a GPU with MiB of its memory."""

    kind: str
    profile: str = ""
    milli: int = 0
    memory_mib: int = 0

    def __str__(self) -> str:
        if self.kind == MIG:
            return self.profile
        return f"{self.milli}/1000 GPU with {self.memory_mib} MiB"


@dataclass(frozen=True, slots=True)
class CutState:
    """A cut slot as it is at its node's generation.

    ``state`` is that of its instances, ``taken`` the spans in use within its thousand milli.
    ``holder`` is the tenant whose shares are on it. ``open``: it may be given more.
    """

    slot: int
    cut: str
    board: str = ""
    state: int = 0
    taken: Spans = ()
    memory_mib: int = 0
    memory_used_mib: int = 0
    holder: UUID | None = None
    open: bool = True

    @property
    def free_milli(self) -> int:
        """What is not in use."""
        return SLOT_MILLI - sum(high - low for low, high in self.taken)


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A chosen part: spans within the slot, and what a host is told of it."""

    slot: int
    spans: Spans
    kind: str
    profile: str = ""
    start: int = 0
    size: int = 0
    bits: int = 0
    memory_mib: int = 0

    @property
    def milli(self) -> int:
        """How much of the slot it takes."""
        return sum(high - low for low, high in self.spans)

    def as_json(self) -> dict[str, Any]:
        """What the claim keeps, and the host is told."""
        if self.kind == MIG:
            return {
                "kind": MIG,
                "profile": self.profile,
                "start": self.start,
                "size": self.size,
            }
        return {"kind": SHARE, "milli": self.milli, "memory_mib": self.memory_mib}

    def __str__(self) -> str:
        if self.kind == MIG:
            return f"{self.profile}@{self.start}:{self.size}"
        return f"{self.milli}/1000 with {self.memory_mib} MiB"


def free_spans(taken: Spans) -> Spans:
    """What of a slot's thousand milli is in no span."""
    out, at = [], 0
    for low, high in sorted(taken):
        if low > at:
            out.append((at, low))
        at = max(at, high)
    if at < SLOT_MILLI:
        out.append((at, SLOT_MILLI))
    return tuple(out)


def first_milli(taken: Spans, milli: int) -> Spans | None:
    """The first free milli, in as many spans as it takes; None where there are too few."""
    out, need = [], milli
    for low, high in free_spans(taken):
        take = min(need, high - low)
        if take:
            out.append((low, low + take))
            need -= take
    return tuple(out) if not need else None


def refusal_of(cut: CutState, ask: PartAsk, tenant: UUID | None) -> str:
    """Why a cut slot does not take this part, whoever else is on its host; empty where it does."""
    if cut.cut != ask.kind:
        return "cut_otherwise"
    if ask.kind == MIG:
        board = board_named(cut.board)
        row = board.profile(ask.profile) if board else None
        if board is None or row is None:
            return "no_such_profile"
        if not cut.open:
            return "slot_closed"
        return "" if best_start(board, cut.state, row) else "no_place_for_profile"
    if ask.memory_mib > cut.memory_mib:
        return "memory_of_gpu"
    if not cut.open:
        return "slot_closed"
    mine = Sharer(str(tenant), SHARED, ask.memory_mib * MIB)
    others = [Sharer(str(cut.holder), SHARED, cut.memory_used_mib * MIB)] if cut.holder else []
    answer = compatible(SHARED, [*others, mine], gpu_bytes=cut.memory_mib * MIB)
    if answer.code == "gpu_memory_exceeded":
        return "memory_headroom"
    if answer.code:
        return "shared_by_another_tenant"
    return "" if cut.free_milli >= ask.milli else "free_milli"


SHARED = "shared"
PART_CODES = (
    "cut_otherwise",
    "no_such_profile",
    "memory_of_gpu",
    "slot_closed",
    "shared_by_another_tenant",
    "memory_headroom",
    "no_place_for_profile",
    "free_milli",
)
"""Why a cut slot is no place for a part, in the order in which it is asked."""


def choice_of(
    cut: CutState, ask: PartAsk, tenant: UUID | None
) -> tuple[tuple[int, ...], Part] | None:
    """The part that a cut slot would give, with its place in the order; None where it has none."""
    if refusal_of(cut, ask, tenant):
        return None
    if ask.kind == SHARE:
        spans = first_milli(cut.taken, ask.milli)
        if spans is None:
            return None
        left = cut.memory_mib - cut.memory_used_mib - ask.memory_mib
        part = Part(cut.slot, spans, SHARE, memory_mib=ask.memory_mib)
        return (cut.free_milli - ask.milli, left, cut.slot), part
    board = board_named(cut.board)
    row = board.profile(ask.profile) if board else None
    if board is None or row is None:
        return None
    one = best_start(board, cut.state, row)
    if one is None:
        return None
    part = Part(
        cut.slot,
        (span_milli(board, one),),
        MIG,
        one.profile,
        one.start,
        one.size,
        bits(board, one),
    )
    order = states_by_preference(board, row).index(cut.state)
    return (cut.free_milli - part.milli, order, cut.slot), part


def cut_after(cut: CutState, part: Part, tenant: UUID | None) -> CutState:
    """The cut slot with one more part on it."""
    return replace(
        cut,
        state=cut.state | part.bits,
        taken=tuple(sorted((*cut.taken, *part.spans))),
        memory_used_mib=cut.memory_used_mib + part.memory_mib,
        holder=tenant if part.kind == SHARE else cut.holder,
    )


def placement_of(part: Mapping[str, Any]) -> Placement:
    """The instance that a claim keeps."""
    return Placement(int(part["start"]), int(part["size"]), str(part["profile"]))


def label_of(part: Mapping[str, Any]) -> str:
    """What a claim keeps of a part, for people."""
    if part["kind"] == MIG:
        return str(placement_of(part))
    return f"{part['milli']}/1000 with {part['memory_mib']} MiB"


def spans_within(text: str, slot: int) -> Spans:
    """A multirange of the node's line as spans of one slot's thousand milli."""
    parts = text.strip("{}").replace("[", "").split("),")
    out = []
    for part in parts if text != "{}" else ():
        low, high = part.rstrip(")").split(",")
        out.append((int(low) - slot * SLOT_MILLI, int(high) - slot * SLOT_MILLI))
    return tuple(out)


def span_text(spans: Spans, slot: int) -> str:
    """Spans of a slot as a multirange of its node's line."""
    base = slot * SLOT_MILLI
    return "{" + ",".join(f"[{base + low},{base + high})" for low, high in spans) + "}"
