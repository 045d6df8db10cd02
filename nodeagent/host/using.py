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
# For as long as a hand-over waits.
_LONG_S = 15.0
_MOST_NAMED = 8


@dataclass(frozen=True, order=True)
class _Use:
    gpu: str
    pid: int
    name: str


class GpuUsers:
    """Who has had which GPU open since when. ask: the helper, None where it does not say."""

    def __init__(self, ask: Callable[[], Held | None]) -> None:
        self._ask = ask
        self._at = float("-inf")
        self._since: dict[_Use, float] = {}

    def conditions(self, now: float, *, burning: bool) -> tuple[Condition, ...]:
        """One for each GPU that has been open for long. now: in seconds of one clock."""
        if burning:
            self._since.clear()
            return ()
        if not 0 <= now - self._at < _EVERY_S:
            self._look(now)
        by_gpu: dict[str, list[_Use]] = {}
        for use, since in sorted(self._since.items()):
            if now - since >= _LONG_S:
                by_gpu.setdefault(use.gpu, []).append(use)
        return tuple(Condition(GPU_IN_USE, _said(by), device=gpu) for gpu, by in by_gpu.items())

    def _look(self, now: float) -> None:
        self._at = now
        told = self._ask()
        if told is None:
            return
        seen = {_Use(one.gpu, one.pid, one.name) for one in told.holders if one.pid != os.getpid()}
        hidden, unknown = set(told.unseen), set(told.unknown)
        seen |= {use for use in self._since if use.pid in hidden or use.gpu in unknown}
        self._since = {use: min(self._since.get(use, now), now) for use in seen}


def _said(uses: list[_Use]) -> str:
    named = ", ".join(f"{one.pid} ({one.name})" for one in uses[:_MOST_NAMED])
    more = f" and {len(uses) - _MOST_NAMED} more" if len(uses) > _MOST_NAMED else ""
    return (
        f"it is open in {named}{more}, for which its driver would wait: it goes to no machine "
        "until that has ended or lets go of it (DCGM: systemctl stop nvidia-dcgm)"
    )
