"""What does a worker do for placement when it is hinted at?"""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from placement.services.drift import LOOK_TASK, drift_reconcile


@shared_task(name=LOOK_TASK)
def drift_look(node_id: str) -> None:
    """Compare one host with what is wanted of it; the sweep does so anyway."""
    drift_reconcile(node_ids=[UUID(node_id)])
