"""What do operators read of requests and decisions?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin

from admission.models import AdmissionRequest, Decision
from gpuaas.kernel.records import RecordAdmin


@admin.register(AdmissionRequest)
class AdmissionRequestAdmin(RecordAdmin):
    """What was asked for."""

    list_display: ClassVar = ["id", "tenant", "sku", "slots", "state", "code", "created_at"]
    list_filter: ClassVar = ["state", "code", "wait"]
    search_fields: ClassVar = ["=id", "tenant__slug"]
    list_select_related: ClassVar = ["tenant", "sku"]
    ordering: ClassVar = ["-created_at"]


@admin.register(Decision)
class DecisionAdmin(RecordAdmin):
    """What was decided, on which facts."""

    list_display: ClassVar = ["id", "tenant", "request", "verdict", "code", "created_at"]
    list_filter: ClassVar = ["verdict", "code"]
    search_fields: ClassVar = ["=id", "=request__id", "tenant__slug"]
    list_select_related: ClassVar = ["tenant", "request"]
    ordering: ClassVar = ["-created_at"]
