"""Are the prices of shares the best ones, and is a gap worth its best filling?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.gaps import Gaps

SIZES = st.sampled_from([150, 200, 250, 300, 350, 450, 500, 600, 650, 750, 800, 950])
DEMAND = st.dictionaries(SIZES, st.integers(1, 50), min_size=1, max_size=4)


def cuttings(sizes: Sequence[int], room: int) -> Iterator[tuple[int, ...]]:
    """Every way to cut ``room`` into sizes: how often each."""
    for counts in product(*(range(room // size + 1) for size in sizes)):
        if sum(n * size for n, size in zip(counts, sizes, strict=True)) <= room:
            yield counts


def best_filling(gaps: Gaps, room: int) -> float:
    sizes = list(gaps.prices)
    return max(
        sum(n * gaps.prices[size] for n, size in zip(counts, sizes, strict=True))
        for counts in cuttings(sizes, room)
    )


@given(DEMAND)
@settings(max_examples=60)
def test_no_cutting_of_a_gpu_is_worth_more_than_the_gpu(demand: dict[int, int]) -> None:
    gaps = Gaps(demand)
    assert min(gaps.prices.values()) >= 0
    assert best_filling(gaps, 1000) <= 1000 + 1e-6


@given(DEMAND, st.integers(0, 999))
@settings(max_examples=60)
def test_a_gap_is_worth_its_best_filling(demand: dict[int, int], room: int) -> None:
    gaps = Gaps(demand)
    assert gaps.worth[room] == pytest.approx(best_filling(gaps, room), abs=1e-6)


@given(
    st.tuples(SIZES, SIZES).filter(lambda p: p[0] < p[1]), st.integers(1, 50), st.integers(1, 50)
)
def test_prices_of_two_sizes_are_the_best_that_there_are(
    sizes: tuple[int, int], first: int, second: int
) -> None:
    """The dual of two variables has its best value in a corner: all corners are tried."""
    lines = [np.array(c, dtype=float) for c in cuttings(sizes, 1000) if any(c)]
    lines_and_axes = [(line, 1.0) for line in lines] + [
        (np.array([1.0, 0.0]), 0.0),
        (np.array([0.0, 1.0]), 0.0),
    ]
    best = 0.0
    for (a, x), (b, y) in combinations(lines_and_axes, 2):
        if abs(np.linalg.det(np.array([a, b]))) < 1e-9:
            continue
        corner = np.linalg.solve(np.array([a, b]), np.array([x, y]))
        if (corner >= -1e-9).all() and all(line @ corner <= 1 + 1e-9 for line in lines):
            best = max(best, float(corner @ np.array([first, second])))
    prices = Gaps({sizes[0]: first, sizes[1]: second}).prices
    assert (prices[sizes[0]] * first + prices[sizes[1]] * second) / 1000 == pytest.approx(best)


@given(DEMAND, SIZES, st.data())
def test_a_cut_never_wins_worth(demand: dict[int, int], size: int, data: st.DataObject) -> None:
    before = data.draw(st.integers(size, 1000))
    assert Gaps(demand).lost(np.array([before]), size)[0] >= 0


def test_a_size_that_spoils_a_gpu_costs_all_of_it_and_what_fills_the_gap_is_free() -> None:
    assert Gaps({810: 10, 160: 1}).prices == pytest.approx({160: 0, 810: 1000})


def test_when_small_ones_abound_they_have_their_price_and_the_large_one_less() -> None:
    prices = Gaps({810: 1, 160: 100}).prices
    assert prices == pytest.approx({160: 1000 / 6, 810: 1000 * 5 / 6})


def test_a_share_that_fits_a_gap_exactly_loses_nothing_and_a_fresh_gpu_is_spoilt() -> None:
    gaps = Gaps({700: 5, 300: 5})
    lost = gaps.lost(np.array([700, 1000]), 700)
    assert lost == pytest.approx([0, 0])
    spoilt = Gaps({700: 5, 400: 5}).lost(np.array([700, 1000]), 400)
    assert spoilt[0] > spoilt[1]


def test_without_shares_only_a_whole_gpu_is_worth_anything() -> None:
    gaps = Gaps({})
    assert gaps.worth[1000] == 1000
    assert gaps.worth[:1000].sum() == 0


@pytest.mark.parametrize("size", [0, 1000, -5])
def test_a_size_that_is_no_share_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="share"):
        Gaps({size: 1})


def test_sizes_without_a_common_step_are_priced_too() -> None:
    prices = Gaps({333: 1, 334: 1, 501: 3}).prices
    assert prices[501] == pytest.approx(1000, abs=500)
    assert 3 * prices[333] <= 1000 + 1e-6
