"""Does a lease go from request to release, and does the next tenant wait for proof?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.models import WorkflowRun
from placement.errors import SkuUnavailable
from placement.models import Claim
from placement.selectors import posture_of
from placement.services.allocations import allocation_release
from placement.services.cleanup import cleanup_retry
from tenants.errors import EnvelopeExceeded
from tenants.models import QuotaCounter
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant, drive_all, state_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_two_slots_are_leased_used_released_and_reused_by_another_tenant() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    ticket = acme.order(slots=2)
    assert ticket.allocation is not None
    assert posture_of(host.fresh()) == "partially_allocated"
    assert host.work() == 1
    allocation = acme.tenant.allocations.get()
    assert allocation.state == "active"
    assert allocation.connection == {
        "host": "127.0.0.1",
        "port": 2222,
        "user": "ubuntu",
        "command": "ssh -p 2222 ubuntu@127.0.0.1",
    }
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 2000

    rest = globex.order(slots=6)
    assert rest.allocation is not None
    assert posture_of(host.fresh()) == "fully_allocated"
    with pytest.raises(SkuUnavailable) as refused:
        acme.order(slots=1)
    assert refused.value.facts["largest_free"] == 0

    allocation_release(allocation_id=allocation.pk, reason="done", actor=acme.actor)
    assert state_of(allocation.pk) == "releasing"
    host.work()
    assert state_of(allocation.pk) == "released"
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 0
    again = globex.order(slots=2)
    assert again.allocation is not None


def test_an_incomplete_proof_blocks_until_a_repair_proves_the_cleanup() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    ticket = acme.order("h100.node")
    host.work()
    assert ticket.allocation is not None
    assert posture_of(host.fresh()) == "exclusive_baremetal"
    allocation_release(allocation_id=ticket.allocation.pk, reason="", actor=acme.actor)
    host.work(skip=("gpu_scrubbed",))
    assert state_of(ticket.allocation.pk) == "cleanup_blocked"
    assert posture_of(host.fresh()) == "cleanup_blocked"
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 0
    with pytest.raises(SkuUnavailable):
        globex.order(slots=1)
    cleanup_retry(allocation_id=ticket.allocation.pk, reason="scrubbed by hand", actor=OPERATOR)
    host.work()
    assert state_of(ticket.allocation.pk) == "released"
    assert globex.order(slots=8).allocation is not None


def test_more_than_the_envelope_is_refused_with_the_numbers_and_takes_nothing() -> None:
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=3)
    a_host()
    acme.order(slots=2)
    with pytest.raises(EnvelopeExceeded) as refused:
        acme.order(slots=2)
    assert refused.value.facts["used_milli"] == 2000
    assert refused.value.facts["limit_milli"] == 3000
    assert refused.value.facts["asked_milli"] == 2000
    assert Claim.objects.count() == 2


def test_a_request_that_may_wait_is_placed_when_capacity_comes_back() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    first = acme.order("h100.node")
    host.work()
    waiting = globex.order(slots=4, wait=True)
    assert waiting.allocation is None
    assert waiting.request.state == "queued"
    assert first.allocation is not None
    allocation_release(allocation_id=first.allocation.pk, reason="", actor=acme.actor)
    host.work()
    from gpuaas.kernel import outbox

    outbox.sweep()
    waiting.request.refresh_from_db()
    assert waiting.request.state == "admitted"
    host.work()
    assert globex.tenant.allocations.get().state == "active"
    assert WorkflowRun.objects.get(pk=waiting.run.pk).state == "succeeded"


def test_a_release_while_it_is_being_made_cancels_it_and_ignores_the_late_result() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    host = a_host()
    ticket = acme.order(slots=1)
    assert ticket.allocation is not None
    [task] = host.lease()
    allocation_release(
        allocation_id=ticket.allocation.pk, reason="changed my mind", actor=acme.actor
    )
    from placement.errors import LeaseLost

    with pytest.raises(LeaseLost):
        host.complete(task)
    drive_all()
    host.work()
    row = acme.tenant.allocations.get()
    assert (row.state, row.outcome) == ("released", "cancelled")
    assert WorkflowRun.objects.get(pk=ticket.run.pk).state == "cancelled"
