"""What do operators read of requests and decisions?"""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin

from admission.models import AdmissionRequest, Decision
from admission.services import tenancies
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.records import RecordAdmin, reasoned
from tenants.admin import TenantAdmin
from tenants.models import Tenant
from tenants.states import TENANT

admin.site.unregister(Tenant)  # an approval is a decision, which is made here


def _approve(row: Tenant, reason: str, actor: Actor) -> object:
    return tenancies.tenant_approve(tenant_id=row.pk, reason=reason, actor=actor)


def _reject(row: Tenant, reason: str, actor: Actor) -> object:
    return tenancies.tenant_reject(tenant_id=row.pk, reason=reason, actor=actor)


@admin.register(Tenant)
class DecidedTenantAdmin(TenantAdmin):
    """Customers, and whether one is let in."""

    actions_detail: ClassVar = ["approve", "reject", *TenantAdmin.actions_detail]

    approve = reasoned(
        "approve",
        "Approve",
        "The tenant may lease what its envelopes allow, from this moment on.",
        _approve,
        needs="tenants:write",
        states=TENANT.edges["approve"].sources,
    )
    reject = reasoned(
        "reject",
        "Reject",
        "The tenant never gets anything. It cannot be undone.",
        _reject,
        needs="tenants:write",
        states=TENANT.edges["reject"].sources,
    )


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
