"""How do requests end that are refused, wait, or come too late?"""

from __future__ import annotations

import pytest

from admission.errors import WithdrawnAlready, WorkloadStateRefused
from admission.models import Decision
from gpuaas.kernel.errors import ProductError, error_for
from placement.domain.order import AllocationOrder
from placement.models import Claim
from placement.selectors import request_explain
from placement.services import requests
from placement.services.allocations import request_withdraw
from placement.services.engine import Unplaced, place_one
from placement.services.queue import cycle_sweep
from placement.services.workloads import workload_scale, workload_stop
from placement.snapshots import Ask, look
from tenants.errors import TooManyWaiting
from tenants.models import QuotaCounter
from tenants.services.caps import caps_set
from tenants.services.catalogue import sku_retire
from tenants.services.tenancy import tenant_suspend
from tests.admission.test_workloads import run_it, the_workload
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_workload_that_has_ended_takes_no_change() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    row = the_workload(run_it(acme))
    workload_stop(workload_id=row.pk, reason="", actor=acme.actor)
    with pytest.raises(WorkloadStateRefused):
        workload_scale(workload_id=row.pk, replicas=2, actor=acme.actor)


def test_what_was_admitted_cannot_be_withdrawn() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    ticket = acme.order(slots=1)
    with pytest.raises(WithdrawnAlready):
        request_withdraw(request_id=ticket.request_id, actor=acme.actor)


def test_a_request_without_room_waits_for_capacity_and_says_so() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    acme.order("h100.node")
    ticket = acme.order(slots=1, wait=True)
    assert ticket.request.code == "waiting_for_capacity"
    told = request_explain(ticket.request_id)
    assert told["outcome_class"] == "no_capacity"
    assert told["gates"][-1]["code"] == "sku_unavailable"
    job = run_it(acme, kind="job", wait=True)
    request_withdraw(request_id=job.request_id, actor=acme.actor)
    assert the_workload(job).state == "ended"


def test_one_request_more_than_may_wait_is_refused_at_once() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    acme.order("h100.node")
    caps_set(tenant_id=acme.tenant.pk, changes={"waiting": 1}, reason="test", actor=OPERATOR)
    acme.order(slots=1, wait=True)
    with pytest.raises(TooManyWaiting):
        acme.order(slots=1, wait=True)


def test_a_suspension_between_decision_and_placing_takes_nothing() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    order = AllocationOrder(sku="h100.slice", slots=1)
    ask = Ask(acme.tenant.pk, acme.project.pk, order)
    item = requests.item_of(ask, look(ask), actor=acme.actor)
    assert requests.verdict_error(item.verdict, error_for) is None
    tenant_suspend(tenant_id=acme.tenant.pk, reason="unpaid", actor=OPERATOR)
    result = place_one(item)
    assert isinstance(result, Unplaced)
    assert result.error.code == "tenant_not_admitting"
    assert Claim.objects.count() == 0
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 0


def test_a_waiting_request_that_no_waiting_can_help_is_told_so_at_once() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    acme.order("h100.node")
    ticket = acme.order(slots=1, wait=True)
    sku_retire(sku="h100.slice", reason="old", actor=OPERATOR)
    cycle_sweep()
    request = ticket.request
    assert (request.state, request.code) == ("denied", "sku_not_published")
    last = Decision.objects.filter(request=request).latest("created_at")
    assert (last.verdict, last.code) == ("deny", "sku_not_published")


def test_a_refusal_leaves_use_as_it_was() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=4)
    a_host()
    acme.order(slots=2)
    before = list(QuotaCounter.objects.values_list("used_milli", "grandfathered_milli"))
    for wishes in ({"slots": 3}, {"slots": 99}, {"image": "none"}, {"tier": "gold"}, {"band": 0}):
        with pytest.raises(ProductError):
            acme.order(**{"slots": 1, **wishes})  # type: ignore[arg-type]  # free wishes
    assert list(QuotaCounter.objects.values_list("used_milli", "grandfathered_milli")) == before
    assert Claim.objects.count() == 2
