"""Who in this process asks GPUs, while another of it takes one from its driver or resets it?

Claims are worked on at once, and whoever asks NVML has all GPUs open: the driver resets none so,
and waits in the kernel before it lets go of one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from nodeagent.host.cleanup.steps import StepFailed

# Longer than a reset, so that nobody fails for another's.
ON_S: Final = 300.0
OFF_S: Final = 60.0
_LOOK_S = 0.05


class Hands:
    """Any number that ask, or one before which nobody does. others: asks begun elsewhere."""

    def __init__(self, others: Callable[[], int] = lambda: 0) -> None:
        self._others = others
        self._change = threading.Condition()
        self._on = 0
        self._away = 0
        self._alone = threading.Lock()

    @contextmanager
    def on(self, within_s: float = ON_S) -> Iterator[None]:
        """GPUs may be asked while inside. Raises StepFailed where that is not free in time."""
        with self._change:
            if not self._change.wait_for(lambda: not self._away, within_s):
                raise StepFailed(f"a GPU has been taken away or reset for {within_s:g} s")
            self._on += 1
        try:
            yield
        finally:
            with self._change:
                self._on -= 1
                self._change.notify_all()

    @contextmanager
    def off(self, within_s: float = OFF_S) -> Iterator[None]:
        """Nobody of this process asks while inside. Raises StepFailed where somebody goes on."""
        late = StepFailed(f"this helper itself has GPUs open, and has not ended in {within_s:g} s")
        with self._change:
            self._away += 1
        try:
            if not self._alone.acquire(timeout=within_s + ON_S):
                raise late
            try:
                self._wait(time.monotonic() + within_s, late)
                yield
            finally:
                self._alone.release()
        finally:
            with self._change:
                self._away -= 1
                self._change.notify_all()

    def _wait(self, until: float, late: StepFailed) -> None:
        with self._change:
            # What is asked elsewhere notifies nobody here.
            while self._on or self._others():
                if time.monotonic() > until:
                    raise late
                self._change.wait(_LOOK_S)
