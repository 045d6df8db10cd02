"""What does a worker do for the kernel?  Answers hints, and ticks by itself.

A Celery message is only a hint to look at a row. The ticker starts with the worker and does
the same work without any message, so that a lost broker costs a second, not the work.
"""

from __future__ import annotations

from uuid import UUID

from celery import current_app, shared_task
from celery.bootsteps import StartStopStep

from gpuaas.kernel import events, measuring, outbox, retention, seals, ticks, workflow
from gpuaas.kernel.workflow import runs

ticks.register("runs", 1.0, workflow.sweep)
ticks.register("outbox", 1.0, outbox.sweep)
ticks.register("seals", 1.0, seals.sweep)
ticks.register("anchors", 10.0, seals.anchor)
ticks.register("measures", 2.0, measuring.measures_sweep)
ticks.register("retention", 600.0, retention.sweep)


@shared_task(name=runs.DRIVE_TASK)
def drive_run(*run_ids: str) -> None:
    """Take each run as far as it goes; a run that is gone is nobody's fault."""
    workflow.drive_each(UUID(run_id) for run_id in run_ids)


@shared_task(name=events.DELIVER_TASK)
def deliver_due() -> None:
    """Deliver what waits in the outbox."""
    outbox.deliver()


class Ticking(StartStopStep):
    """The part of a worker that ticks. It comes up before the broker is asked for."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: object, **options: object) -> None:
        super().__init__(parent, **options)
        self.ticker = ticks.Ticker()

    def start(self, parent: object) -> None:
        """The pool is there; children of a forking pool are forked already."""
        self.ticker.start()

    def stop(self, parent: object) -> None:
        """Take no more turns."""
        self.ticker.stop()

    def terminate(self, parent: object) -> None:
        """The same, in a hurry."""
        self.ticker.stop(timeout_s=1.0)


current_app.steps["worker"].add(Ticking)
