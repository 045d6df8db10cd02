"""What is asked for, and in what mix?  Bundles and the demand mix that scoring looks ahead with.

Units: CPU in milli-cores, memory in MiB, GPUs in milli (1000 is one whole GPU).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WHOLE = 1000
"""Milli-units of one GPU."""
_COARSER = (6, 4, 3, 2, 1)


@dataclass(frozen=True, slots=True)
class Bundle:
    """What one placement takes from one host.

    ``gpu_milli`` is taken from each of ``gpus`` GPUs. Less than a whole GPU is a share, and a
    share is of one GPU. ``models`` names the GPU models that will do; empty means any.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    models: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.memory_mib, self.gpus) < 0:
            raise ValueError("a bundle takes no negative amount")
        if self.gpus == 0 and self.gpu_milli != 0:
            raise ValueError("a share needs one GPU")
        if self.gpus and not 0 < self.gpu_milli <= WHOLE:
            raise ValueError("a GPU is taken in parts of 1 to 1000 milli")
        if self.gpus > 1 and self.gpu_milli != WHOLE:
            raise ValueError("several GPUs are taken whole")

    @property
    def shared(self) -> bool:
        """Whether a part of one GPU is asked for."""
        return 0 < self.gpu_milli < WHOLE

    @property
    def demand_milli(self) -> int:
        """GPU-milli taken in all."""
        return self.gpus * self.gpu_milli

    def runs_on(self, model: str) -> bool:
        """Whether a GPU model will do."""
        return not self.models or model in self.models


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each bundle is asked for: the parts sum to 1, most frequent first.

    A mix is a memory of requests: it holds no order and nothing of what will come.
    """

    parts: tuple[tuple[Bundle, float], ...] = ()

    @classmethod
    def counted(cls, counts: Mapping[Bundle, int], *, limit: int = 512) -> Mix:
        """The mix of a histogram.

        Beyond ``limit`` kinds those that differ little in CPU and memory count as one, coarser
        until they are few enough; where that does not suffice, the rarest are left out.
        """
        merged = {bundle: count for bundle, count in counts.items() if count > 0}
        for digits in _COARSER:
            if len(merged) <= limit:
                break
            merged = _merged(merged, digits)
        kept = sorted(
            merged.items(),
            key=lambda entry: (-entry[1], _order(entry[0])),
        )[:limit]
        total = sum(count for _, count in kept)
        return cls(tuple((bundle, count / total) for bundle, count in kept))

    @classmethod
    def seen(cls, bundles: Iterable[Bundle], *, limit: int = 512) -> Mix:
        """The mix of what has been asked for so far."""
        counts: dict[Bundle, int] = {}
        for bundle in bundles:
            counts[bundle] = counts.get(bundle, 0) + 1
        return cls.counted(counts, limit=limit)

    def share_sizes(self) -> dict[int, float]:
        """GPU-milli of each share size → how often it is asked for."""
        sizes: dict[int, float] = {}
        for bundle, weight in self.parts:
            if bundle.shared:
                sizes[bundle.gpu_milli] = sizes.get(bundle.gpu_milli, 0.0) + weight
        return dict(sorted(sizes.items()))

    def per_gpu_milli(self) -> tuple[float, float] | None:
        """CPU milli and memory MiB asked for per GPU-milli; None while no GPU was asked for."""
        gpu = sum(weight * bundle.demand_milli for bundle, weight in self.parts)
        if not gpu:
            return None
        cpu = sum(weight * bundle.cpu_milli for bundle, weight in self.parts)
        memory = sum(weight * bundle.memory_mib for bundle, weight in self.parts)
        return cpu / gpu, memory / gpu


def _merged(counts: Mapping[Bundle, int], digits: int) -> dict[Bundle, int]:
    """The histogram with CPU and memory rounded to so many binary digits."""
    merged: dict[Bundle, int] = {}
    for bundle, count in counts.items():
        cpu, memory = _rounded(bundle.cpu_milli, digits), _rounded(bundle.memory_mib, digits)
        kind = Bundle(cpu, memory, bundle.gpus, bundle.gpu_milli, bundle.models)
        merged[kind] = merged.get(kind, 0) + count
    return merged


def _rounded(amount: int, digits: int) -> int:
    """The nearest amount with so many binary digits before its zeros."""
    zeros = max(amount.bit_length() - digits, 0)
    return (amount + (1 << zeros >> 1)) >> zeros << zeros


def _order(bundle: Bundle) -> tuple[int, int, int, int, tuple[str, ...]]:
    return (
        bundle.gpus,
        bundle.gpu_milli,
        bundle.cpu_milli,
        bundle.memory_mib,
        tuple(sorted(bundle.models)),
    )
