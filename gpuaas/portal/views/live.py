"""Which changes does an open page of a tenant hear of?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponseBase

from gpuaas.kernel.models import Event, WorkflowRun
from gpuaas.kernel.scope import tenant_scope
from gpuaas.kernel.seals import FEED
from gpuaas.kernel.workflow import topic_of
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.live import event_stream
from gpuaas.ui.pages import not_found
from placement.models import Allocation
from tenants.models import Member


class TenantStream(TenantPage):
    """A stream for one reader, who must still be a member at every look."""

    def look(self, state: Callable[[], str | None]) -> Callable[[], str | None]:
        """The fingerprint as the tenant's role sees it, or None once the reader left."""
        tenant_id, user_id = self.tenant.pk, self.user.pk

        def fingerprint() -> str | None:
            with tenant_scope(tenant_id):
                if not Member.objects.filter(user_id=user_id).exists():
                    return None
                return state()

        return fingerprint


class AllocationLive(TenantStream):
    """One allocation's changes: its row, its run, its events."""

    def get(self, request: HttpRequest, pk: UUID, **_: Any) -> HttpResponseBase:
        """The stream."""
        row = Allocation.objects.filter(pk=pk).first()
        if row is None:
            return not_found(request)

        def state() -> str | None:
            now = Allocation.objects.filter(pk=pk).values_list("version", "observed", "run_id")
            found = now.first()
            if found is None:
                return None
            version, observed, run_id = found
            run = WorkflowRun.objects.filter(pk=run_id).values_list("state", "step").first()
            events = Event.objects.filter(subject_id=pk).aggregate(n=Count("id"), last=Max("id"))
            step = "-".join(run) if run else ""
            return f"{version}-{observed}-{step}-{events['n']}-{events['last']}"

        return event_stream([topic_of(row.run_id), f"{FEED}:{self.tenant.pk}"], self.look(state))


class TenantLive(TenantStream):
    """Any change in the tenant."""

    def get(self, request: HttpRequest, **_: Any) -> HttpResponseBase:
        """The stream."""

        def state() -> str | None:
            last = Event.objects.aggregate(last=Max("id"))
            return str(last["last"] or 0)

        return event_stream([f"{FEED}:{self.tenant.pk}"], self.look(state))
