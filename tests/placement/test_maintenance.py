"""Does maintenance by plan keep new work away in time, and everybody told, once each?"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from gpuaas.kernel import clock
from gpuaas.kernel.errors import InvalidRequest
from gpuaas.kernel.models import Event
from placement.errors import SkuUnavailable, WindowOverlaps
from placement.models import Allocation, MaintenanceWindow, Node, NodeDrain, Notice
from placement.selectors.offers import offer_list
from placement.services import maintenance, nodes
from placement.services.durations import durations_sweep
from placement.services.maintenance import Selector
from placement.states import WindowState
from tests.builders import (
    BOTH_KINDS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
    drive_all,
)

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant()


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    return a_host("n1")


def planned(
    *names: str, after: timedelta = 100 * HOUR, lasts: timedelta = 4 * HOUR, announce: bool = False
) -> MaintenanceWindow:
    starts = clock.db_now() + after
    made = maintenance.window_plan(
        selector=Selector(nodes=names or ("n1",)),
        starts_at=starts,
        ends_at=starts + lasts,
        reason="new firmware",
        actor=OPERATOR,
        announce=announce,
    )
    return made[0]


def passed(window: MaintenanceWindow, time: timedelta) -> None:
    """As if so much time had gone by for this window and its node."""
    starts, ends = window.starts_at - time, window.ends_at - time
    MaintenanceWindow.objects.filter(pk=window.pk).update(starts_at=starts, ends_at=ends)
    with transaction.atomic():
        maintenance.window_fold(nodes.locked(window.node_id))
    window.refresh_from_db()


def open_drain() -> NodeDrain | None:
    return NodeDrain.objects.filter(ended_at__isnull=True).first()


def events_of(kind: str) -> int:
    return Event.objects.filter(kind=kind).count()


def test_a_lease_whose_end_is_known_is_placed_up_to_the_window_and_no_further(
    acme: TenantWorld, host: Host
) -> None:
    planned(after=10 * HOUR)
    acme.order(max_duration_s=9 * 3600)
    with pytest.raises(SkuUnavailable) as refused:
        acme.order(max_duration_s=11 * 3600)
    facts = refused.value.facts
    assert facts["removed"] == {"maintenance_window": 1}
    assert 9.9 * 3600 < facts["shorter_fits_s"] <= 10 * 3600 - 60
    assert f"for {facts['shorter_fits_s']} seconds at most it fits now" in refused.value.detail


def test_a_lease_without_an_end_is_placed_until_the_declared_lead_and_not_after(
    acme: TenantWorld, host: Host
) -> None:
    window = planned(after=73 * HOUR)
    acme.order()
    passed(window, 2 * HOUR)
    with pytest.raises(SkuUnavailable) as refused:
        acme.order()
    assert refused.value.facts["removed"] == {"maintenance_window": 1}
    maintenance.pool_notice_set(
        pool="default", lead_s=3600, again_s=600, reason="short notice agreed", actor=OPERATOR
    )
    acme.order()
    assert Allocation.objects.count() == 2


def test_another_node_without_a_window_is_taken(acme: TenantWorld, host: Host) -> None:
    a_host("n2")
    planned("n1", after=10 * HOUR)
    for _ in range(8):
        acme.order()
    assert set(Allocation.objects.values_list("node__name", flat=True)) == {"n2"}


def test_a_set_of_members_is_placed_beside_a_window_not_into_it(acme: TenantWorld) -> None:
    for name in ("n1", "n2"):
        a_host(name)
    planned("n1", after=2 * HOUR)
    ask = acme.order(slots=4, max_duration_s=3600)
    assert ask.allocation is not None


def test_a_wrong_time_and_an_overlap_name_the_field(acme: TenantWorld, host: Host) -> None:
    now = clock.db_now()
    first = planned(after=10 * HOUR)

    def plan(starts: datetime, ends: datetime, **where: object) -> None:
        maintenance.window_plan(
            selector=Selector(**(where or {"nodes": ("n1",)})),  # type: ignore[arg-type]  # names
            starts_at=starts,
            ends_at=ends,
            reason="again",
            actor=OPERATOR,
        )

    wrong: list[tuple[str, type[Exception], dict[str, object]]] = [
        ("/starts_at", InvalidRequest, {"starts": now - HOUR, "ends": now + HOUR}),
        ("/starts_at", InvalidRequest, {"starts": now + 9000 * HOUR, "ends": now + 9001 * HOUR}),
        ("/ends_at", InvalidRequest, {"starts": now + HOUR, "ends": now + HOUR}),
        ("/ends_at", InvalidRequest, {"starts": now + HOUR, "ends": now + 1000 * HOUR}),
        ("/starts_at", WindowOverlaps, {"starts": now + 12 * HOUR, "ends": now + 20 * HOUR}),
        ("/ends_at", WindowOverlaps, {"starts": now + HOUR, "ends": now + 11 * HOUR}),
        ("/nodes", InvalidRequest, {"starts": now, "ends": now + HOUR, "nodes": ("none",)}),
        ("/zone", InvalidRequest, {"starts": now, "ends": now + HOUR, "zone": "nowhere"}),
    ]
    for field, error, times in wrong:
        with pytest.raises(error) as refused:
            plan(**times)  # type: ignore[arg-type]  # times and names
        assert refused.value.errors[0].pointer == field  # type: ignore[attr-defined]  # ours
    assert list(MaintenanceWindow.objects.all()) == [first]
    with pytest.raises(IntegrityError), transaction.atomic():
        MaintenanceWindow.objects.create(
            node=first.node,
            plan=first.plan,
            starts_at=first.starts_at,
            ends_at=first.ends_at,
            reason="behind the service's back",
        )


def test_every_step_of_a_window_taken_twice_is_taken_once(acme: TenantWorld, host: Host) -> None:
    allocation = acme.order().allocation
    assert allocation is not None
    window = planned()
    for _ in range(2):
        maintenance.window_announce(window_id=window.pk, reason="told", actor=OPERATOR)
    assert [n.kind for n in Notice.objects.all()] == ["maintenance_planned"]
    for _ in range(2):
        maintenance.window_start(window_id=window.pk, actor=OPERATOR)
    drain = open_drain()
    assert drain is not None
    assert drain.owner["kind"] == "window"
    assert NodeDrain.objects.count() == 1
    assert not Node.objects.get(name="n1").schedulable
    for _ in range(2):
        maintenance.window_end(window_id=window.pk, actor=OPERATOR)
    assert open_drain() is None
    assert Node.objects.get(name="n1").schedulable
    assert Node.objects.get(name="n1").free_until is None
    for edge in ("plan", "announce", "start", "end"):
        assert events_of(f"placement.maintenancewindow.{edge}") == 1
    assert events_of("placement.node.drain") == events_of("placement.node.undrain") == 1


def test_time_alone_brings_a_window_through_all_its_states(acme: TenantWorld, host: Host) -> None:
    acme.order()
    window = planned(after=80 * HOUR)
    seen = []
    for hours in (0, 10, 50, 21, 5):
        passed(window, hours * HOUR)
        for _ in range(2):
            maintenance.maintenance_sweep()
        window.refresh_from_db()
        seen.append((window.state, open_drain() is not None, Notice.objects.count()))
    assert seen == [
        ("planned", False, 0),
        ("announced", False, 1),
        ("announced", False, 2),
        ("active", True, 2),
        ("ended", False, 2),
    ]
    assert {n.kind for n in Notice.objects.all()} == {"maintenance_planned", "maintenance_soon"}


def test_what_came_after_the_announcement_is_told_as_well(acme: TenantWorld, host: Host) -> None:
    planned(after=80 * HOUR, announce=True)
    assert Notice.objects.count() == 0
    acme.order()
    acme.order(max_duration_s=3600)
    for _ in range(2):
        maintenance.maintenance_sweep()
    assert Notice.objects.count() == 1


def test_an_operators_own_drain_outranks_the_window_and_outlasts_it(
    acme: TenantWorld, host: Host
) -> None:
    nodes.node_drain(node_id=host.node.pk, reason="mine", actor=OPERATOR)
    window = planned(announce=True)
    maintenance.window_start(window_id=window.pk, actor=OPERATOR)
    maintenance.window_end(window_id=window.pk, actor=OPERATOR)
    kept = open_drain()
    assert kept is not None
    assert kept.reason == "mine"


def test_a_drain_ordered_during_a_window_is_the_operators_and_outlasts_it(
    acme: TenantWorld, host: Host
) -> None:
    window = planned(announce=True)
    maintenance.window_start(window_id=window.pk, actor=OPERATOR)
    nodes.node_drain(node_id=host.node.pk, reason="keep it", actor=OPERATOR)
    maintenance.window_end(window_id=window.pk, actor=OPERATOR)
    maintenance.maintenance_sweep()
    kept = open_drain()
    assert kept is not None
    assert (kept.reason, kept.owner["kind"]) == ("keep it", "user")


def test_an_operator_who_lifts_the_drain_of_a_running_window_lets_no_work_in(
    acme: TenantWorld, host: Host
) -> None:
    window = planned(after=timedelta(), announce=True)
    maintenance.maintenance_sweep()
    nodes.node_undrain(node_id=host.node.pk, reason="why is it drained", actor=OPERATOR)
    with pytest.raises(SkuUnavailable) as refused:
        acme.order(max_duration_s=60)
    assert refused.value.facts["removed"] == {"maintenance_window": 1}
    maintenance.window_cancel(window_id=window.pk, reason="done early", actor=OPERATOR)
    acme.order()
    assert Allocation.objects.count() == 1


def test_a_node_that_is_not_well_stays_drained_after_its_window_until_it_is(
    acme: TenantWorld, host: Host
) -> None:
    window = planned(announce=True)
    maintenance.window_start(window_id=window.pk, actor=OPERATOR)
    nodes.node_maintain(node_id=host.node.pk, reason="still open", actor=OPERATOR)
    maintenance.window_end(window_id=window.pk, actor=OPERATOR)
    assert open_drain() is not None
    ended = Event.objects.get(kind="placement.maintenancewindow.end")
    assert ended.facts["drain_kept_because"] == ["maintenance"]
    maintenance.maintenance_sweep()
    assert open_drain() is not None
    nodes.node_restore(node_id=host.node.pk, reason="closed", actor=OPERATOR)
    for _ in range(2):
        maintenance.maintenance_sweep()
    assert open_drain() is None
    assert events_of("placement.node.undrain") == 1


def test_a_cancelled_window_is_told_to_those_who_knew_and_frees_the_node(
    acme: TenantWorld, host: Host
) -> None:
    acme.order()
    window = planned(after=10 * HOUR, announce=True)
    for _ in range(2):
        maintenance.window_cancel(window_id=window.pk, reason="postponed", actor=OPERATOR)
    assert sorted(n.kind for n in Notice.objects.all()) == [
        "maintenance_cancelled",
        "maintenance_planned",
    ]
    acme.order()
    quiet = planned(after=200 * HOUR)
    maintenance.window_cancel(window_id=quiet.pk, reason="never mind", actor=OPERATOR)
    assert Notice.objects.count() == 2


def test_a_plan_for_a_rack_is_a_window_of_each_of_its_nodes_or_of_none(acme: TenantWorld) -> None:
    for name in ("n1", "n2", "n3"):
        a_host(name)
    Node.objects.filter(name__in=("n1", "n2")).update(rack="r1")
    now = clock.db_now()

    def plan() -> list[MaintenanceWindow]:
        return maintenance.window_plan(
            selector=Selector(rack="r1"),
            starts_at=now + HOUR,
            ends_at=now + 2 * HOUR,
            reason="power",
            actor=OPERATOR,
        )

    made = plan()
    assert [w.node.name for w in made] == ["n1", "n2"]
    assert len({w.plan for w in made}) == 1
    maintenance.window_cancel(window_id=made[0].pk, reason="not this one", actor=OPERATOR)
    with pytest.raises(WindowOverlaps):
        plan()
    assert MaintenanceWindow.objects.filter(state=WindowState.PLANNED).count() == 1


def test_a_retired_node_keeps_no_window(acme: TenantWorld, host: Host) -> None:
    window = planned()
    nodes.node_retire(node_id=host.node.pk, reason="old", actor=OPERATOR)
    maintenance.maintenance_sweep()
    window.refresh_from_db()
    assert window.state == WindowState.CANCELLED


def test_a_lease_ends_by_itself_when_the_time_it_asked_for_is_over(
    acme: TenantWorld, host: Host
) -> None:
    row = acme.order(max_duration_s=3600).allocation
    stays = acme.order().allocation
    assert row is not None
    assert stays is not None
    assert durations_sweep() == 0
    earlier = row.created_at - HOUR - timedelta(seconds=1)
    Allocation.objects.filter(pk=row.pk).update(created_at=earlier)
    assert durations_sweep() == 1
    assert durations_sweep() == 0
    row.refresh_from_db()
    stays.refresh_from_db()
    assert (row.state, row.outcome, row.outcome_code) == ("releasing", "expired", "duration_over")
    assert stays.state == "placed"
    drive_all()


@pytest.mark.parametrize("seconds", [0, 59, 10**10])
def test_a_duration_out_of_bounds_names_its_field(
    acme: TenantWorld, host: Host, seconds: int
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        acme.order(max_duration_s=seconds)
    assert refused.value.errors[0].pointer == "/max_duration_s"


def test_windows_that_run_on_hide_neither_the_next_nor_what_is_left_over(
    acme: TenantWorld, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "BATCH", 1)
    for k in range(2, 14):
        a_host(f"n{k}")
    window = planned(announce=True)
    maintenance.window_start(window_id=window.pk, actor=OPERATOR)
    over = planned("n13", announce=True)
    maintenance.window_start(window_id=over.pk, actor=OPERATOR)
    node = nodes.node_maintain(node_id=over.node_id, reason="still open", actor=OPERATOR)
    maintenance.window_end(window_id=over.pk, actor=OPERATOR)
    nodes.node_restore(node_id=node.pk, reason="closed", actor=OPERATOR)
    for k in range(2, 12):
        running = planned(f"n{k}", announce=True)
        maintenance.window_start(window_id=running.pk, actor=OPERATOR)
    due = planned("n12", after=200 * HOUR, announce=True)
    passed(due, 201 * HOUR)
    MaintenanceWindow.objects.filter(state="active").update(starts_at=clock.db_now() - 2 * HOUR)
    maintenance.maintenance_sweep()
    due.refresh_from_db()
    assert due.state == "active"
    assert not NodeDrain.objects.filter(node_id=over.node_id, ended_at__isnull=True).exists()


def test_an_offer_is_for_how_long_it_is_asked_and_says_what_maintenance_rules_out(
    acme: TenantWorld, host: Host
) -> None:
    a_host("n2")
    planned("n1", after=10 * HOUR)
    offers = {offer.sku: offer for offer in offer_list()}
    endless = offers["h100.slice"]
    assert (endless.available_slots, endless.available_nodes, endless.code) == (8, 1, "")
    assert endless.closing_nodes == 1
    assert endless.shorter_fits_s is not None
    assert 9.9 * 3600 < endless.shorter_fits_s <= 10 * 3600 - 60
    assert "On 1 more node maintenance begins" in endless.detail
    assert (offers["h100.node"].available_nodes, offers["h100.node"].closing_nodes) == (1, 1)
    brief = {offer.sku: offer for offer in offer_list(lasts_s=9 * 3600)}["h100.slice"]
    assert (brief.available_slots, brief.closing_nodes, brief.shorter_fits_s) == (16, 0, None)
    acme.order(slots=8, max_duration_s=endless.shorter_fits_s - 5)
    nodes.node_drain(node_id=Node.objects.get(name="n2").pk, reason="work", actor=OPERATOR)
    gone = {offer.sku: offer for offer in offer_list()}["h100.node"]
    assert (gone.code, gone.largest_fit) == ("sku_unavailable", 0)


def test_parts_before_a_window_are_offered_for_as_long_as_they_last_and_no_longer(
    acme: TenantWorld,
) -> None:
    a_parts_catalogue()
    cut_slots(a_host("n1", parts=BOTH_KINDS), "mig", 0)
    planned("n1", after=10 * HOUR)
    offers = {offer.sku: offer for offer in offer_list()}
    assert (offers["h100.1g"].available_slots, offers["h100.1g"].code) == (0, "sku_unavailable")
    assert offers["h100.1g"].closing_nodes == 1
    brief = {offer.sku: offer for offer in offer_list(lasts_s=3600)}["h100.1g"]
    assert (brief.available_slots, brief.code, brief.closing_nodes) == (7, "", 0)
