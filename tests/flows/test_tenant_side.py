"""Does the same work hold when it is done as the tenant's own database role?"""

from __future__ import annotations

import pytest

from admission.models import AdmissionRequest, Decision
from gpuaas.kernel.scope import tenant_scope
from placement.domain.order import AllocationOrder
from placement.errors import SkuUnavailable
from placement.models import Allocation, Claim
from placement.selectors import (
    allocation_explain,
    allocation_states,
    allocation_timeline,
    offer_list,
    request_explain,
)
from placement.services.allocations import allocation_plan, allocation_release
from tenants.errors import EnvelopeExceeded, TenantSuspended
from tenants.services.tenancy import tenant_suspend
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_tenant_leases_reads_and_releases_within_its_own_scope() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    with tenant_scope(acme.tenant.pk):
        ticket = acme.order(slots=2)
        assert ticket.allocation is not None
        assert Claim.objects.count() == 2
    with tenant_scope(globex.tenant.pk):
        assert Allocation.objects.count() == 0
        assert Claim.objects.count() == 0
    host.work()
    with tenant_scope(acme.tenant.pk):
        row = Allocation.objects.get()
        states = allocation_states(row)
        assert states["desired"]["value"] == "active"
        assert states["projected"]["value"] == "active"
        kinds = [entry["kind"] for entry in allocation_timeline(row.pk).items]
        assert kinds[-1] == "admission.admissionrequest.admit"
        assert "placement.allocation.activate" in kinds
        why = allocation_explain(row.pk)
        assert [g["gate"] for g in why["gates"]][-1] == "capacity"
        assert why["winner"] is None
        allocation_release(allocation_id=row.pk, reason="", actor=acme.actor)
    host.work()
    with tenant_scope(acme.tenant.pk):
        assert Allocation.objects.get().state == "released"


def test_a_refusal_inside_the_scope_keeps_its_request_and_decision() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=1)
    a_host()
    with pytest.raises(EnvelopeExceeded) as refused, tenant_scope(acme.tenant.pk):
        acme.order(slots=2)
    request = AdmissionRequest.objects.get()
    assert (request.state, request.code) == ("denied", "envelope_exceeded")
    assert str(Decision.objects.get().pk) == refused.value.facts["decision"]
    with tenant_scope(acme.tenant.pk):
        told = request_explain(request.pk)
    assert told["code"] == "envelope_exceeded"
    assert "larger envelope" in told["unblock"]


def test_nothing_fits_nowhere_and_nothing_but_the_reason_is_written() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    acme.order(slots=7)
    with pytest.raises(SkuUnavailable), tenant_scope(acme.tenant.pk):
        acme.order(slots=2)
    assert Allocation.objects.count() == 1
    assert host.fresh().free_count == 1
    assert AdmissionRequest.objects.get(state="denied").code == "sku_unavailable"
    offers = {offer.sku: offer for offer in offer_list()}
    assert offers["h100.slice"].largest_fit == 1
    assert offers["h100.node"].code == "sku_unavailable"


def test_a_plan_writes_nothing_and_says_what_the_order_would_do() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    with tenant_scope(acme.tenant.pk):
        plan = allocation_plan(
            tenant_id=acme.tenant.pk,
            project_id=acme.project.pk,
            order=AllocationOrder(sku="h100.slice", slots=4),
            actor=acme.actor,
        )
    assert plan.fits
    assert plan.price_hour_micro == 8_000_000
    assert (plan.envelope_before_milli, plan.envelope_after_milli) == (0, 4000)
    assert plan.choice is not None
    assert plan.choice["numa_nodes"] == 1
    assert AdmissionRequest.objects.count() == 0


def test_a_suspended_tenant_gets_nothing_new() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    acme.order(slots=1)
    tenant_suspend(tenant_id=acme.tenant.pk, reason="unpaid", actor=OPERATOR)
    with pytest.raises(TenantSuspended), tenant_scope(acme.tenant.pk):
        acme.order(slots=1)
    assert Claim.objects.count() == 1
