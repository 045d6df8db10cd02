"""How much free GPU capacity on a host is of no use to the demand mix?

``fragments`` is the expected fragmentation of Weng et al., "Beware of Fragmentation" (USENIX
ATC 2023): over the bundles of the mix, weighted by how often each is asked for, the free
GPU-milli that the bundle cannot use. All of it where the bundle does not fit the host (CPU,
memory, model, GPU count), otherwise the free parts that are smaller than what it takes of a GPU.

``stranded`` is what that measure cannot see: a host with eight free GPUs and CPU for one bundle
is "usable" to every bundle, once. Free GPU-milli beyond what the free CPU and memory carry at
the mix's average per GPU-milli are stranded.

Everything works on many host states at once: arrays whose first axis is the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placement.domain.demand import Mix

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Free:
    """Free capacity of S host states: CPU milli, memory MiB and model code of shape (S,),
    GPU-milli of shape (S, G) with 0 for a GPU that is full or not there."""

    cpu: Ints
    memory: Ints
    model: Ints
    gpus: Ints

    def rows(self, index: Ints) -> Free:
        """The states of some rows, copied."""
        return Free(self.cpu[index], self.memory[index], self.model[index], self.gpus[index])


class Measure:
    """A demand mix compiled for a list of GPU models; model codes are positions in that list."""

    def __init__(self, mix: Mix, models: Sequence[str]) -> None:
        bundles = [bundle for bundle, _ in mix.parts]
        weights = np.array([weight for _, weight in mix.parts], dtype=np.float64)
        self._cpu: Ints = np.array([b.cpu_milli for b in bundles], dtype=np.int64)
        self._memory: Ints = np.array([b.memory_mib for b in bundles], dtype=np.int64)
        self._runs: Bools = np.array(
            [[b.runs_on(model) for b in bundles] for model in models], dtype=np.bool_
        ).reshape(len(models), len(bundles))
        # Bundles that take GPUs alike share one column: what differs is only whether they fit.
        kinds = sorted({(b.gpus, b.gpu_milli) for b in bundles if b.gpus})
        self._gpus: Ints = np.array([gpus for gpus, _ in kinds], dtype=np.int64)
        sizes = sorted({milli for _, milli in kinds})
        self._sizes: Ints = np.array(sizes, dtype=np.int64)
        self._size_of: Ints = np.array([sizes.index(milli) for _, milli in kinds], dtype=np.int64)
        self._often: Floats = np.zeros((len(bundles), len(kinds)))
        for row, bundle in enumerate(bundles):
            if bundle.gpus:
                self._often[row, kinds.index((bundle.gpus, bundle.gpu_milli))] = weights[row]
        self._total = float(weights.sum())
        self._per_gpu = mix.per_gpu_milli()

    def fragments(self, free: Free) -> Floats:
        """Expected GPU-milli of each state that a bundle drawn from the mix cannot use."""
        total = free.gpus.sum(axis=1)
        fits = (
            (free.cpu[:, None] >= self._cpu)
            & (free.memory[:, None] >= self._memory)
            & self._runs[free.model]
        )
        often = fits.astype(np.float64) @ self._often
        enough = free.gpus[:, :, None] >= self._sizes
        count = enough.sum(axis=1)[:, self._size_of]
        usable = (free.gpus[:, :, None] * enough).sum(axis=1)[:, self._size_of]
        out: Floats = total * self._total - (often * usable * (count >= self._gpus)).sum(axis=1)
        return out

    def stranded(self, free: Free) -> Floats:
        """GPU-milli of each state beyond what its free CPU and memory carry."""
        total = free.gpus.sum(axis=1).astype(np.float64)
        if self._per_gpu is None:
            return np.zeros_like(total)
        carried = np.full_like(total, np.inf)
        for amount, per_gpu in zip((free.cpu, free.memory), self._per_gpu, strict=True):
            if per_gpu:
                carried = np.minimum(carried, amount / per_gpu)
        out: Floats = np.maximum(total - carried, 0.0)
        return out
