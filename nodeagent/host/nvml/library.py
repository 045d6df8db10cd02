"""How is NVML opened, asked, and let go of in time?

One `Nvml` a process. Whoever reads opens a session; a session's handles end with it. Before a GPU
is reset, rebound or repartitioned, `released` waits until no session is open and keeps new ones
out, because the driver refuses to let go of a device that anybody holds. A driver may keep a call
for minutes; whoever must not wait that long asks `within` a time.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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
# With these nobody is there to ask, and that is all there is to say; anything else is unknown.
NOBODY = frozenset({"library_missing", "driver_not_loaded"})
HANGS, OUTDATED = "driver_hangs", "version_mismatch"
_NAME = "libnvidia-ml.so.1"


# An older driver does not have the newer question, or not in this version.
_TOO_OLD = frozenset({"symbol_missing", "argument_version_mismatch"})


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
        except (ValueError, TypeError, AttributeError, ctypes.ArgumentError) as error:
            # A library newer or older than its binding may hand out what cannot be read.
            return unknown(reason_of(error))
        except (MemoryError, OverflowError):
            # It counted more than there can be.
            return unknown("out_of_range")

    def ask_either(
        self, call: Callable[..., Any], older: Callable[..., Any], *arguments: Any
    ) -> Fact[Any]:
        """As `ask`; where the driver is too old for the call, by the one of before."""
        asked = self.ask(call, *arguments)
        return self.ask(older, *arguments) if asked.reason in _TOO_OLD else asked


class Nvml:
    """The door to NVML of this process."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._open = 0
        self._wanted = 0
        self._asking = threading.Lock()
        self._hangs = False

    @property
    def open_sessions(self) -> int:
        """How many sessions are open now."""
        return self._open

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for NVML to be let go of; a long session should end then."""
        return self._wanted > 0

    def within(self, wait_s: float, work: Callable[[], T]) -> T:
        """What the work gives, done in a thread of its own.

        Raises NvmlUnavailable with the reason `driver_hangs` when it takes longer. It then goes on
        alone, and until it has ended everybody else is told so at once: nobody waits behind it.
        """
        until = time.monotonic() + wait_s
        if not self._asking.acquire(timeout=0 if self._hangs else wait_s):
            raise NvmlUnavailable(HANGS)
        done: list[T | BaseException] = []
        ended = threading.Event()

        def ask() -> None:
            try:
                done.append(work())
            except BaseException as error:  # raised again where it was asked for
                done.append(error)
            finally:
                self._hangs = False
                ended.set()
                self._asking.release()

        threading.Thread(target=ask, name="nvml", daemon=True).start()
        if not ended.wait(max(0.0, until - time.monotonic())):
            self._hangs = not ended.is_set()
            raise NvmlUnavailable(HANGS)
        (given,) = done
        if isinstance(given, BaseException):
            raise given
        return given

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
                reason = reason_of(error)
                if reason == OUTDATED:
                    self._load_anew()
                raise NvmlUnavailable(reason) from error
            try:
                yield NvmlSession()
            finally:
                _shut_down()
        finally:
            with self._change:
                self._open -= 1
                self._change.notify_all()

    def _load_anew(self) -> None:
        """Take the library that is installed now, so that the next session has it.

        After an update of the driver the one in memory is that of before, for as long as the
        process lives. Not while anybody has handles of it.
        """
        with self._change:
            path = _installed()
            if self._open != 1 or path is None:
                return
            try:
                library = ctypes.CDLL(path)
            except OSError:
                return
            pynvml.nvmlLib = library
            pynvml._nvmlGetFunctionPointer_cache.clear()

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


def _installed() -> str | None:
    """The library's file as it is now, beside the one that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    stem = _NAME.removesuffix(".1")
    loaded = (line.partition("/")[2] for line in lines)
    folders = {os.path.dirname("/" + name) for name in loaded if stem in os.path.basename(name)}
    found = [os.path.realpath(os.path.join(folder, _NAME)) for folder in sorted(folders)]
    return next(filter(os.path.isfile, found), None)


def _shut_down() -> None:
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        # The driver went away under the session; there is nothing left to close.
        return
