"""Is the chosen slot set the best one by the documented order, on any wiring?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.fit import Board, Option, Place, Want, best_option, rank, taken
from placement.domain.lookahead import Lookahead
from placement.domain.spans import indices
from placement.domain.wiring import groups

AHEAD = Lookahead(((1, 50), (2, 30), (4, 20)))
parts = st.tuples(*[st.sampled_from(["", "0", "1", "2"])] * 3).map(".".join)


@st.composite
def layouts(draw: st.DrawFn, count: int) -> str:
    """Slots with wiring of any kind; links not read, even, or any number between any two."""
    plain = draw(st.lists(parts.map("{}.".format), min_size=count, max_size=count))
    how = draw(st.sampled_from(("unread", "even", "any", "any")))
    if how == "even":
        plain[0] += "." + draw(st.sampled_from(("*0", "*1", "*c")))
    elif how == "any":
        digits = [draw(st.text("0012c", min_size=k, max_size=k)) for k in range(count)]
        plain = [f"{part}.{told}" for part, told in zip(plain, digits, strict=True)]
    return "|".join(plain)


@st.composite
def places(draw: st.DrawFn, num: int | None = None) -> Place:
    """A node of one to eight slots, wired and used in any way."""
    count = draw(st.integers(1, 8))
    full = (1 << count) - 1
    return Place(
        num=draw(st.integers(1, 1000)) if num is None else num,
        generation=draw(st.integers(0, 5)),
        free_mask=draw(st.integers(0, full)),
        slot_count=count,
        layout=draw(layouts(count)),
        exclusive_mask=draw(st.integers(0, full)),
    )


wants = st.builds(Want, st.integers(1, 8), st.booleans())
fleets = st.lists(st.integers(1, 6), unique=True, max_size=6).flatmap(
    lambda nums: st.tuples(*[places(num=num) for num in nums])
)


def links_by_hand(layout: str) -> dict[tuple[int, int], int] | None:
    """The links of any two slots, read off the layout; None where none were read."""
    fields = [part.split(".") for part in layout.split("|")]
    told = [field[4] if len(field) > 4 else "" for field in fields]
    if not any(told):
        return None
    found = {}
    for high in range(len(fields)):
        for low in range(high):
            domain = fields[low][2]
            same = domain != "" and domain == fields[high][2]
            even = int(told[0][1], 36) if told[0].startswith("*") else 0
            count = even * same if told[0].startswith("*") else int(told[high][low], 36)
            found[low, high] = found[high, low] = count
    return found


def joined_by_hand(layout: str, chosen: Sequence[int]) -> tuple[int, int, int]:
    """Reach, the narrowest way and all links of a set: every way over every slot of it is tried."""
    links = links_by_hand(layout)
    if links is None or len(chosen) == 1:
        return 0, 0, 0
    wide = {pair: links[pair] for pair in permutations(chosen, 2)}
    direct = all(wide.values())
    total = sum(wide.values()) // 2
    if direct:
        return 0, min(wide.values()), total
    for over in chosen:
        for one, other in permutations(set(chosen) - {over}, 2):
            wide[one, other] = max(wide[one, other], min(wide[one, over], wide[over, other]))
    narrowest = min(wide.values())
    return (1 if narrowest else 2), narrowest, total


def by_hand(place: Place, want: Want) -> tuple[tuple[int, ...], int] | None:
    """Every slot set that fits, compared in the documented order, without any cleverness."""
    free = indices(place.free_mask)
    usable = [k for k in free if not want.exclusive_nic or place.exclusive_mask >> k & 1]
    where, links = groups(place.layout), links_by_hand(place.layout)
    inside = []
    for chosen in combinations(usable, want.slots):
        numas = {where[k][0] for k in chosen}
        switches, domains = {where[k][1] for k in chosen}, {where[k][2] for k in chosen}
        reach, narrowest, total = joined_by_hand(place.layout, chosen)
        spans = (reach, -narrowest, len(numas), -total, len(switches), len(domains))
        left = [k for k in free if k not in chosen]
        cut = sum(links[k, other] for k in chosen for other in left) if links else 0
        in_numa = sum(where[k][0] in numas for k in left)
        inside.append((spans, cut, in_numa, chosen, len(left)))
    if not inside:
        return None
    spans, _, in_numa, chosen, on_node = min(inside)
    mask = sum(1 << k for k in chosen)
    lost = AHEAD.growth(place.layout, place.slot_count, place.free_mask, mask)
    return (*spans, lost, in_numa, on_node, *chosen, place.num), mask


@given(places(), wants)
@settings(max_examples=400, deadline=None)
def test_the_slot_set_of_a_node_is_the_best_of_all_that_fit(place: Place, want: Want) -> None:
    option = best_option(place, want, AHEAD)
    best = by_hand(place, want)
    assert (None if option is None else (option.score, option.mask)) == best


@given(fleets, wants)
@settings(max_examples=200, deadline=None)
def test_nodes_are_ranked_by_the_same_order(fleet: tuple[Place, ...], want: Want) -> None:
    scores = sorted(found[0] for place in fleet if (found := by_hand(place, want)))
    assert [option.score for option in rank(fleet, want, limit=10, ahead=AHEAD)] == scores
    assert [option.score for option in rank(fleet, want, limit=1, ahead=AHEAD)] == scores[:1]


@given(places())
def test_a_whole_node_is_had_only_when_all_of_it_is_free(place: Place) -> None:
    option = best_option(place, Want(0))
    full = (1 << place.slot_count) - 1
    assert (option is not None) == (place.free_mask == full)
    assert option is None or option.mask == full


@given(fleets, st.lists(wants, max_size=12))
@settings(max_examples=200, deadline=None)
def test_a_batch_chooses_what_one_at_a_time_would(
    fleet: tuple[Place, ...], asked: list[Want]
) -> None:
    board, now = Board(AHEAD), list(fleet)
    for want in asked:
        if not board.knows(want):
            board.offer(want, fleet)
        best = board.best(want)
        assert best == next(iter(rank(now, want, limit=1, ahead=AHEAD)), None)
        if best is not None:
            board.take(best, want)
            now = [taken(place, best, want) if place.num == best.num else place for place in now]


@given(places(), wants)
def test_what_was_taken_is_free_no_more(place: Place, want: Want) -> None:
    option = best_option(place, want)
    if option is None:
        return
    after = taken(place, option, want)
    assert after.free_mask | option.mask == place.free_mask
    assert after.free_mask & option.mask == 0
    assert after.generation == place.generation + 1


def test_a_pair_keeps_to_one_switch_and_uses_what_is_broken_already() -> None:
    wired = "0.0.0|0.0.0|0.1.0|0.1.0|1.2.0|1.2.0|1.3.0|1.3.0"
    whole = Place(1, 0, 0b1111_1111, 8, wired)
    assert indices(best_option(whole, Want(2)).mask) == [0, 1]  # type: ignore[union-attr]  # it fits
    broken = Place(1, 0, 0b1111_1011, 8, wired)
    assert indices(best_option(broken, Want(2)).mask) == [0, 1]  # type: ignore[union-attr]  # it fits
    single = best_option(broken, Want(1))
    assert single is not None
    assert indices(single.mask) == [0]
    fuller = Place(2, 0, 0b0011_0000, 8, wired)
    assert [o.num for o in rank([whole, fuller], Want(2), limit=2)] == [2, 1]


def test_a_node_with_very_many_slots_is_filled_numa_by_numa() -> None:
    layout = "|".join(f"{k // 15}..0" for k in range(60))
    place = Place(1, 0, (1 << 60) - 1, 60, layout)
    option = best_option(place, Want(15))
    assert isinstance(option, Option)
    assert option.explained()["numa_nodes"] == 1
    assert len(indices(option.mask)) == 15
