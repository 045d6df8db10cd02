"""What does the kernel remember?"""

from gpuaas.kernel.models.base import Base, Stateful
from gpuaas.kernel.models.events import Delivery, Event, EventSeal, Lease
from gpuaas.kernel.models.measures import MeasuresRead, MeasureTotal
from gpuaas.kernel.models.work import (
    IdempotencyKey,
    RetentionRule,
    RunState,
    SweepFault,
    WorkflowRun,
)

__all__ = [
    "Base",
    "Delivery",
    "Event",
    "EventSeal",
    "IdempotencyKey",
    "Lease",
    "MeasureTotal",
    "MeasuresRead",
    "RetentionRule",
    "RunState",
    "Stateful",
    "SweepFault",
    "WorkflowRun",
]
