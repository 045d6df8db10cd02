"""Whose turn is it at one claim, and for how long does anybody wait for theirs?"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from nodeagent.backend import BackendError

HELPER_BUSY = "helper_busy"
# Longer than what a claim is asked for takes, but for the overwriting of disks.
TURN_S = 600.0


@dataclass
class _Turn:
    """wanted: how many have or wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    wanted: int = 0


class ClaimTurns:
    """One at a time at each claim."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: dict[str, _Turn] = {}

    @contextlib.contextmanager
    def alone(self, claim: str, within_s: float = TURN_S) -> Iterator[None]:
        """Nobody else is at this claim while inside.

        Raises BackendError where whoever is does not end in time: a driver may keep it for ever,
        and everybody who waits has one of the helper's places.
        """
        with self._lock:
            turn = self._turns.setdefault(claim, _Turn())
            turn.wanted += 1
        try:
            if not turn.lock.acquire(timeout=within_s):
                detail = f"an earlier request for this claim has not ended in {within_s:g} s"
                raise BackendError(HELPER_BUSY, detail, retryable=True)
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            with self._lock:
                turn.wanted -= 1
                if not turn.wanted:
                    # Nobody waits for it; a host lives through more claims than it can remember.
                    del self._turns[claim]
