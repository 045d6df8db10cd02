"""What does a worker do for the kernel?  Answers hints, and ticks by itself.

A Celery message is only a hint to look at a row. The ticker starts with the worker and does
the same work without any message, so that a lost broker costs a second, not the work.
"""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down

from gpuaas.kernel import errors, events, outbox, retention, seals, ticks, workflow
from gpuaas.kernel.workflow import runs

ticks.register("runs", 1.0, workflow.sweep)
ticks.register("outbox", 1.0, outbox.sweep)
ticks.register("seals", 1.0, seals.sweep)
ticks.register("anchors", 10.0, seals.anchor)
ticks.register("retention", 600.0, retention.sweep)

_tickers: list[ticks.Ticker] = []


@shared_task(name=runs.DRIVE_TASK)
def drive_run(run_id: str) -> None:
    """Take one run as far as it goes; a run that is gone is nobody's fault."""
    try:
        workflow.drive(UUID(run_id))
    except errors.NotFound:
        return


@shared_task(name=events.DELIVER_TASK)
def deliver_due() -> None:
    """Deliver what waits in the outbox."""
    outbox.deliver()


@worker_ready.connect
def begin_ticking(**_: object) -> None:
    """A worker ticks from the moment it is ready."""
    ticker = ticks.Ticker()
    ticker.start()
    _tickers.append(ticker)


@worker_shutting_down.connect
def end_ticking(**_: object) -> None:
    """A worker that is asked to end takes no more turns."""
    while _tickers:
        _tickers.pop().stop()
