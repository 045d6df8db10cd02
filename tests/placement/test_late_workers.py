"""Does a cleanup that its host has proven end by that, however late the workers look at it?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from gpuaas.kernel.models import WorkflowRun
from placement.models import Allocation
from placement.services.allocations import allocation_release
from placement.services.cleanup import cleanup_retry
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant, drive_all
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db(transaction=True)
AWAY = timedelta(hours=3)


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    return a_host()


def proven_while_workers_are_away(host: Host) -> None:
    """The host does all that is due; hours later somebody looks at the runs."""
    for task in host.lease():
        host.complete(task)
    open_runs = WorkflowRun.objects.filter(ended_at__isnull=True)
    open_runs.update(deadline_at=F("deadline_at") - AWAY)
    drive_all()


def test_a_release_that_is_proven_while_no_worker_runs_ends_when_one_does(
    acme: TenantWorld, host: Host
) -> None:
    made = acme.order(slots=2).allocation_id
    assert made is not None
    host.work()
    allocation_release(allocation_id=made, reason="", actor=acme.actor)
    proven_while_workers_are_away(host)
    assert Allocation.objects.get(pk=made).state == "released"
    assert host.fresh().free_count == 8
    assert findings() == []


def test_so_does_a_cleanup_that_is_tried_again(acme: TenantWorld, host: Host) -> None:
    made = acme.order(slots=2).allocation_id
    assert made is not None
    host.work()
    allocation_release(allocation_id=made, reason="", actor=acme.actor)
    host.work(skip=("gpu_scrubbed",))
    assert Allocation.objects.get(pk=made).state == "cleanup_blocked"
    cleanup_retry(allocation_id=made, reason="repaired", actor=OPERATOR)
    proven_while_workers_are_away(host)
    assert Allocation.objects.get(pk=made).state == "released"
    assert findings() == []
