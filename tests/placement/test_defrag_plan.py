"""Is a plan of moves found if and only if there is one, and is it the smallest of all?"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.defrag import Budget, Move, MovePlan, NoMoves, Piece, fits_on, plan_moves
from placement.domain.fit import Held, Place, Want, best_option
from placement.domain.terms import Alone, Terms


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Place], list[Piece]]:
    """Two to four hosts of two to four slots, with pieces that may move and others that may not."""
    places, pieces = [], []
    wiring = draw(st.booleans())
    for num in range(1, draw(st.integers(2, 4)) + 1):
        count, at, free, held = draw(st.integers(2, 4)), 0, 0, []
        while at < count:
            size = min(draw(st.integers(1, 3)), count - at)
            mask = ((1 << size) - 1) << at
            at += size
            kind = draw(st.sampled_from(["free", "free", "fixed", "piece", "piece"]))
            if kind == "free":
                free |= mask
                continue
            tenant = UUID(int=draw(st.integers(1, 2)))
            alone = draw(st.sampled_from([0, 0, 1, 2])) if wiring else 0
            held.append(Held(tenant, mask, alone))
            if kind == "piece":
                want = Want(size, terms=Terms(alone=Alone(alone)), tenant=tenant)
                allowed = draw(
                    st.sampled_from([None, None, None, frozenset({1}), frozenset({2, 3})])
                )
                lost = draw(st.sampled_from([0, 0, 5, 9]))
                key = f"{num}-{at}"
                pieces.append(Piece(key, num, mask, want, lost, allowed))
        layout = "|".join(f"0.{k // 2}.{k // 2}.{k}" for k in range(count))
        places.append(Place(num, 0, free, count, layout, draw(st.integers(0, 15)), tuple(held)))
    return places, pieces


targets = st.builds(Want, st.integers(0, 4), exclusive_nic=st.sampled_from([False, False, True]))
budgets = st.builds(Budget, st.integers(0, 3), st.sampled_from([0, 6, 100]))


def taken_from(places: dict[int, Place], piece: Piece, move_to: int, mask: int) -> dict[int, Place]:
    """The fleet after a move, worked out anew."""
    held = list(places[piece.num].held or ())
    held.remove(Held(piece.want.tenant, piece.mask, int(piece.want.terms.alone)))
    there = places[move_to]
    mine = Held(piece.want.tenant, mask, int(piece.want.terms.alone))
    return {
        **places,
        piece.num: replace(
            places[piece.num],
            free_mask=places[piece.num].free_mask | piece.mask,
            held=tuple(held),
        ),
        move_to: replace(
            there, free_mask=there.free_mask & ~mask, held=(*(there.held or ()), mine)
        ),
    }


def all_plans(
    places: dict[int, Place], pieces: list[Piece], target: Want, moves: int
) -> list[tuple[int, int]]:
    """(moves, lost work) of every sequence of moves after which there is room."""
    if any(fits_on(place, target) for place in places.values()):
        return [(0, 0)]
    found = []
    for piece in pieces if moves else []:
        rest = [other for other in pieces if other is not piece]
        for num, place in places.items():
            if num == piece.num or (piece.allowed is not None and num not in piece.allowed):
                continue
            option = best_option(place, piece.want)
            if option is not None:
                after = taken_from(places, piece, num, option.mask)
                found += [
                    (n + 1, lost + piece.lost)
                    for n, lost in all_plans(after, rest, target, moves - 1)
                ]
    return found


@given(fleets(), targets, budgets)
@settings(max_examples=250, deadline=None)
def test_a_plan_is_found_if_and_only_if_one_exists_and_it_is_the_smallest(
    fleet: tuple[list[Place], list[Piece]], target: Want, budget: Budget
) -> None:
    places, pieces = fleet
    known = {place.num: place for place in places}
    possible = [
        plan for plan in all_plans(known, pieces, target, budget.moves) if plan[1] <= budget.lost
    ]
    found = plan_moves(places, pieces, target, budget, steps=10**6)
    if possible:
        assert isinstance(found, MovePlan)
        assert (len(found.moves), found.lost) == min(possible)
    else:
        assert isinstance(found, NoMoves)
        assert found.decided


@given(fleets(), targets, budgets)
@settings(max_examples=250, deadline=None)
def test_each_move_holds_its_new_place_before_it_leaves_and_at_the_end_there_is_room(
    fleet: tuple[list[Place], list[Piece]], target: Want, budget: Budget
) -> None:
    places, pieces = fleet
    found = plan_moves(places, pieces, target, budget)
    if not isinstance(found, MovePlan):
        return
    now = {place.num: place for place in places}
    by_key = {piece.key: piece for piece in pieces}
    for move in found.moves:
        piece = by_key.pop(move.key)
        assert (move.source, move.leaves) == (piece.num, piece.mask)
        assert move.takes & now[move.target].free_mask == move.takes
        now = taken_from(now, piece, move.target, move.takes)
    assert fits_on(now[found.host], target)


def host(num: int, free: int, *held: int, count: int = 8) -> Place:
    """A plain host with these masks held by one tenant."""
    owner = UUID(int=1)
    layout = "|".join(f"0.0.0.{k}" for k in range(count))
    return Place(num, 0, free, count, layout, 0, tuple(Held(owner, mask, 0) for mask in held))


def piece(key: str, num: int, mask: int, lost: int = 0) -> Piece:
    """Something of that tenant that may move."""
    return Piece(key, num, mask, Want(mask.bit_count(), tenant=UUID(int=1)), lost)


def test_a_move_that_needs_another_first_is_found() -> None:
    places = [
        host(1, 0b0011, 0b1100, count=4),
        host(2, 0b0001, 0b0010, 0b1100, count=4),
        host(3, 0b0001, 0b1110, count=4),
    ]
    pieces = [piece("a", 1, 0b1100), piece("b", 2, 0b0010)]
    found = plan_moves(places, pieces, Want(0), Budget(2, 0))
    assert isinstance(found, MovePlan)
    assert [(m.key, m.source, m.target) for m in found.moves] == [("b", 2, 3), ("a", 1, 2)]
    assert found.host == 1
    assert plan_moves(places, pieces, Want(0), Budget(1, 0)) == NoMoves(True, 1)


def test_the_least_lost_work_wins_among_as_few_moves() -> None:
    places = [host(1, 0xF0, 0x0F), host(2, 0xF0, 0x0F), host(3, 0x0F, 0xF0)]
    pieces = [piece("long", 1, 0x0F, lost=900), piece("short", 2, 0x0F, lost=5)]
    found = plan_moves(places, pieces, Want(8), Budget(3, 1000))
    assert isinstance(found, MovePlan)
    assert [move.key for move in found.moves] == ["short"]
    assert found.lost == 5


def test_a_slot_that_is_not_clean_or_drained_makes_no_room_by_being_left() -> None:
    places = [host(1, 0xF0, 0x0F), host(2, 0x0F, 0xF0)]
    clean = {1: 0xF7, 2: 0xFF}
    found = plan_moves(places, [piece("a", 1, 0x0F)], Want(8), Budget(3, 0), clean=clean)
    assert isinstance(found, NoMoves)


def test_a_large_fleet_is_planned_in_few_steps_and_the_answer_says_when_it_gave_up() -> None:
    places = [host(n, 0b1, *(1 << k for k in range(1, 8))) for n in range(1, 301)]
    pieces = [piece(f"{n}-{k}", n, 1 << k) for n in range(1, 301) for k in range(1, 4)]
    found = plan_moves(places, pieces, Want(4), Budget(4, 0))
    assert isinstance(found, MovePlan)
    assert len(found.moves) == 3
    gave_up = plan_moves(places, pieces, Want(8), Budget(8, 0), steps=5)
    assert isinstance(gave_up, NoMoves)
    assert Move("a", 1, 1, 2, 1, 0).lost == 0
