"""How is NVML opened, asked, and let go of in time?

One `Nvml` a process. Whoever reads opens a session; a session's handles end with it. Before a GPU
is reset, rebound or repartitioned, `released` waits until no session is open and keeps new ones
out, because the driver refuses to let go of a device that anybody holds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pynvml

from nodeagent.host.facts import Fact, absent, present, unknown

T = TypeVar("T")

# NVML's return codes (nvml.h, nvmlReturn_enum) as reasons. Anything else is nvml_error_<number>.
_REASONS = {
    1: "nvml_uninitialised",
    2: "invalid_argument",
    4: "no_permission",
    7: "insufficient_size",
    8: "insufficient_power",
    9: "driver_not_loaded",
    10: "timeout",
    11: "irq_issue",
    12: "library_missing",
    13: "symbol_missing",
    14: "corrupted_inforom",
    15: "gpu_lost",
    16: "reset_required",
    17: "operating_system",
    18: "version_mismatch",
    19: "in_use",
    20: "out_of_memory",
    21: "no_data",
    23: "insufficient_resources",
    25: "argument_version_mismatch",
    26: "deprecated",
    27: "not_ready",
    28: "gpu_not_found",
    29: "invalid_state",
    999: "nvml_unknown",
}
# These two mean that whoever knows says: there is none.
_ABSENCES = {3: "not_supported", 6: "not_found"}
LOST = frozenset({"gpu_lost", "gpu_not_found"})


class NvmlUnavailable(Exception):
    """NVML cannot be asked at all. reason: library_missing, driver_not_loaded, …"""

    def __init__(self, reason: str) -> None:
        super().__init__(f"NVML cannot be used: {reason}")
        self.reason = reason


class NvmlBusy(Exception):
    """Somebody still held NVML when a device had to be let go of."""


def reason_of(error: BaseException) -> str:
    """The reason code of whatever a call raised."""
    if isinstance(error, pynvml.NVMLError):
        number = int(error.value)
        return _ABSENCES.get(number) or _REASONS.get(number) or f"nvml_error_{number}"
    if isinstance(error, UnicodeDecodeError):
        return "unreadable_text"
    return "unreadable_answer"


class NvmlSession:
    """An open NVML. Handles belong to it and must not be kept beyond it."""

    def count(self) -> int:
        """How many GPUs the driver has. Raises NvmlUnavailable."""
        try:
            return int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            raise NvmlUnavailable(reason_of(error)) from error

    def ask(self, call: Callable[..., Any], *arguments: Any) -> Fact[Any]:
        """One call as a fact: what it returned, not supported, or unknown with the reason."""
        try:
            return present(call(*arguments))
        except pynvml.NVMLError as error:
            reason = reason_of(error)
            return absent(reason) if int(error.value) in _ABSENCES else unknown(reason)
        except (UnicodeDecodeError, ValueError, TypeError, AttributeError) as error:
            # A library newer or older than its binding may hand out what cannot be read.
            return unknown(reason_of(error))


class Nvml:
    """The door to NVML of this process."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._open = 0
        self._wanted = 0

    @property
    def open_sessions(self) -> int:
        """How many sessions are open now."""
        return self._open

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for NVML to be let go of; a long session should end then."""
        return self._wanted > 0

    @contextmanager
    def session(self) -> Iterator[NvmlSession]:
        """Open NVML. Raises NvmlUnavailable; reason `released` while a device is reconfigured."""
        with self._change:
            if self._wanted:
                raise NvmlUnavailable("released")
            self._open += 1
        try:
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                raise NvmlUnavailable(reason_of(error)) from error
            try:
                yield NvmlSession()
            finally:
                _shut_down()
        finally:
            with self._change:
                self._open -= 1
                self._change.notify_all()

    @contextmanager
    def released(self, *, wait_s: float = 10.0) -> Iterator[None]:
        """No handle is open while inside. Raises NvmlBusy when a session does not end in time."""
        until = time.monotonic() + wait_s
        with self._change:
            self._wanted += 1
            try:
                while self._open:
                    left = until - time.monotonic()
                    if left <= 0 or not self._change.wait(left):
                        raise NvmlBusy(f"{self._open} NVML sessions did not end in {wait_s:g} s")
            except BaseException:
                self._wanted -= 1
                raise
        try:
            yield
        finally:
            with self._change:
                self._wanted -= 1
                self._change.notify_all()


def _shut_down() -> None:
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        # The driver went away under the session; there is nothing left to close.
        return
