"""What does a comparison of two sides say, and how much noise is in it?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pairs:
    """Interleaved runs of two sides: A B A B, in the order they were made."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    unit: str = "claims/s"
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """A ÷ B of each pair."""
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
    if pairs < 5:
        raise ValueError("a comparison has at least five pairs")
    a()
    b()
    left: list[float] = []
    right: list[float] = []
    for _ in range(pairs):
        left.append(a())
        right.append(b())
    return Pairs(tuple(left), tuple(right), unit, dict(facts))


def quantile(values: Sequence[float], part: float) -> float:
    """A quantile by the nearest rank; 0 for no values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
