"""Are rows that are over forgotten in time, open ones kept, and their events kept for good?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.db.models import Model, QuerySet

from gpuaas.kernel import clock, ids, retention
from gpuaas.kernel.errors import InvalidRequest
from gpuaas.kernel.models import Event
from placement.models import (
    Allocation,
    AutomaticAction,
    Defragmentation,
    Drift,
    MaintenanceWindow,
    NodeDrain,
    Notice,
    Pool,
)
from placement.services.nodes import node_drain, node_undrain
from tests.builders import OPERATOR, Host, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db


def a_drift(host: Host, at: datetime, over: bool) -> Model:
    return Drift.objects.create(
        node=host.node,
        kind="vm_unknown",
        subject=f"vm-{at:%j}-{over}",
        severity="low",
        actor="operator",
        state="closed" if over else "open",
        detail="x",
        last_seen_at=at,
        closed_at=at if over else None,
    )


def an_action(host: Host, at: datetime, over: bool) -> Model:
    return AutomaticAction.objects.create(
        pool=Pool.objects.get(),
        node=host.node,
        kind=f"repair-{over}-{at:%j}",
        reason="x",
        state="taken" if over else "held",
        state_since=at,
    )


def a_notice(host: Host, at: datetime, over: bool) -> Model:
    """Of an allocation that has ended, or of one that lives: of that, all are kept."""
    allocation = Allocation.objects.get(name="gone" if over else "alive")
    Allocation.objects.filter(name="gone").update(released_at=at)
    row = Notice.objects.create(
        tenant=allocation.tenant,
        allocation=allocation,
        kind="drain",
        key=f"{at:%j}-{over}",
        text="x",
    )
    Notice.objects.filter(pk=row.pk).update(created_at=at)
    return row


def moves(host: Host, at: datetime, over: bool) -> Model:
    # Only one of a pool may be open.
    if not over:
        Defragmentation.objects.filter(ended_at__isnull=True).delete()
    return Defragmentation.objects.create(
        pool=Pool.objects.get(),
        host=host.node,
        sku="h100.slice",
        slots=8,
        digest="x",
        reason="x",
        run_id=ids.new_id(),
        ended_at=at if over else None,
    )


def a_window(host: Host, at: datetime, over: bool) -> Model:
    """Over, but its drain has not been lifted, is as good as open."""
    row = MaintenanceWindow.objects.create(
        node=host.node,
        plan=ids.new_id(),
        starts_at=at - timedelta(hours=1),
        ends_at=at,
        reason="x",
        state="ended",
        state_since=at,
    )
    if not over:
        NodeDrain.objects.filter(ended_at__isnull=True).delete()
        owner = {"kind": "window", "id": str(row.pk)}
        NodeDrain.objects.create(node=host.node, owner=owner, reason="x")
    return row


def a_drain(host: Host, at: datetime, over: bool) -> Model:
    if not over:
        NodeDrain.objects.filter(ended_at__isnull=True).delete()
    return NodeDrain.objects.create(
        node=host.node, owner={}, reason="x", ended_at=at if over else None
    )


KINDS: dict[str, Callable[[Host, datetime, bool], Model]] = {
    "drift": a_drift,
    "automatic_actions": an_action,
    "notices": a_notice,
    "defragmentations": moves,
    "maintenance_windows": a_window,
    "drains": a_drain,
}


@pytest.fixture
def host() -> Host:
    a_catalogue()
    world = a_tenant("acme")
    host = a_host()
    for name, state in (("gone", "released"), ("alive", "active")):
        allocation = world.order(slots=1, name=name).allocation
        assert allocation is not None
        rows: QuerySet[Any] = Allocation.objects.filter(pk=allocation.pk)
        steps = ["provisioning", "active", "releasing", "released"]
        for step in steps[: steps.index(state) + 1]:
            rows.update(state=step)
    return host


def test_every_kind_has_a_case() -> None:
    assert set(KINDS) == {kept.name for kept in retention.retention_list()}


@pytest.mark.parametrize("name", KINDS)
def test_what_is_over_goes_after_its_days_and_what_is_open_stays(name: str, host: Host) -> None:
    make, now = KINDS[name], clock.db_now()
    old, new = now - timedelta(days=91), now - timedelta(days=89)
    gone = make(host, old, True)
    kept = [make(host, new, True), make(host, old, False)]
    if name == "notices":
        Allocation.objects.filter(name="gone").update(released_at=old)
    assert retention.sweep()[name] == 1
    rows = type(gone)._default_manager
    assert not rows.filter(pk=gone.pk).exists()
    assert rows.filter(pk__in=[row.pk for row in kept]).count() == 2
    retention.retention_set(name=name, days=31, reason="little room", actor=OPERATOR)
    assert retention.sweep()[name] == 1
    assert rows.filter(pk__in=[row.pk for row in kept]).get() == kept[1]


def test_what_happened_stays_told_by_its_events(host: Host) -> None:
    node_drain(node_id=host.node.pk, reason="fans", actor=OPERATOR)
    node_undrain(node_id=host.node.pk, reason="done", actor=OPERATOR)
    NodeDrain.objects.update(ended_at=clock.db_now() - timedelta(days=91))
    assert retention.sweep()["drains"] == 1
    kinds = Event.objects.filter(subject_id=host.node.pk).values_list("kind", flat=True)
    assert {"placement.node.drain", "placement.node.undrain"} <= set(kinds)


def test_a_kind_that_breaks_stops_no_other(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    old = clock.db_now() - timedelta(days=91)
    a_drain(host, old, True)

    def broken(before: datetime) -> QuerySet[Any]:
        raise ValueError

    monkeypatch.setitem(retention._kinds, "automatic_actions", broken)
    gone = retention.sweep()
    assert (gone["drains"], "automatic_actions" in gone) == (1, False)


@pytest.mark.parametrize("gone", [True, False])
def test_a_database_that_is_gone_ends_the_sweep_and_a_busy_one_leaves_a_kind_for_later(
    gone: bool, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(before: datetime) -> QuerySet[Any]:
        raise OperationalError("terminating connection")

    monkeypatch.setitem(retention._kinds, "drift", busy)
    monkeypatch.setattr(connection, "is_usable", lambda: not gone)
    with pytest.raises(OperationalError) if gone else nullcontext():
        assert "drift" not in retention.sweep()
    assert not [one for one in caplog.records if one.exc_info]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": "events"}, "/name"),
        ({"days": 30}, "/days"),
        ({"days": 3651}, "/days"),
        ({"reason": " "}, "/reason"),
    ],
)
def test_days_that_cannot_be_are_refused_by_their_field(wrong: dict[str, Any], field: str) -> None:
    given = {"name": "drift", "days": 40, "reason": "less room", **wrong}
    with pytest.raises(InvalidRequest) as refused:
        retention.retention_set(**given, actor=OPERATOR)
    assert [one.pointer for one in refused.value.errors] == [field]


def test_an_operator_sees_and_sets_the_days() -> None:
    out = StringIO()
    call_command("retention", stdout=out)
    assert "drift: 90 days (default)\n" in out.getvalue()
    call_command("retention", "drift", "--days", "180", "--reason", "an auditor asks", stdout=out)
    assert "drift: 180 days\n" in out.getvalue()
    event = Event.objects.get(kind="kernel.retentionrule.set")
    assert (event.after, event.reason) == ({"name": "drift", "days": 180}, "an auditor asks")
    with pytest.raises(CommandError, match="days: 31 to 3650"):
        call_command("retention", "drift", "--days", "3", "--reason", "x")
    with pytest.raises(CommandError, match="say for how many"):
        call_command("retention", "drift")
