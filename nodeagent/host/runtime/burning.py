"""How are a host's GPUs put under load? By the operator's hook, while nobody has them.

The hook is killed with all that it started at the task's limit, which alone says something about
the GPUs; a smaller limit of the hook's own does not. It is killed as well where its task is
stopped. What it answers is checked: it passes only where it speaks of every GPU that was asked for,
and says that each stood it.

A load is over when nothing that the hook has started runs any more, and not before. What a helper
that was killed has left running is ended by the next one, which nobody would tell its result.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nodeagent.backend import BackendError
from nodeagent.files import read_json, write_json
from nodeagent.host import cgroups
from nodeagent.host.hooks import LIMIT_REACHED, STOPPED, Answer, Hooks
from nodeagent.host.runtime import sessions
from nodeagent.host.runtime.sessions import Session
from nodeagent.protocol import (
    BurnInParams,
    BurnInResult,
    BurnInVerdict,
    FailureCode,
    SlotDevices,
    TopologyReport,
    Unwanted,
    WireError,
)

log = logging.getLogger("nodeagent.helper")
HOOK = "burn_in"
_END_S = 10.0
_LOOK_S = 0.05
_KEEP_STOPPED = 256


@dataclass
class _Load:
    """A load. session: of the hook, once it runs. over: its hook was run to its end, or killed."""

    of: Unwanted
    gpus: frozenset[str]
    stop: threading.Event = field(default_factory=threading.Event)
    session: Session | None = None
    over: bool = False


class BurnIn:
    """The burn-ins of one host, one at a time.

    name: by which the hook knows the host. record: where a load is written down while it runs.
    boot: this boot's id; no load outlives another.
    """

    def __init__(
        self,
        name: str,
        hooks: Hooks,
        report: Callable[[], TopologyReport],
        record: Path,
        boot: str,
    ) -> None:
        self._name = name
        self._hooks = hooks
        self._report = report
        self._record = record
        self._boot = boot
        self._lock = threading.Lock()
        self._load: _Load | None = None
        self._stopped: dict[str, int] = {}

    def recover(self) -> None:
        """End what a helper before this one has left running. What does not end stays a load."""
        try:
            told = read_json(self._record)
        except WireError:
            told = {}
        if told is None:
            return
        if not isinstance(told, dict):
            told = {}
        left = self._left_behind(told) if told.get("boot") in (None, self._boot) else []
        gone = [sessions.end(one, _END_S) and cgroups.gone(one.cgroup, _END_S) for one in left]
        if all(gone):
            self._record.unlink(missing_ok=True)
            return
        stays = left[gone.index(False)]
        log.warning("the load of an earlier helper does not end: session %s", stays.pid)
        gpus = frozenset(gpu.uuid for gpu in self._report().gpus if gpu.uuid)
        of = Unwanted(str(told.get("task") or "unknown"), 0)
        self._load = _Load(of, gpus, session=stays, over=True)

    def runs(self) -> bool:
        """Whether a load runs now."""
        with self._lock:
            return self._running() is not None

    def refuse_loaded(self, slots: tuple[SlotDevices, ...]) -> None:
        """Nothing is made on what is under load. Raises BackendError."""
        with self._lock:
            load = self._running()
            if load is not None and load.gpus & {slot.gpu_uuid for slot in slots}:
                raise BackendError("burn_in_runs", "a slot is being burnt in", retryable=True)

    @contextmanager
    def taken(self, params: BurnInParams, of: Unwanted) -> Iterator[None]:
        """These GPUs are under load meanwhile.

        Raises BackendError where others are already, or where this task was stopped.
        """
        with self._lock:
            if of.lease_epoch < self._stopped.get(of.task_id, 0):
                raise BackendError(FailureCode.CANCELLED, "it was stopped", retryable=False)
            if self._running() is not None:
                raise BackendError("hook_busy", "another burn-in is under way", retryable=True)
            load = self._load = _Load(of, frozenset(params.gpus))
        try:
            yield
        finally:
            with self._lock:
                load.over = True
                self._running()

    def end(self, of: Unwanted) -> None:
        """End the load of a task's leases below this epoch, and let none of them begin another.

        On return none runs. Raises BackendError where it could not be ended in time.
        """
        with self._lock:
            epoch = self._stopped.pop(of.task_id, 0)
            self._stopped[of.task_id] = max(epoch, of.lease_epoch)
            while len(self._stopped) > _KEEP_STOPPED:
                del self._stopped[next(iter(self._stopped))]
            load = self._running()
        if load is None or load.of.task_id != of.task_id or load.of.lease_epoch >= of.lease_epoch:
            return
        load.stop.set()
        until = time.monotonic() + _END_S
        while self._is(load):
            if time.monotonic() > until:
                detail = "something of its load does not end, not even when killed"
                raise BackendError(FailureCode.LOAD_NOT_OVER, detail, retryable=True)
            if load.over and load.session is not None:
                sessions.end(load.session, _LOOK_S)
            time.sleep(_LOOK_S)

    def _is(self, load: _Load) -> bool:
        with self._lock:
            return self._running() is load

    def _running(self) -> _Load | None:
        """The load, while anything of it may run; the lock is held."""
        load = self._load
        if load is not None and load.over:
            if load.session is not None and sessions.members(load.session):
                return load
            self._load = None
            self._record.unlink(missing_ok=True)
        return self._load

    def _left_behind(self, told: dict[str, Any]) -> list[Session]:
        pid, started = told.get("pid"), told.get("started")
        if isinstance(pid, int) and isinstance(started, int):
            cgroup = str(told.get("cgroup") or "")
            return [Session(pid, started, cgroup if cgroups.is_ours(cgroup) else "")]
        # It was killed between the hook's start and the note of it.
        program = self._hooks.path(HOOK)
        return sessions.led_by(program) if program is not None else []

    def _begun(self, session: Session) -> None:
        """Write down in which session the hook is, and in which control group."""
        assert self._load is not None
        self._load.session = session
        self._write(self._load, **asdict(session))

    def _write(self, load: _Load, **more: int | str) -> None:
        write_json(self._record, {"task": load.of.task_id, "boot": self._boot, **more})

    def run(self, params: BurnInParams) -> BurnInResult:
        """Have the hook do it, within the task's limit; what it has is `taken`.

        Raises BackendError.
        """
        load = self._load
        assert load is not None
        places = {gpu.uuid: gpu for gpu in self._report().gpus}
        asked = [
            {"uuid": uuid, "pci": places[uuid].pci, "index": places[uuid].index}
            for uuid in params.gpus
        ]
        self._write(load)
        try:
            answer = self._hooks.call(
                HOOK,
                "run",
                within_s=params.limit_s,
                stop=load.stop,
                started=self._begun,
                node=self._name,
                gpus=asked,
                duration_s=params.duration_s,
                limit_s=params.limit_s,
            )
        except BackendError as error:
            if error.code == "hook_timeout":
                # The configuration ended it, and that says nothing about a GPU.
                raise BackendError(error.code, _way_out(error, params), retryable=False) from error
            if error.code == STOPPED:
                raise BackendError(FailureCode.CANCELLED, error.detail, retryable=False) from error
            if error.code != LIMIT_REACHED:
                raise
            raise BackendError(
                FailureCode.BURN_IN_OVERDUE, error.detail, retryable=False
            ) from error
        return _result(answer, params)


def _way_out(error: BackendError, params: BurnInParams) -> str:
    needed = f"raise hooks.burn_in.timeout_s to {params.limit_s} seconds at least"
    return f"{error.detail}; this burn-in may take longer: {needed}"[:2000]


def _result(answer: Answer, params: BurnInParams) -> BurnInResult:
    told: dict[str, Any] = {
        "verdict": answer.facts.get("verdict"),
        "method": answer.method,
        "detail": answer.detail,
        "ran_s": answer.facts.get("ran_s"),
        "gpus": answer.facts.get("gpus"),
    }
    try:
        result = BurnInResult.from_json(told, "")
    except WireError as error:
        detail = f"the burn_in hook's answer: {error}"[:2000]
        raise BackendError("hook_failed", detail, retryable=False) from error
    if {gpu.uuid for gpu in result.gpus} != set(params.gpus):
        detail = "the burn_in hook does not speak of every GPU that was asked for, and of no other"
        raise BackendError("hook_failed", detail, retryable=False)
    if result.verdict is BurnInVerdict.PASS and result.ran_s < params.duration_s:
        detail = f"the burn_in hook passed after {result.ran_s} of {params.duration_s} seconds"
        raise BackendError("hook_failed", detail, retryable=False)
    return result
