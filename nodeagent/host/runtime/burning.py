"""How are a host's GPUs put under load? By the operator's hook, while nobody has them.

The hook is killed with all that it started at the task's limit, which alone says something about
the GPUs; a smaller limit of the hook's own does not. What it answers is checked: it
passes only where it speaks of every GPU that was asked for, and says that each stood it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nodeagent.backend import BackendError
from nodeagent.host.hooks import LIMIT_REACHED, Answer, Hooks
from nodeagent.protocol import (
    BurnInParams,
    BurnInResult,
    BurnInVerdict,
    FailureCode,
    SlotDevices,
    TopologyReport,
    WireError,
)


class BurnIn:
    """The burn-ins of one host, one at a time. name: by which the hook knows it."""

    def __init__(self, name: str, hooks: Hooks, report: Callable[[], TopologyReport]) -> None:
        self._name = name
        self._hooks = hooks
        self._report = report
        self._lock = threading.Lock()
        self._loaded: frozenset[str] = frozenset()

    def runs(self) -> bool:
        """Whether a load runs now."""
        with self._lock:
            return bool(self._loaded)

    def refuse_loaded(self, slots: tuple[SlotDevices, ...]) -> None:
        """Nothing is made on what is under load. Raises BackendError."""
        with self._lock:
            if self._loaded & {slot.gpu_uuid for slot in slots}:
                raise BackendError("burn_in_runs", "a slot is being burnt in", retryable=True)

    @contextmanager
    def taken(self, params: BurnInParams) -> Iterator[None]:
        """These GPUs are under load meanwhile. Raises BackendError where others are already."""
        with self._lock:
            if self._loaded:
                raise BackendError("hook_busy", "another burn-in is under way", retryable=True)
            self._loaded = frozenset(params.gpus)
        try:
            yield
        finally:
            with self._lock:
                self._loaded = frozenset()

    def run(self, params: BurnInParams) -> BurnInResult:
        """Have the hook do it, within the task's limit. Raises BackendError."""
        places = {gpu.uuid: gpu for gpu in self._report().gpus}
        asked = [
            {"uuid": uuid, "pci": places[uuid].pci, "index": places[uuid].index}
            for uuid in params.gpus
        ]
        try:
            answer = self._hooks.call(
                "burn_in",
                "run",
                within_s=params.limit_s,
                node=self._name,
                gpus=asked,
                duration_s=params.duration_s,
                limit_s=params.limit_s,
            )
        except BackendError as error:
            if error.code == "hook_timeout":
                # The configuration ended it, and that says nothing about a GPU.
                raise BackendError(error.code, _way_out(error, params), retryable=False) from error
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
