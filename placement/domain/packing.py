"""On which host does a bundle of CPU, memory and GPUs go, so that what is left stays useful?

The score of a placement, least first, is a sum of three amounts of GPU-milli:

    gap       worth lost of the shared GPU that is cut (placement.domain.gaps)
    fragment  growth of the host's expected fragmentation (placement.domain.fragmentation)
    stranded  growth of free GPUs beyond the free CPU and memory

each times its weight. Equal scores (to a micro-unit of one GPU): the host that was given first,
then the lower GPU index. The demand mix is an input: the fleet looks at no request but the one
it is asked about.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from placement.domain.demand import WHOLE, Bundle, Mix
from placement.domain.fragmentation import Floats, Free, Ints, Measure
from placement.domain.gaps import Gaps

NOWHERE = np.iinfo(np.int64).max
KEPT = 1024
"""Kinds of bundle whose scores are remembered; the longest unused is forgotten."""
REMEMBERED = 100_000
"""Changes after which all scores are forgotten, so that a long-lived fleet does not grow."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a lost GPU-milli of each kind costs. The plain published method is (0, 1, 0)."""

    gap: float = 10.0
    fragment: float = 1.0
    stranded: float = 0.2


@dataclass(frozen=True, slots=True)
class Host:
    """A host's free capacity: CPU milli, memory MiB, and the free milli of each of its GPUs.

    Of a GPU whose child spans are claimed, the free milli are what no live span covers.
    """

    name: str
    model: str
    cpu_milli: int
    memory_mib: int
    gpus: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.cpu_milli < 0 or self.memory_mib < 0:
            raise ValueError(f"{self.name} has less than nothing free")
        if any(not 0 <= free <= WHOLE for free in self.gpus):
            raise ValueError(f"a GPU of {self.name} has 0 to 1000 milli free")


@dataclass(frozen=True, slots=True)
class Choice:
    """A host and its GPUs for a bundle, with the score that ordered it, in GPU-milli."""

    bundle: Bundle
    position: int
    host: str
    gpus: tuple[int, ...]
    score: float
    gap: float
    fragment: float
    stranded: float

    def explained(self) -> dict[str, object]:
        """The score in words, for the decision trace."""
        return {
            "host": self.host,
            "gpus": list(self.gpus),
            "score": round(self.score, 3),
            "gap_lost": round(self.gap, 3),
            "fragment_growth": round(self.fragment, 3),
            "stranded_growth": round(self.stranded, 3),
        }


@dataclass(slots=True)
class _Scores:
    """What is remembered of one kind of bundle: per host its best score, terms and GPU."""

    total: Ints
    terms: Floats
    gpu: Ints
    seen: int


@lru_cache(maxsize=16)
def _compiled(mix: Mix, models: tuple[str, ...]) -> tuple[Measure, Gaps]:
    """Prices take milliseconds to find; fleets of many snapshots look ahead with one mix."""
    return Measure(mix, models), Gaps(mix.share_sizes())


class Fleet:
    """Hosts in compact arrays, with scores that are worked out again only where hosts changed.

    ``choose`` and ``ranked`` change nothing; ``take`` and ``give`` do. Not for several threads.
    """

    def __init__(self, hosts: Iterable[Host], mix: Mix, weights: Weights | None = None) -> None:
        self._hosts = tuple(hosts)
        self._weights = weights or Weights()
        names = sorted({host.model for host in self._hosts})
        self._models: tuple[str, ...] = tuple(names)
        width = max((len(host.gpus) for host in self._hosts), default=0)
        gpus = np.zeros((len(self._hosts), max(width, 1)), dtype=np.int64)
        for row, host in enumerate(self._hosts):
            gpus[row, : len(host.gpus)] = host.gpus
        self._free = Free(
            np.array([host.cpu_milli for host in self._hosts], dtype=np.int64),
            np.array([host.memory_mib for host in self._hosts], dtype=np.int64),
            np.array([names.index(host.model) for host in self._hosts], dtype=np.int64),
            gpus,
        )
        self._sizes = np.array([len(host.gpus) for host in self._hosts], dtype=np.int64)
        self.learn(mix)

    def learn(self, mix: Mix) -> None:
        """Score by another demand mix from now on."""
        self._measure, self._gaps = _compiled(mix, self._models)
        self._fragments = self._measure.fragments(self._free)
        self._stranded = self._measure.stranded(self._free)
        self._changed: list[int] = []
        self._known: OrderedDict[Bundle, _Scores] = OrderedDict()

    def host(self, position: int) -> Host:
        """A host as it is now."""
        host = self._hosts[position]
        return Host(
            host.name,
            host.model,
            int(self._free.cpu[position]),
            int(self._free.memory[position]),
            tuple(self._free.gpus[position, : len(host.gpus)].tolist()),
        )

    def choose(self, bundle: Bundle) -> Choice | None:
        """The best place for a bundle, or None when it fits on no host."""
        if not self._hosts:
            return None
        scores = self._scores(bundle)
        best = int(scores.total.argmin())
        return None if scores.total[best] == NOWHERE else self._choice(bundle, scores, best)

    def ranked(self, bundle: Bundle, *, limit: int) -> list[Choice]:
        """The best place on each host, best first, at most ``limit``."""
        scores = self._scores(bundle)
        order = np.argsort(scores.total, kind="stable")[:limit]
        fitting = [int(at) for at in order if scores.total[at] != NOWHERE]
        return [self._choice(bundle, scores, at) for at in fitting]

    def take(self, choice: Choice) -> None:
        """Take a choice that was made from the fleet as it is now. ValueError if it is gone."""
        self._move(choice, -1)

    def give(self, choice: Choice) -> None:
        """Give back what a choice took. ValueError if that would be more than there is."""
        self._move(choice, 1)

    def _move(self, choice: Choice, sign: int) -> None:
        at, bundle = choice.position, choice.bundle
        gpus = list(choice.gpus)
        after = self._free.gpus[at, gpus] + sign * bundle.gpu_milli
        cpu = int(self._free.cpu[at]) + sign * bundle.cpu_milli
        memory = int(self._free.memory[at]) + sign * bundle.memory_mib
        if cpu < 0 or memory < 0 or (after < 0).any() or (after > WHOLE).any():
            raise ValueError(f"{choice.host} does not hold this bundle now")
        self._free.cpu[at], self._free.memory[at] = cpu, memory
        self._free.gpus[at, gpus] = after
        one = self._free.rows(np.array([at]))
        self._fragments[at] = self._measure.fragments(one)[0]
        self._stranded[at] = self._measure.stranded(one)[0]
        self._changed.append(at)
        if len(self._changed) > REMEMBERED:
            self._changed.clear()
            self._known.clear()

    def _choice(self, bundle: Bundle, scores: _Scores, at: int) -> Choice:
        gpus: tuple[int, ...] = ()
        if bundle.shared:
            gpus = (int(scores.gpu[at]),)
        elif bundle.gpus:
            whole = np.flatnonzero(self._free.gpus[at] == WHOLE)[: bundle.gpus]
            gpus = tuple(whole.tolist())
        gap, fragment, stranded = scores.terms[at].tolist()
        return Choice(
            bundle=bundle,
            position=at,
            host=self._hosts[at].name,
            gpus=gpus,
            score=int(scores.total[at]) / WHOLE,
            gap=gap,
            fragment=fragment,
            stranded=stranded,
        )

    def _scores(self, bundle: Bundle) -> _Scores:
        """The remembered scores, brought up to date where hosts changed since."""
        scores = self._known.get(bundle)
        if scores is None:
            scores = self._known[bundle] = _Scores(
                np.full(len(self._hosts), NOWHERE, dtype=np.int64),
                np.zeros((len(self._hosts), 3)),
                np.full(len(self._hosts), -1, dtype=np.int64),
                len(self._changed),
            )
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
            self._update(bundle, scores, np.arange(len(self._hosts)))
            return scores
        self._known.move_to_end(bundle)
        if scores.seen < len(self._changed):
            changed = np.array(sorted(set(self._changed[scores.seen :])), dtype=np.int64)
            scores.seen = len(self._changed)
            scores.total[changed] = NOWHERE
            self._update(bundle, scores, changed)
        return scores

    def _update(self, bundle: Bundle, scores: _Scores, at: Ints) -> None:
        """Score the hosts ``at`` for a bundle and remember the best option of each."""
        runs = np.array([bundle.runs_on(model) for model in self._models], dtype=np.bool_)
        free = self._free
        whole = WHOLE if bundle.gpus and not bundle.shared else max(bundle.gpu_milli, 1)
        at = at[
            (free.cpu[at] >= bundle.cpu_milli)
            & (free.memory[at] >= bundle.memory_mib)
            & runs[free.model[at]]
        ]
        at = at[(free.gpus[at] >= whole).sum(axis=1) >= bundle.gpus]
        if not len(at):
            return
        rows, gpu, after = self._options(bundle, at)
        after.cpu[:] -= bundle.cpu_milli
        after.memory[:] -= bundle.memory_mib
        terms = np.zeros((len(rows), 3))
        if bundle.shared:
            terms[:, 0] = self._gaps.lost(free.gpus[rows, gpu], bundle.gpu_milli)
        terms[:, 1] = self._measure.fragments(after) - self._fragments[rows]
        terms[:, 2] = self._measure.stranded(after) - self._stranded[rows]
        weights = np.array(
            (self._weights.gap, self._weights.fragment, self._weights.stranded), dtype=np.float64
        )
        total = np.rint(terms @ weights * WHOLE).astype(np.int64)
        # Options of one host are neighbours; the least of (score, place in the list) wins.
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        count = len(rows)
        best = np.minimum.reduceat(total * count + np.arange(count), starts) % count
        scores.total[rows[best]] = total[best]
        scores.terms[rows[best]] = terms[best]
        scores.gpu[rows[best]] = gpu[best]

    def _options(self, bundle: Bundle, at: Ints) -> tuple[Ints, Ints, Free]:
        """Host, first GPU and free GPUs afterwards of every distinct way to place a bundle."""
        gpus = self._free.gpus[at]
        if not bundle.shared:
            after = self._free.rows(at)
            if bundle.gpus:
                whole = gpus == WHOLE
                taken = whole & (whole.cumsum(axis=1) <= bundle.gpus)
                after.gpus[taken] = 0
            return at, np.full(len(at), -1, dtype=np.int64), after
        # Of GPUs that are equally free only the first is an option of its own.
        width = gpus.shape[1]
        twin = (gpus[:, :, None] == gpus[:, None, :]) & np.tri(width, k=-1, dtype=np.bool_)
        row, gpu = np.nonzero((gpus >= bundle.gpu_milli) & ~twin.any(axis=2))
        rows = at[row]
        after = self._free.rows(rows)
        after.gpus[np.arange(len(rows)), gpu] -= bundle.gpu_milli
        return rows, gpu, after
