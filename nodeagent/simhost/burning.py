"""How does a simulated host burn its GPUs in, and how does that go wrong when told to?

What is under load stands on the host's disk, as a real load goes on until its limit when its agent
dies. Meanwhile a new burn-in is told that the host is busy, and no machine is made.
"""

from __future__ import annotations

from nodeagent.backend import BackendError, LeaseLost, Progress, TaskCancelled
from nodeagent.clock import Clock
from nodeagent.protocol import (
    BurnedGpu,
    BurnInParams,
    BurnInResult,
    BurnInVerdict,
    FailureCode,
    TaskKind,
    Unwanted,
)
from nodeagent.simhost.cleanup import Worker
from nodeagent.simhost.faults import BURN_FAIL, BURN_HANG, BURN_STUCK

_LOOK_S = 1.0


async def burn_in(
    host: Worker, params: BurnInParams, clock: Clock, progress: Progress, load: Unwanted
) -> BurnInResult:
    """Put the GPUs under load; the seconds of the load are simulated. Raises BackendError."""
    _begin(host, params, clock, load)
    try:
        await _load(host, params, clock, progress)
    except (LeaseLost, TaskCancelled):
        end_burn_in(host, load, clock.now())
        raise
    except BackendError:
        _end(host)
        raise
    bad = params.gpus[0] if host.menu.read().burn_in == BURN_FAIL else None
    _end(host, counted=1)
    gpus = tuple(
        BurnedGpu(gpu, gpu != bad, "3 wrong results" if gpu == bad else "no wrong result")
        for gpu in params.gpus
    )
    told = "no GPU erred" if bad is None else f"{bad} gave wrong results"
    verdict = BurnInVerdict.PASS if bad is None else BurnInVerdict.FAIL
    return BurnInResult(verdict, "simulated_load", told, params.duration_s, gpus)


def end_burn_in(host: Worker, load: Unwanted, now: float) -> None:
    """Take this task's load away; that of another stays. Raises BackendError."""
    host.store.refresh()
    state = host.store.state
    if not state.loaded(now) or state.burning_task != load.task_id:
        return
    if host.menu.read().burn_in == BURN_STUCK:
        raise BackendError(FailureCode.LOAD_NOT_OVER, "a process does not end", retryable=True)
    _end(host)


async def _load(host: Worker, params: BurnInParams, clock: Clock, progress: Progress) -> None:
    begun = clock.now()
    await host.work(TaskKind.BURN_IN, "loading", 0, progress)
    if host.menu.take_failure(TaskKind.BURN_IN):
        raise BackendError(FailureCode.BACKEND_ERROR, "the load did not start", retryable=True)
    await host.work(TaskKind.BURN_IN, "burning", 30, progress)
    while host.menu.read().burn_in in (BURN_HANG, BURN_STUCK):
        if clock.now() - begun >= params.limit_s:
            detail = f"it did not end within {params.limit_s} seconds and was killed"
            raise BackendError(FailureCode.BURN_IN_OVERDUE, detail, retryable=False)
        await clock.sleep(_LOOK_S)
        await progress("burning", 30)
    await host.work(TaskKind.BURN_IN, "cooling", 90, progress)


def _begin(host: Worker, params: BurnInParams, clock: Clock, load: Unwanted) -> None:
    host.store.refresh()
    state = host.store.state
    if state.loaded(clock.now()):
        raise BackendError("hook_busy", "another burn-in is under way", retryable=True)
    taken = {device for vm in state.vms.values() for device in vm.devices}
    if taken & set(params.gpus):
        raise BackendError("device_in_use", "a machine has one of the GPUs", retryable=False)
    left = state.left_on(params.gpus)
    if left:
        raise BackendError(
            FailureCode.RESIDUE_FOUND,
            f"data of an earlier tenant is still on {', '.join(left)}",
            retryable=False,
        )
    state.burning, state.burning_until = list(params.gpus), clock.now() + params.limit_s
    state.burning_task = load.task_id
    host.store.save()


def _end(host: Worker, counted: int = 0) -> None:
    host.store.refresh()
    host.store.state.burning = []
    host.store.state.burned += counted
    host.store.save()
