"""MIG geometry: what goes onto one GPU together, and where the next instance goes."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.protocol.parts import GpuPart, PartKind
from placement.domain.mig import (
    BOARDS,
    BoardKind,
    Conflict,
    Placement,
    Profile,
    best_start,
    bits,
    board_named,
    board_of,
    conflict_of,
    left,
    open_starts,
    packing,
    room,
    span_milli,
    state_of,
    states_by_preference,
    usefulness,
)

GIB = 2**30
H100 = next(board for board in BOARDS if board.name == "h100-80")
IDS = [board.name for board in BOARDS]


def _row(board: BoardKind, name: str) -> Profile:
    row = board.profile(name)
    assert row is not None, name
    return row


def _every_place(board: BoardKind) -> list[Placement]:
    return [Placement(s, row.size, row.name) for row in board.profiles for s in row.starts]


def _reachable(board: BoardKind) -> dict[int, list[Placement]]:
    """Every state that some valid set of instances gives, with one such set."""
    found: dict[int, list[Placement]] = {0: []}
    edge = [0]
    while edge:
        state = edge.pop()
        for row in board.profiles:
            for start in open_starts(board, state, row):
                one = Placement(start, row.size, row.name)
                after = state | bits(board, one)
                if after not in found:
                    found[after] = [*found[state], one]
                    edge.append(after)
    return found


@pytest.mark.parametrize(
    "names",
    [
        ["4g.40gb", "3g.40gb"],
        ["3g.40gb", "3g.40gb"],
        ["2g.20gb", "2g.20gb", "2g.20gb", "1g.10gb"],
        ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"],
        ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"],
        ["1g.10gb"] * 7,
        ["1g.20gb"] * 4,
        ["7g.80gb"],
        ["4g.40gb", "1g.10gb+me", "1g.20gb"],
    ],
)
def test_known_layouts_pack_in_any_order(names: list[str]) -> None:
    for order in (names, names[::-1]):
        found = packing(H100, order)
        assert not isinstance(found, Conflict), found
        assert sorted(one.profile for one in found) == sorted(names)
        assert conflict_of(H100, found) is None


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["3g.40gb", "3g.40gb", "1g.10gb"], "1g.10gb@0:1 is on 3g.40gb@0:4"),
        (["4g.40gb", "4g.40gb"], "4g.40gb@0:4 is on 4g.40gb@0:4"),
        (["4g.40gb", "3g.40gb", "1g.10gb"], "1g.10gb@4:1 is on 3g.40gb@4:4"),
        (["1g.10gb+me", "1g.10gb+me"], "1g.10gb+me@"),
        (["7g.80gb", "1g.10gb"], "1g.10gb@0:1 is on 7g.80gb@0:8"),
        (["1g.10gb"] * 8, "1g.10gb@6:1 is on 1g.10gb@6:1"),
    ],
)
def test_what_does_not_pack_names_the_spans(names: list[str], word: str) -> None:
    found = packing(H100, names)
    assert isinstance(found, Conflict)
    assert any(word in span for span in found.spans), found


def test_a_profile_of_another_board_is_named() -> None:
    assert packing(H100, ["1g.5gb"]) == Conflict("h100-80 has no profile 1g.5gb", ("1g.5gb",))
    wrong = conflict_of(H100, [Placement(1, 4, "3g.40gb")])
    assert wrong is not None
    assert wrong.reason == "3g.40gb is placed at 0:4, 4:4"
    both = conflict_of(H100, [Placement(0, 4, "4g.40gb"), Placement(2, 2, "2g.20gb")])
    assert both == Conflict("their memory slices overlap", ("4g.40gb@0:4", "2g.20gb@2:2"))


@pytest.mark.parametrize("board", BOARDS, ids=IDS)
def test_the_count_of_every_row_is_reached_and_never_exceeded(board: BoardKind) -> None:
    for row in board.profiles:
        assert room(board, 0, row) == row.most
        assert not isinstance(packing(board, [row.name] * row.most), Conflict)
        assert isinstance(packing(board, [row.name] * (row.most + 1)), Conflict)


@pytest.mark.parametrize("board", BOARDS, ids=IDS)
def test_compute_slices_suffice_wherever_memory_slices_are_disjoint(board: BoardKind) -> None:
    compute = {row.name: row.compute for row in board.profiles}
    states = {0: 0}  # the most compute that a set with these memory slices takes
    edge = [0]
    while edge:
        state = edge.pop()
        for row in board.profiles:
            for start in open_starts(board, state, row):
                after = state | bits(board, Placement(start, row.size, row.name))
                most = states[state] + compute[row.name]
                if most > states.get(after, -1):
                    states[after] = most
                    edge.append(after)
    assert max(states.values()) == board.compute


@pytest.mark.parametrize("board", BOARDS, ids=IDS)
def test_the_state_says_the_same_as_the_rows(board: BoardKind) -> None:
    """For pairs and triples of all places: valid together exactly where the bits are disjoint."""
    for several in (2, 3):
        for chosen in combinations(_every_place(board), several):
            disjoint = sum(bits(board, one).bit_count() for one in chosen)
            valid = state_of(board, chosen).bit_count() == disjoint
            assert (conflict_of(board, chosen) is None) == valid


@pytest.mark.parametrize("board", BOARDS, ids=IDS)
def test_the_start_leaves_most_of_use_by_brute_force(board: BoardKind) -> None:
    rows = sorted(board.profiles, key=lambda row: (-row.size, -row.compute, row.single))

    def most(state: int, row: Profile) -> int:
        counts = [
            1 + most(state | bits(board, Placement(s, row.size, row.name)), row)
            for s in open_starts(board, state, row)
        ]
        return max(counts, default=0)

    for state, row in product(list(_reachable(board))[::3], board.profiles):
        chosen = best_start(board, state, row)
        if chosen is None:
            assert not open_starts(board, state, row)
            continue
        left_by = {
            start: tuple(
                most(state | bits(board, Placement(start, row.size, row.name)), other)
                for other in rows
            )
            for start in open_starts(board, state, row)
        }
        best = max(left_by.values())
        assert left_by[chosen.start] == best == usefulness(board, state | bits(board, chosen))
        assert chosen.start == max(start for start in left_by if left_by[start] == best)


def test_small_instances_keep_the_large_places_open() -> None:
    one = _row(H100, "1g.10gb")
    assert best_start(H100, 0, one) == Placement(6, 1, "1g.10gb")
    with_one = state_of(H100, [Placement(6, 1, "1g.10gb")])
    assert room(H100, with_one, _row(H100, "4g.40gb")) == 1
    assert best_start(H100, 0, _row(H100, "3g.40gb")) == Placement(4, 4, "3g.40gb")


@pytest.mark.parametrize("board", BOARDS, ids=IDS)
def test_states_are_taken_fullest_first(board: BoardKind) -> None:
    for row in board.profiles:
        states = states_by_preference(board, row)
        free = [left(board, state) for state in states]
        assert free == sorted(free)
        assert set(states) == {s for s in range(1 << board.width) if open_starts(board, s, row)}


@given(board=st.sampled_from(BOARDS), data=st.data())
def test_spans_are_disjoint_exactly_where_slices_are(board: BoardKind, data: st.DataObject) -> None:
    places = st.sampled_from(_every_place(board))
    one, other = data.draw(places), data.draw(places)
    a, b = span_milli(board, one), span_milli(board, other)
    assert 0 <= a[0] < a[1] <= 1000
    slices = ((1 << board.slices) - 1) & bits(board, one) & bits(board, other)
    assert (a[0] < b[1] and b[0] < a[1]) == bool(slices)


@given(board=st.sampled_from(BOARDS), data=st.data())
def test_placing_one_after_another_never_conflicts(board: BoardKind, data: st.DataObject) -> None:
    rows = st.sampled_from(board.profiles)
    done: list[Placement] = []
    for row in data.draw(st.lists(rows, max_size=10)):
        one = best_start(board, state_of(board, done), row)
        if one is not None:
            done.append(one)
        assert conflict_of(board, done) is None


@pytest.mark.parametrize(
    ("model", "gib", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", 40, "a100-40"),
        ("NVIDIA A100-SXM4-80GB", 80, "a100-80"),
        ("NVIDIA A800-SXM4-80GB", 80, "a100-80"),
        ("NVIDIA H100 80GB HBM3", 79.6, "h100-80"),
        ("NVIDIA H100 NVL", 93.6, "h100-nvl-94"),
        ("NVIDIA GH200 480GB", 95.6, "h100-96"),
        ("NVIDIA H200", 140.4, "h200-141"),
        ("NVIDIA B200", 179, "b200-180"),
        ("NVIDIA GB200", 185, "gb200-186"),
        ("NVIDIA B300 SXM6 AC", 268.6, "b300-269"),
        ("NVIDIA GB300", 277.5, "gb300-278"),
        ("NVIDIA A30", 24, "a30-24"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 95.6, "rtx-pro-6000"),
    ],
)
def test_a_board_is_told_by_model_and_memory(model: str, gib: float, name: str) -> None:
    assert board_of(model, int(gib * GIB)) == board_named(name)


@pytest.mark.parametrize(
    ("model", "memory"),
    [
        (None, 80 * GIB),
        ("NVIDIA H100 80GB HBM3", None),
        ("", 80 * GIB),
        ("Tesla V100-SXM2-32GB", 32 * GIB),
        ("NVIDIA H100 80GB HBM3", 64 * GIB),
        ("NVIDIA GH200 144G HBM3e", 143 * GIB),
        ("AMD Instinct MI300X", 192 * GIB),
    ],
)
def test_what_is_unknown_has_no_board(model: str | None, memory: int | None) -> None:
    assert board_of(model, memory) is None


# Decoders and optical-flow engines of each profile of the RTX PRO 6000, of which a GPU has 4 and 1,
# and how many of it fit, as NVIDIA's MIG user guide has them.
DRAWING = {
    "1g.24gb": (1, 0, 4),
    "1g.24gb+me": (1, 1, 1),
    "1g.24gb+gfx": (1, 0, 4),
    "1g.24gb+me.all": (4, 1, 1),
    "1g.24gb-me": (0, 0, 4),
    "2g.48gb": (2, 0, 2),
    "2g.48gb+gfx": (2, 0, 2),
    "2g.48gb+me.all": (4, 1, 1),
    "2g.48gb-me": (0, 0, 2),
    "4g.96gb": (4, 1, 1),
    "4g.96gb+gfx": (4, 1, 1),
}
RTX = next(board for board in BOARDS if board.name == "rtx-pro-6000")


def test_a_board_that_can_draw_has_the_profiles_and_counts_of_the_guide() -> None:
    assert {row.name: row.most for row in RTX.profiles} == {
        name: most for name, (_, _, most) in DRAWING.items()
    }


def test_sets_go_together_where_their_memory_and_engines_suffice_and_nowhere_else() -> None:
    places = _every_place(RTX)
    for several in (1, 2, 3):
        for chosen in combinations(places, several):
            slices = [k for one in chosen for k in range(one.start, one.start + one.size)]
            decoders = sum(DRAWING[one.profile][0] for one in chosen)
            flow = sum(DRAWING[one.profile][1] for one in chosen)
            fits = len(set(slices)) == len(slices) and decoders <= 4 and flow <= 1
            assert (conflict_of(RTX, chosen) is None) == fits, chosen


def test_who_has_all_media_engines_leaves_none_to_the_others() -> None:
    assert not isinstance(packing(RTX, ["1g.24gb+me.all", *["1g.24gb-me"] * 3]), Conflict)
    assert not isinstance(packing(RTX, ["2g.48gb+me.all", "2g.48gb-me"]), Conflict)
    assert not isinstance(packing(RTX, ["1g.24gb+gfx", "1g.24gb", "1g.24gb+me"]), Conflict)
    for other in ("1g.24gb", "1g.24gb+gfx", "1g.24gb+me", "1g.24gb+me.all"):
        refused = packing(RTX, ["1g.24gb+me.all", other])
        assert isinstance(refused, Conflict), other
        assert refused.reason == "their media engines overlap"


@pytest.mark.parametrize("name", ["1g.10gb+gfx", "1g.10gb-me", "3g.40gb+me", "1g.10gb+me.all"])
def test_a_board_does_not_have_what_stands_behind_another_boards_profiles(name: str) -> None:
    assert packing(H100, [name]) == Conflict(f"h100-80 has no profile {name}", (name,))


@pytest.mark.parametrize("board", BOARDS, ids=IDS)
def test_every_profile_can_be_written_to_an_agent(board: BoardKind) -> None:
    for row in board.profiles:
        part = GpuPart(kind=PartKind.MIG, profile=row.name, start=row.starts[0], size=row.size)
        assert GpuPart.from_json(part.to_json()) == part
