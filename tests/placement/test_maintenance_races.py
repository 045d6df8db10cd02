"""Does nothing that is placed ever last into a window, whoever comes first?  On real PostgreSQL."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction

from gpuaas.kernel import clock
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import platform_scope
from placement.domain.order import AllocationOrder
from placement.models import Allocation, MaintenanceWindow, Node
from placement.selectors.occupants import ends_at_of
from placement.services import engine, maintenance, requests
from placement.services.bundle import Item, commit
from placement.services.maintenance import Selector
from placement.snapshots import Ask, look
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(180)]

HOUR = timedelta(hours=1)
ROUNDS, AT_ONCE = 12, 4


def plan(name: str, after: timedelta, lasts: timedelta = HOUR) -> MaintenanceWindow:
    starts = clock.db_now() + after
    (made,) = maintenance.window_plan(
        selector=Selector(nodes=(name,)),
        starts_at=starts,
        ends_at=starts + lasts,
        reason="work",
        actor=OPERATOR,
    )
    return made


def item_of(world: TenantWorld, lasts_s: int | None) -> Item:
    order = AllocationOrder(sku="h100.slice", slots=1, max_duration_s=lasts_s)
    ask = Ask(world.tenant.pk, world.project.pk, order)
    with platform_scope():
        return requests.item_of(ask, look(ask), actor=world.actor)


def crossing() -> list[str]:
    """What was placed after a window was planned there, and would still last into it.

    Events of one node are written under its lock, so that their numbers tell who came first.
    """
    at = {
        (event.kind, event.subject_id): event.pk
        for event in Event.objects.filter(kind__startswith="placement.")
    }
    found = []
    for window in MaintenanceWindow.objects.select_related("node__pool"):
        planned = at["placement.maintenancewindow.plan", window.pk]
        over = at.get(("placement.maintenancewindow.cancel", window.pk), 2**63)
        lead = timedelta(seconds=window.node.pool.notice_lead_s)
        for row in Allocation.objects.select_related("request").filter(node=window.node):
            if not planned < at["placement.allocation.place", row.pk] < over:
                continue
            ends = ends_at_of(row)
            if ends is None and row.created_at >= window.starts_at - lead:
                found.append(f"{row.name} without an end, too late")
            if ends is not None and ends > window.starts_at:
                found.append(f"{row.name} until {ends}, window from {window.starts_at}")
    return found


def together(*acts: Callable[[], Any]) -> None:
    """All at once, each on a connection of its own; refusals are answers."""
    gate = threading.Barrier(len(acts))
    broke: list[BaseException] = []

    def run(act: Callable[[], Any]) -> None:
        try:
            gate.wait(timeout=20)
            act()
        except ProductError:
            pass
        except BaseException as error:  # told by the test
            broke.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert broke == []


@pytest.mark.parametrize("lasts_s", [3600, None])
@pytest.mark.parametrize("skip_locked", [True, False])
def test_a_choice_made_before_the_window_was_planned_is_void(
    lasts_s: int | None, skip_locked: bool
) -> None:
    a_catalogue()
    world = a_tenant()
    a_host("n1")
    item = item_of(world, lasts_s)
    assert item.where is not None
    with platform_scope():
        seen = engine.options_for(item, item.where, limit=2)
    plan("n1", timedelta(minutes=30))
    with transaction.atomic(), platform_scope():
        assert commit([(item, seen)], skip_locked=skip_locked) == {}
    assert Allocation.objects.count() == 0


def test_a_placement_that_came_first_is_known_to_the_window_that_waited_for_it() -> None:
    a_catalogue()
    world = a_tenant()
    a_host("n1")
    item = item_of(world, None)
    assert item.where is not None
    with platform_scope():
        seen = engine.options_for(item, item.where, limit=2)
    began, told = threading.Event(), []

    def window() -> None:
        began.set()
        (made,) = maintenance.window_plan(
            selector=Selector(nodes=("n1",)),
            starts_at=clock.db_now() + HOUR,
            ends_at=clock.db_now() + 2 * HOUR,
            reason="work",
            actor=OPERATOR,
            announce=True,
        )
        told.append(made)
        connections.close_all()

    with transaction.atomic(), platform_scope():
        assert len(commit([(item, seen)], skip_locked=True)) == 1
        thread = threading.Thread(target=window)
        thread.start()
        assert began.wait(10)
    thread.join(timeout=30)
    assert len(told) == 1
    assert Allocation.objects.get().notices.count() == 1
    with pytest.raises(ProductError):
        world.order(max_duration_s=7200)
    assert crossing() == []


def test_in_random_crowds_of_requests_and_windows_nothing_lasts_into_one() -> None:
    a_catalogue()
    worlds = [a_tenant("acme", envelope_slots=512), a_tenant("globex", envelope_slots=512)]
    names = [f"n{k}" for k in range(3)]
    for name in names:
        a_host(name)
    rng = random.Random(11)
    placed = 0

    def asking(world: TenantWorld, lasts_s: int | None) -> Callable[[], Any]:
        return lambda: world.order(max_duration_s=lasts_s)

    def planning(name: str, hours: float) -> Callable[[], Any]:
        return lambda: plan(name, timedelta(hours=hours))

    def cancelling(window: MaintenanceWindow) -> Callable[[], Any]:
        return lambda: maintenance.window_cancel(
            window_id=window.pk, reason="not now", actor=OPERATOR
        )

    for _ in range(ROUNDS):
        acts: list[Callable[[], Any]] = [
            asking(rng.choice(worlds), rng.choice([None, 600, 3600, 7200, 4 * 86_400]))
            for _ in range(AT_ONCE)
        ]
        acts.append(planning(rng.choice(names), rng.uniform(0.2, 100)))
        open_now = list(MaintenanceWindow.objects.exclude(state="cancelled"))
        if len(open_now) > 4:
            acts.append(cancelling(rng.choice(open_now)))
        together(*rng.sample(acts, len(acts)))
        assert crossing() == []
        placed = Allocation.objects.count()
    assert placed > ROUNDS // 2, "hardly anything was placed"
    assert MaintenanceWindow.objects.count() > ROUNDS // 3
    folded = Node.objects.exclude(free_until=None).count()
    assert (
        folded
        == MaintenanceWindow.objects.exclude(state="cancelled").values("node").distinct().count()
    )
