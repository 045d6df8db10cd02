"""What does a Celery message make happen here?  Each is a hint to look at a row."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from gpuaas.kernel import errors, events, outbox, workflow
from gpuaas.kernel.workflow import runs


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
