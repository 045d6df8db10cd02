"""Which GPUs can go to no machine now, since somebody on the host has them open?

A driver does not give a GPU away while anybody has it open, and DCGM's host engine has all of them
open for as long as it runs. It is told before a lease meets it. Somebody who is gone before a
hand-over would have stopped waiting is no trouble; nor is what a burn-in does, which closes the
host by itself. What cannot be seen is unknown: it begins no trouble, and ends none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from nodeagent.host.helper.wire import Held
from nodeagent.protocol import Condition

GPU_IN_USE = "gpu_in_use"
_EVERY_S = 30.0
# While somebody was seen who may be gone at once.
_SOON_S = 5.0
# For as long as a hand-over waits.
_LONG_S = 15.0
_MOST_NAMED = 8


@dataclass(frozen=True, order=True)
class _Use:
    gpu: str
    pid: int
    name: str


@dataclass(frozen=True)
class _Seen:
    """When somebody was seen first and last, by looks that showed them."""

    first: float
    last: float

    @property
    def is_long(self) -> bool:
        """From one look to another: that it was seen once, however long ago, says nothing."""
        return self.last - self.first >= _LONG_S


class GpuUsers:
    """Who has had which GPU open since when. ask: the helper, None where it does not say."""

    def __init__(self, ask: Callable[[], Held | None]) -> None:
        self._ask = ask
        self._at = self._seen_at = float("-inf")
        self._seen: dict[_Use, _Seen] = {}

    def conditions(self, now: float, *, burning: bool) -> tuple[Condition, ...]:
        """One for each GPU that has been open for long. now: in seconds of one clock."""
        if burning:
            self._seen.clear()
            return ()
        if not 0 <= now - self._at < (_SOON_S if self._doubtful() else _EVERY_S):
            self._look(now)
        by_gpu: dict[str, list[_Use]] = {}
        for use, seen in sorted(self._seen.items()):
            if seen.is_long:
                by_gpu.setdefault(use.gpu, []).append(use)
        return tuple(Condition(GPU_IN_USE, _said(by), device=gpu) for gpu, by in by_gpu.items())

    def _doubtful(self) -> bool:
        return any(not one.is_long and one.last == self._seen_at for one in self._seen.values())

    def _look(self, now: float) -> None:
        self._at = now
        told = self._ask()
        if told is None:
            return
        self._seen_at = now
        hidden, unknown = set(told.unseen), set(told.unknown)
        kept = {
            use: one for use, one in self._seen.items() if use.pid in hidden or use.gpu in unknown
        }
        uses = {_Use(one.gpu, one.pid, one.name) for one in told.holders if one.pid != os.getpid()}
        firsts = {use: self._seen[use].first if use in self._seen else now for use in uses}
        self._seen = kept | {use: _Seen(min(first, now), now) for use, first in firsts.items()}


def _said(uses: list[_Use]) -> str:
    named = ", ".join(f"{one.pid} ({one.name})" for one in uses[:_MOST_NAMED])
    more = f" and {len(uses) - _MOST_NAMED} more" if len(uses) > _MOST_NAMED else ""
    return (
        f"it is open in {named}{more}, for which its driver would wait: it goes to no machine "
        "until that has ended or lets go of it (DCGM: systemctl stop nvidia-dcgm)"
    )
