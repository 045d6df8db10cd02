"""What does a comparison of two sides say, and how much noise is in it?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

FEWEST = 5


class NotInterleavedError(ValueError):
    """The two sides did not run in turn: what the machine did meanwhile is in the ratio."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Interleaved runs of two sides: A B A B, in the order they were made.

    ``order`` is that order, a letter a run; without A B A B there is no ratio.
    """

    a: tuple[float, ...]
    b: tuple[float, ...]
    order: str
    unit: str = "claims/s"
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """A ÷ B of each pair. Raises NotInterleavedError."""
        if len(self.a) < FEWEST or self.order != "AB" * len(self.a):
            raise NotInterleavedError(
                f"the runs were {self.order or 'in no known order'}: a ratio needs A B A B, "
                f"at least {FEWEST} pairs"
            )
        return [a / b for a, b in zip(self.a, self.b, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the pairwise ratios."""
        return statistics.median(self.ratios)

    @property
    def noise(self) -> float:
        """Half the range of the middle half of the ratios, as a part of the median."""
        low, _, high = statistics.quantiles(self.ratios, n=4)
        return (high - low) / 2 / self.ratio

    def as_json(self) -> dict[str, object]:
        """The raw numbers, for the results file."""
        return {
            "unit": self.unit,
            "a": [round(value, 3) for value in self.a],
            "b": [round(value, 3) for value in self.b],
            "ratios": [round(value, 4) for value in self.ratios],
            "ratio": round(self.ratio, 4),
            "noise": round(self.noise, 4),
            **self.facts,
        }

    def told(self, name: str) -> str:
        """One line for people."""
        return (
            f"{name}: {self.ratio:.3f} ± {self.noise * 100:.0f} %   "
            f"A {statistics.median(self.a):.2f}, B {statistics.median(self.b):.2f} {self.unit}   "
            f"ratios {' '.join(f'{r:.3f}' for r in self.ratios)}"
        )


def interleaved(
    a: Callable[[], float],
    b: Callable[[], float],
    *,
    pairs: int,
    unit: str = "claims/s",
    **facts: object,
) -> Pairs:
    """Run A B A B …, after one unmeasured run of each."""
    if pairs < FEWEST:
        raise ValueError("a comparison has at least five pairs")
    a()
    b()
    seen: dict[str, list[float]] = {"A": [], "B": []}
    order = ""
    for _ in range(pairs):
        for letter, side in (("A", a), ("B", b)):
            seen[letter].append(side())
            order += letter
    return Pairs(tuple(seen["A"]), tuple(seen["B"]), order, unit, dict(facts))


def quantile(values: Sequence[float], part: float) -> float:
    """A quantile by the nearest rank; 0 for no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
