"""Does one object that breaks stop a sweep for the others, or is it tried without a pause?"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from gpuaas.api.views.metrics import Collector
from gpuaas.kernel import clock, sweeping
from gpuaas.kernel.errors import ConcurrentUpdate
from gpuaas.kernel.models import SweepFault
from placement.models import (
    Allocation,
    AutomaticAction,
    BreakerRule,
    DeviceHealth,
    IdentityDifference,
    Node,
    NodeCapability,
    NodeIdentity,
    NodeTask,
    Pool,
)
from placement.services.breaker import held_sweep
from placement.services.differences import boots_sweep, fabrics_sweep
from placement.services.durations import durations_sweep
from placement.services.endings import deletions_sweep, excesses_sweep, suspensions_sweep
from placement.services.evidence import readiness_sweep
from placement.services.health import health_sweep
from placement.services.maintenance import Selector, maintenance_sweep, window_plan
from placement.services.observed import silence_sweep
from placement.services.tasks import leases_sweep
from tenants.models import QuotaCounter, Tenant
from tenants.services.deletion import tenant_delete
from tenants.services.envelopes import envelope_set
from tests.builders import CLASS, OPERATOR, Host, a_catalogue, a_host, a_report, a_tenant

pytestmark = pytest.mark.django_db


def ago(seconds: float) -> Any:
    return clock.db_now() - timedelta(seconds=seconds)


def outlived(hosts: list[Host]) -> list[UUID]:
    world = a_tenant("acme")
    found = [world.order(slots=8, max_duration_s=60).allocation_id for _ in hosts]
    Allocation.objects.update(created_at=ago(120))
    return [one for one in found if one is not None]


def to_judge(hosts: list[Host]) -> list[UUID]:
    NodeCapability.objects.update(rejudge=True)
    return ids(hosts)


def without(hosts: list[Host]) -> list[UUID]:
    NodeCapability.objects.all().delete()
    return ids(hosts)


def near_their_end(hosts: list[Host]) -> list[UUID]:
    NodeCapability.objects.update(renew_at=ago(1))
    return ids(hosts)


def unwell(hosts: list[Host]) -> list[UUID]:
    for k, host in enumerate(hosts):
        DeviceHealth.objects.create(
            node=host.node,
            gpu_uuid=f"GPU-{host.node.name}-0",
            classification="degraded",
            since=ago(10),
            checked_at=ago(10 - k),
        )
    return ids(hosts)


def silent(hosts: list[Host]) -> list[UUID]:
    Node.objects.update(last_seen_at=ago(300))
    return ids(hosts)


def booted(hosts: list[Host]) -> list[UUID]:
    for host in hosts:
        identity = {"hostname": host.node.name, "boot_id": "before", "seen_at": ago(9)}
        NodeIdentity.objects.update_or_create(node=host.node, defaults=identity)
    return ids(hosts)


def moved(hosts: list[Host]) -> list[UUID]:
    for host in hosts:
        topology = a_report(host.node.name).to_json()
        Node.objects.filter(pk=host.node.pk).update(topology=topology)
        IdentityDifference.objects.create(
            node=host.node,
            code="fabric_changed",
            outcome="note",
            detail="it moved",
            discovered={"fabric": "new"},
            seen_at=ago(9),
        )
    return ids(hosts)


def leased(hosts: list[Host]) -> list[UUID]:
    world = a_tenant("acme")
    for _ in hosts:
        world.order(slots=8)
    found = [task.pk for host in hosts for task in host.lease()]
    NodeTask.objects.update(lease_until=ago(9))
    return found


def held(hosts: list[Host]) -> list[UUID]:
    pool = Pool.objects.get()
    BreakerRule.objects.create(pool=pool, window_s=60)
    return [
        AutomaticAction.objects.create(
            pool=pool, node=host.node, kind="quarantine", reason="xid_79", asked_at=ago(300 - k)
        ).pk
        for k, host in enumerate(hosts)
    ]


def planned(hosts: list[Host]) -> list[UUID]:
    Pool.objects.update(notice_lead_s=7200)
    windows = window_plan(
        selector=Selector(nodes=tuple(host.node.name for host in hosts)),
        starts_at=ago(-3600),
        ends_at=ago(-7200),
        reason="new firmware",
        actor=OPERATOR,
    )
    return [row.pk for row in windows]


def deleting(hosts: list[Host]) -> list[UUID]:
    tenants = [a_tenant(host.node.name).tenant for host in hosts]
    for tenant in tenants:
        tenant_delete(tenant_id=tenant.pk, reason="it is over", actor=OPERATOR)
    return [tenant.pk for tenant in tenants]


def suspended(hosts: list[Host]) -> list[UUID]:
    worlds = [a_tenant(host.node.name) for host in hosts]
    for world in worlds:
        world.order()
    rows = Tenant.objects.filter(pk__in=[world.tenant.pk for world in worlds])
    rows.update(state="suspended", suspension="release")
    return [world.tenant.pk for world in worlds]


def exceeding(hosts: list[Host]) -> list[UUID]:
    worlds = [a_tenant(host.node.name) for host in hosts]
    for k, world in enumerate(worlds):
        world.order()
        envelope_set(
            tenant_id=world.tenant.pk,
            resource_class=CLASS,
            nominal_milli=0,
            reason="less",
            on_excess="drain",
            drain_after_s=0,
            actor=OPERATOR,
        )
        QuotaCounter.objects.filter(tenant=world.tenant).update(drain_at=ago(9 - k))
    return [world.tenant.pk for world in worlds]


def ids(hosts: list[Host]) -> list[UUID]:
    return [host.node.pk for host in hosts]


@dataclass(frozen=True)
class Case:
    """A sweep, what makes two objects due, and the step of the work that breaks for the first."""

    sweep: Callable[[], int]
    due: Callable[[list[Host]], list[UUID]]
    module: str
    step: str


CASES = {
    "durations": Case(durations_sweep, outlived, "durations", "_expire"),
    "readiness": Case(readiness_sweep, to_judge, "evidence", "capabilities_judge"),
    "readiness_new": Case(readiness_sweep, without, "evidence", "capabilities_approve"),
    "readiness_renewed": Case(readiness_sweep, near_their_end, "evidence", "discovery_order"),
    "health": Case(health_sweep, unwell, "health", "health_refresh"),
    "silence": Case(silence_sweep, silent, "observed", "refold"),
    "boots": Case(boots_sweep, booted, "differences", "discovery_order"),
    "fabrics": Case(fabrics_sweep, moved, "differences", "fabric_take"),
    "leases": Case(leases_sweep, leased, "tasks", "_lose"),
    "held": Case(held_sweep, held, "breaker", "advance"),
    "deletions": Case(deletions_sweep, deleting, "endings", "deleting_release"),
    "suspensions": Case(suspensions_sweep, suspended, "endings", "suspended_release"),
    "excesses": Case(excesses_sweep, exceeding, "endings", "excess_drain"),
    "maintenance": Case(maintenance_sweep, planned, "maintenance", "_due"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_breaks_rests_and_is_told_and_the_second_is_done(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    case = CASES[name]
    a_catalogue()
    hosts = [a_host("host-1"), a_host("host-2")]
    first, second = case.due(hosts)
    module = sys.modules[f"placement.services.{case.module}"]
    sound = getattr(module, case.step)
    asked: list[UUID] = []
    done: list[object] = []
    broken = [True]

    def step(*args: Any, **named: Any) -> Any:
        told = [
            one
            for value in (*args, *named.values())
            for one in (value if isinstance(value, list) else [value])
        ]
        given = {getattr(one, "pk", one) for one in told if _known(one)}
        if first in given:
            asked.append(first)
            if broken:
                raise ValueError("a row that nobody thought of")
        result = sound(*args, **named)
        done.extend(given)
        return result

    monkeypatch.setattr(module, case.step, step)
    case.sweep()
    assert (first in done, second in done) == (False, True)
    (fault,) = SweepFault.objects.all()
    assert (fault.sweep, fault.subject_id) == (f"placement.{name}", first)
    assert (fault.attempts, fault.error) == (1, "ValueError")
    (said,) = [r.getMessage() for r in caplog.records if "cannot do" in r.getMessage()]
    assert f"sweep placement.{name} cannot do {first}, try 1" in said
    tries = len(asked)
    assert tries == (2 if case.step == "_expire" else 1), "together with the second, then alone"
    case.sweep()
    assert len(asked) == tries, "it was tried again at once"
    broken.clear()
    SweepFault.objects.update(next_at=ago(1))
    case.sweep()
    assert first in done
    assert not SweepFault.objects.exists()


def _known(one: object) -> bool:
    return isinstance(getattr(one, "pk", one), UUID)


def test_who_breaks_again_rests_longer_and_an_audit_tells_of_it() -> None:
    subject = UUID(int=7)

    def broken(_: UUID) -> None:
        raise KeyError

    rests = []
    for _ in range(4):
        assert sweeping.each("test.sweep", lambda resting: [subject], broken) == 0
        fault = SweepFault.objects.get()
        rests.append(round((fault.next_at - fault.tried_at).total_seconds()))
        SweepFault.objects.update(next_at=ago(1))
    assert rests == [30, 60, 120, 240]
    (finding,) = sweeping.sweeps_that_rest()
    assert (finding.code, finding.facts["attempts"]) == ("sweep_fault", 4)
    told = {family.name: family for family in Collector().collect()}["gpuaas_sweep_faults"]
    assert [(one.labels, one.value) for one in told.samples] == [({"sweep": "test.sweep"}, 1)]


def test_what_is_asked_for_no_longer_is_forgotten() -> None:
    def broken(_: UUID) -> None:
        raise KeyError

    sweeping.each("test.sweep", lambda resting: [UUID(int=7)], broken)
    SweepFault.objects.update(next_at=ago(2 * 3600))
    sweeping.each("test.sweep", lambda resting: [], broken)
    assert not SweepFault.objects.exists()


@pytest.mark.parametrize("passing", [ConcurrentUpdate(), OperationalError("deadlock detected")])
def test_who_was_only_busy_is_due_again_in_the_next_turn(passing: Exception) -> None:
    tried = []

    def busy(subject: UUID) -> None:
        tried.append(subject)
        raise passing

    for _ in range(2):
        assert sweeping.each("test.sweep", lambda resting: [UUID(int=7)], busy) == 0
    assert (len(tried), SweepFault.objects.count()) == (2, 0)
