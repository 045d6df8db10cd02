"""What do operators read of events, their seals, deliveries and runs?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin

from gpuaas.kernel.models import Delivery, Event, EventSeal, WorkflowRun
from gpuaas.kernel.records import RecordAdmin


@admin.register(Event)
class EventAdmin(RecordAdmin):
    """The audit log."""

    list_display: ClassVar = ["id", "at", "kind", "subject_kind", "subject_id", "tenant_id"]
    search_fields: ClassVar = ["=subject_id", "=tenant_id", "=correlation", "kind"]
    ordering: ClassVar = ["-id"]


@admin.register(EventSeal)
class EventSealAdmin(RecordAdmin):
    """The hash chain of each tenant."""

    list_display: ClassVar = ["chain", "seq", "event_id"]
    search_fields: ClassVar = ["=chain"]
    ordering: ClassVar = ["-id"]


@admin.register(Delivery)
class DeliveryAdmin(RecordAdmin):
    """Who was told of what."""

    list_display: ClassVar = ["id", "subscriber", "state", "attempts", "due_at", "done_at"]
    list_filter: ClassVar = ["state", "subscriber"]
    ordering: ClassVar = ["-id"]
    raw_id_fields: ClassVar = ["event"]


@admin.register(WorkflowRun)
class WorkflowRunAdmin(RecordAdmin):
    """What is being done, step by step."""

    list_display: ClassVar = ["kind", "state", "step", "attempt", "due_at", "deadline_at"]
    list_filter: ClassVar = ["state", "kind"]
    search_fields: ClassVar = ["=id", "=subject_id"]
    ordering: ClassVar = ["-created_at"]
