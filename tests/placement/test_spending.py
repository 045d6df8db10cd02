"""Is a tenant told that its month passes the soft cap, once, by whatever made it pass?"""

from __future__ import annotations

from uuid import UUID

import pytest

from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import Event
from placement.models import Allocation
from placement.services import queue
from placement.services.allocations import allocation_release
from placement.services.bundle import Item
from placement.services.queue import cycle_sweep
from placement.services.spending import spend_sweep
from tenants.services.caps import SOFT, caps_set
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def a_soft_cap(world: TenantWorld, micro: int) -> None:
    """A soft cap on the month, in millionths."""
    caps_set(
        tenant_id=world.tenant.pk,
        changes={"spend_soft_micro": micro},
        reason="test",
        actor=OPERATOR,
    )


def told(world: TenantWorld) -> list[int]:
    """What each warning said is committed."""
    rows = Event.objects.filter(kind=SOFT, tenant_id=world.tenant.pk)
    return [row.facts["committed_micro"] for row in rows]


def test_the_placement_that_passes_the_soft_cap_says_so_and_the_next_does_not() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    a_host()
    a_soft_cap(acme, 1)
    a_soft_cap(globex, 10**15)
    acme.order(slots=1)
    acme.order(slots=1)
    globex.order(slots=1)
    assert len(told(acme)) == 1
    assert told(acme)[0] > 1
    assert told(globex) == []


def test_a_placement_from_the_queue_says_so_as_well() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    blocker = globex.order("h100.node")
    host.work()
    a_soft_cap(acme, 1)
    acme.order(slots=1, wait=True)
    assert told(acme) == []
    assert blocker.allocation_id is not None
    allocation_release(allocation_id=blocker.allocation_id, reason="", actor=globex.actor)
    host.work()
    cycle_sweep()
    assert Allocation.objects.filter(tenant=acme.tenant).count() == 1
    assert len(told(acme)) == 1


def test_a_round_tells_its_tenants_in_one_order_whoever_waited_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    host = a_host()
    blocker = acme.order("h100.node")
    host.work()
    for world in (globex, acme, globex):
        world.order(slots=1, wait=True)
    seen: list[UUID] = []

    def tells(item: Item, _actor: Actor) -> bool:
        seen.append(item.authority.tenant_id)
        return False

    monkeypatch.setattr(queue, "spend_told", tells)
    assert blocker.allocation_id is not None
    allocation_release(allocation_id=blocker.allocation_id, reason="", actor=acme.actor)
    host.work()
    cycle_sweep()
    assert seen == sorted([acme.tenant.pk, globex.tenant.pk, globex.tenant.pk])


def test_the_sweep_finds_what_runs_on_beyond_a_cap_that_came_later() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    acme.order(slots=1)
    assert spend_sweep() == 0
    a_soft_cap(acme, 1)
    assert spend_sweep() == 1
    assert spend_sweep() == 0
    assert len(told(acme)) == 1
