"""On which hosts is there room for a part of a GPU?  By index probe, whatever the fleet's size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from gpuaas.kernel import prepared
from placement.domain.fit import Place, Want
from placement.domain.mig import BOARDS, states_by_preference
from placement.domain.parts import MIG, CutState, PartAsk, spans_within
from placement.snapshots.places import (
    FENCED,
    FITS,
    HELD,
    LOCK,
    ONE_DAY,
    OPEN_TO,
    WITHIN,
    Target,
    params_of,
    read_place,
)

_COLUMNS: Final = (
    """
SELECT n.num, n.generation, n.free_mask, n.slot_count, n.layout, n.exclusive_mask,
       CASE WHEN %(holders)s::bool OR """
    + FENCED
    + " THEN "
    + HELD
    + " END, placement_cuts(n.num)"
)
_HOME: Final = " k.pool_id = %(pool)s AND k.family_id = %(family)s AND k.open AND "
# Whether the host fits is asked of one slot after the other, in the order of the index: were the
# hosts joined, the planner would rather read and sort all of them, as it guesses that few fit.
_HOST_FITS: Final = " AND (SELECT " + FITS + " FROM placement_node n WHERE n.num = k.node_num)"
_OF_ONE: Final = (
    " CROSS JOIN LATERAL"
    " (SELECT n.* FROM placement_node n WHERE n.num = one.node_num OFFSET 0) AS n"
)
# A board and a state are asked for as ranges, and named in the order, so that no other index has
# that order.
_MIG: Final = (
    _COLUMNS
    + """
  FROM unnest(%(boards)s::text[], %(states)s::int[]) WITH ORDINALITY AS level(board, state, at)
 CROSS JOIN LATERAL (
       SELECT k.node_num FROM placement_cutslot k
        WHERE"""
    + _HOME
    + """k.cut = 'mig' AND k.board = level.board
          AND k.state >= level.state AND k.state <= level.state"""
    + _HOST_FITS
    + """
        ORDER BY k.state, k.node_num LIMIT %(limit)s::int + %(skip)s::int) AS one
"""
    + _OF_ONE
    + """
 WHERE level.board = ANY (ARRAY(
           SELECT b FROM unnest(%(names)s::text[]) b
            WHERE (SELECT true FROM placement_cutslot k WHERE"""
    + _HOME
    + """k.cut = 'mig' AND k.board >= b AND k.board <= b ORDER BY k.board LIMIT 1)))
 LIMIT %(limit)s::int OFFSET %(skip)s::int
"""
)
_SHARES: Final = (
    """
        SELECT k.node_num, k.free_milli FROM placement_cutslot k
         WHERE"""
    + _HOME
    + """k.cut = 'share' AND k.free_milli >= %(milli)s::int
           AND k.memory_mib - k.memory_used_mib >= %(memory)s::int"""
    + _HOST_FITS
    + " AND"
)
# The holder, which is the same in all, is named since nothing else makes the planner see that the
# index has this order where it is null.
_IN_ORDER: Final = (
    " ORDER BY k.holder, k.free_milli, k.node_num LIMIT %(limit)s::int + %(skip)s::int"
)
_SHARE: Final = (
    _COLUMNS
    + """
  FROM (SELECT 1 AS at, mine.* FROM ("""
    + _SHARES
    + " k.holder = %(tenant)s"
    + _IN_ORDER
    + """) AS mine
        UNION ALL
        SELECT 2 AS at, nobodys.* FROM ("""
    + _SHARES
    + " k.holder IS NULL"
    + _IN_ORDER
    + """) AS nobodys) AS one
"""
    + _OF_ONE
    + """
 ORDER BY one.at, one.free_milli, one.node_num
 LIMIT %(limit)s::int OFFSET %(skip)s::int
"""
)
_ONE: Final = _COLUMNS + " FROM placement_node n WHERE n.num = %(num)s::int AND " + FITS
_NEAREST: Final = (
    """
SELECT k.node_num FROM placement_cutslot k JOIN placement_node n ON n.id = k.node_id
 WHERE k.pool_id = %(pool)s AND k.family_id = %(family)s AND k.cut = %(cut)s AND n.schedulable
   AND n.takes IN ('any', %(use)s::text)
   AND (k.cut = 'share' OR k.board = ANY (%(names)s::text[]))
   AND """
    + WITHIN
    + " AND "
    + ONE_DAY
    + """
 ORDER BY NOT ("""
    + OPEN_TO
    + """), NOT k.open, k.free_milli DESC, k.node_num, k.slot_index LIMIT 1
"""
)


def part_candidates(
    where: Target, want: Want, ask: PartAsk, *, limit: int, skip: int = 0
) -> tuple[list[Place], bool]:
    """Nodes with a cut slot that has room, in the order of placement.domain.parts; and whether
    there may be more. For shares the tenant's own GPUs come first, then those that are empty.

    Each place has all cut slots of its node.
    """
    params = {**_params(where, want, ask), "limit": limit, "skip": skip}
    rows = prepared.rows_in_index_order(_MIG if ask.kind == MIG else _SHARE, params)
    places: dict[int, Place] = {}
    for row in rows:
        place = _place(row)
        places.setdefault(place.num, place)
    return list(places.values()), len(rows) == limit


def part_locked(where: Target, want: Want, ask: PartAsk, num: int) -> list[Place]:
    """One node as it is once its lock is had; empty if it takes nothing any more."""
    prepared.rows(LOCK, (num,))
    params = {**_params(where, want, ask), "num": num}
    return [_place(row) for row in prepared.rows(_ONE, params)]


def part_nearest(where: Target, want: Want, ask: PartAsk) -> int | None:
    """The node that is nearest to holding this part one day: with the emptiest GPU cut for it."""
    found = prepared.rows(_NEAREST, {**_params(where, want, ask), "cut": ask.kind})
    return int(found[0][0]) if found else None


def _params(where: Target, want: Want, ask: PartAsk) -> dict[str, Any]:
    base = params_of(where, want)
    if ask.kind != MIG:
        return {**base, "milli": ask.milli, "memory": ask.memory_mib, "names": []}
    levels = [
        (board.name, state)
        for board in BOARDS
        if (row := board.profile(ask.profile))
        for state in states_by_preference(board, row)
    ]
    boards, states = zip(*levels, strict=True) if levels else ((), ())
    return {
        **base,
        "boards": list(boards),
        "states": list(states),
        "names": sorted(set(boards)),
    }


def _place(row: Sequence[Any]) -> Place:
    return read_place(row[:7], cuts=cuts_of(row[7]))


def cuts_of(text: str) -> tuple[CutState, ...]:
    """What ``placement_cuts`` says, as values."""
    return tuple(_cut(line) for line in text.split("\n")) if text else ()


def _cut(line: str) -> CutState:
    slot, cut, board, state, taken, memory, used, holder, is_open = line.split(" ")
    return CutState(
        slot=int(slot),
        cut=cut,
        board="" if board == "-" else board,
        state=int(state),
        taken=spans_within(taken, int(slot)),
        memory_mib=int(memory),
        memory_used_mib=int(used),
        holder=None if holder == "-" else UUID(holder),
        open=is_open == "1",
    )
