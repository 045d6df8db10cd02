"""What is the free part of a shared GPU worth?  Shares are cut from GPUs as stock is cut.

A mix of share sizes has a cheapest way to be cut from whole GPUs: a linear programme over
cutting patterns (Gilmore and Gomory, 1961). Its dual prices say what part of a GPU each size
is worth while GPUs are the scarce thing: a size that fills gaps which others leave anyway
costs nothing, a size that spoils a whole GPU costs all of it. A free part is worth the best
set of sizes that still goes into it. What a placement loses is never negative:

    lost = worth(before) - worth(after) - price(size)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from placement.domain.demand import WHOLE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 1000
"""Patterns tried at most. Prices of an unfinished search are scaled so that they stay valid."""
SLACK = 1e-9


def _fill(sizes: Ints, prices: Floats, units: int) -> tuple[Floats, Ints]:
    """Best value of every free part of 0..units, and the size that reaches it (-1: none)."""
    value = np.zeros(units + 1)
    chosen = np.full(units + 1, -1, dtype=np.int64)
    for free in range(int(sizes.min()), units + 1):
        fitting = int(np.searchsorted(sizes, free, side="right"))
        options = value[free - sizes[:fitting]] + prices[:fitting]
        best = int(options.argmax())
        value[free] = value[free - 1]
        if options[best] > value[free] + SLACK:
            value[free], chosen[free] = options[best], best
    return value, chosen


def _pattern(sizes: Ints, chosen: Ints) -> Floats:
    """How often each size is cut from a whole GPU in the best filling."""
    counts = np.zeros(len(sizes))
    free = len(chosen) - 1
    while free > 0:
        size = int(chosen[free])
        if size < 0:
            free -= 1
        else:
            counts[size] += 1
            free -= int(sizes[size])
    return counts


def _prices(patterns: Floats) -> Floats:
    """The prices at which every pattern in use fills a whole GPU's worth exactly."""
    return np.asarray(np.linalg.solve(patterns.T, np.ones(len(patterns))), dtype=np.float64)


def _solve(sizes: Ints, demand: Floats, units: int) -> Floats:
    """Dual prices of cutting ``demand`` from as few wholes as can be: column generation."""
    patterns = np.diag((units // sizes).astype(np.float64))
    prices = _prices(patterns)
    for _ in range(ROUNDS):
        value, chosen = _fill(sizes, prices, units)
        if value[units] <= 1 + SLACK:
            break
        fresh = _pattern(sizes, chosen)
        used = np.linalg.solve(patterns, demand)
        step = np.linalg.solve(patterns, fresh)
        grows = step > SLACK
        ratio = np.where(grows, used / np.where(grows, step, 1.0), np.inf)
        patterns[:, int(ratio.argmin())] = fresh
        prices = _prices(patterns)
    prices = np.maximum(prices, 0.0)
    prices /= max(1.0, float(_fill(sizes, prices, units)[0][units]))
    return prices


class Gaps:
    """Prices of share sizes and the worth of every free part, both in GPU-milli.

    ``worth[f]`` belongs to ``f`` free milli of one GPU, 0 to 1000; the whole is worth 1000.
    With no shares in the mix only a whole free GPU is worth anything.
    """

    def __init__(self, demand: Mapping[int, float]) -> None:
        """``demand``: size in milli, 1 to 999 → how often it is asked for (any positive scale)."""
        if any(not 0 < size < WHOLE for size in demand):
            raise ValueError("a share is 1 to 999 milli of a GPU")
        asked = {size: often for size, often in sorted(demand.items()) if often > 0}
        self.prices: dict[int, float] = {}
        self.worth: Floats = np.zeros(WHOLE + 1)
        if asked:
            unit = reduce(gcd, asked, WHOLE)
            sizes = np.array(list(asked), dtype=np.int64) // unit
            often = np.array(list(asked.values()), dtype=np.float64)
            prices = _solve(sizes, often / often.sum(), WHOLE // unit)
            self.prices = dict(zip(asked, (prices * WHOLE).tolist(), strict=True))
            self.worth = _fill(sizes, prices, WHOLE // unit)[0].repeat(unit)[: WHOLE + 1] * WHOLE
        self.worth[WHOLE] = WHOLE

    def lost(self, before: Ints, size: int) -> Floats:
        """GPU-milli of worth lost where ``size`` is cut from free parts ``before`` (all ≥ size).

        A size that the mix does not know is priced as the best filling of a gap of its length.
        """
        price = self.prices.get(size, float(self.worth[size]))
        lost: Floats = np.maximum(self.worth[before] - self.worth[before - size] - price, 0.0)
        return lost
