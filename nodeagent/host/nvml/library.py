"""How is NVML opened, asked, and let go of in time?

One `Nvml` a process. Whoever reads opens a session; a session's handles end with it. Before a GPU
is reset, rebound or repartitioned, `released` waits until no session is open and keeps new ones
out, because the driver refuses to let go of a device that anybody holds. A driver may keep a call
for minutes; whoever must not wait that long asks `within` a time. One call that does not come back
is a driver that hangs; many that do, one after the other, are a slow one, as where no daemon keeps
GPUs initialised.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

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
HANGS, SLOW, OUTDATED = "driver_hangs", "driver_slow", "version_mismatch"
_KEPT_S = 30.0
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
    """An open NVML. Handles belong to it and must not be kept beyond it.

    answered: called whenever a call has come back.
    """

    def __init__(self, answered: Callable[[], None] = lambda: None) -> None:
        self._answered = answered

    def count(self) -> int:
        """How many GPUs the driver has. Raises NvmlUnavailable."""
        try:
            return int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            raise NvmlUnavailable(reason_of(error)) from error
        finally:
            self._answered()

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
        finally:
            self._answered()

    def ask_either(
        self, call: Callable[..., Any], older: Callable[..., Any], *arguments: Any
    ) -> Fact[Any]:
        """As `ask`; where the driver is too old for the call, by the one of before."""
        asked = self.ask(call, *arguments)
        return self.ask(older, *arguments) if asked.reason in _TOO_OLD else asked


@dataclass(eq=False)
class _Asked:
    """Work that asks drivers, in a thread of its own. given: whether its answer reached anybody.

    call_s: how long one call may take. answered_at: when the last came back.
    """

    call_s: float
    late: str
    given: bool = False
    thread: threading.Thread | None = None
    answered_at: float = field(default_factory=time.monotonic)
    answers: list[object] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def answered(self) -> None:
        """A call came back."""
        self.answered_at = time.monotonic()

    def serves(self, late: str) -> bool:
        """Whether what it gives is for whoever asks under this name now."""
        if not late or late != self.late or self.given:
            return False
        return not self.ended.is_set() or time.monotonic() - self.answered_at <= _KEPT_S


def _wait(asked: _Asked, until: float) -> None:
    """Until it has ended. Raises NvmlUnavailable when it hangs, or is too slow for that."""
    while True:
        hangs_at = asked.answered_at + asked.call_s
        if asked.ended.wait(max(0.0, min(until, hangs_at) - time.monotonic())):
            return
        now = time.monotonic()
        if now >= asked.answered_at + asked.call_s:
            raise NvmlUnavailable(HANGS)
        if now >= until:
            raise NvmlUnavailable(SLOW)


class Nvml:
    """The door to NVML of this process."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._open = 0
        self._wanted = 0
        self._asking = threading.Lock()
        self._asked = _Asked(0.0, "", given=True)
        self._asked.ended.set()

    @property
    def open_sessions(self) -> int:
        """How many sessions are open now."""
        return self._open

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for NVML to be let go of; a long session should end then."""
        return self._wanted > 0

    def within(
        self, call_s: float, work: Callable[[], T], *, most_s: float = math.inf, late: str = ""
    ) -> T:
        """What the work gives, done in a thread of its own.

        call_s: how long one call of it may take; most_s: how long it is waited for, in seconds.
        late: under which name an answer that came too late is given to whoever asks for the same
        next. Raises NvmlUnavailable: `driver_hangs` when a call does not come back, `driver_slow`
        when calls do and it takes longer all the same. The work then goes on alone; while it hangs
        everybody is told so at once, and nobody waits behind it.
        """
        until = time.monotonic() + most_s
        while (mine := self._turn(call_s, work, late)) is None:
            _wait(self._asked, until)
        _wait(mine, until)
        mine.given = True
        (answer,) = mine.answers
        if isinstance(answer, BaseException):
            raise answer
        return cast(T, answer)

    def _turn(self, call_s: float, work: Callable[[], object], late: str) -> _Asked | None:
        """The work begun, or the same that is under way or came late; None: another's turn."""
        with self._asking:
            last = self._asked
            if last.serves(late):
                return last
            if not last.ended.is_set():
                return None
            mine = self._asked = _Asked(call_s, late)

            def ask() -> None:
                try:
                    mine.answers.append(work())
                except BaseException as error:  # raised again where it was asked for
                    mine.answers.append(error)
                finally:
                    mine.answered()
                    mine.ended.set()

            mine.thread = threading.Thread(target=ask, name="nvml", daemon=True)
            mine.thread.start()
            return mine

    def answered(self) -> None:
        """A call into a driver came back. Only those of the work that is waited for count."""
        asked = self._asked
        if asked.thread is threading.current_thread():
            asked.answered()

    @contextmanager
    def session(self) -> Iterator[NvmlSession]:
        """Open NVML. Raises NvmlUnavailable; reason `released` while a device is reconfigured."""
        with self.holding():
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                reason = reason_of(error)
                if reason == OUTDATED:
                    self._load_anew()
                raise NvmlUnavailable(reason) from error
            try:
                self.answered()
                yield NvmlSession(self.answered)
            finally:
                _shut_down()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """GPUs may be held open while inside, through whatever library; a session does so as well.

        Raises NvmlUnavailable with the reason `released` while somebody wants them let go of.
        """
        with self._change:
            if self._wanted:
                raise NvmlUnavailable("released")
            self._open += 1
        try:
            yield
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
