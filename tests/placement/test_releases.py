"""Is a release in one statement, of one or of many, what it is statement by statement?"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import DatabaseError, transaction

from gpuaas.kernel import clock, events, ids, nudges, outbox, workflow
from gpuaas.kernel.errors import NotFound
from gpuaas.kernel.lifecycle import Lifecycle
from gpuaas.kernel.models import Event, SweepFault, WorkflowRun
from gpuaas.kernel.models.work import RUN, RunState
from gpuaas.kernel.scope import tenant_scope
from gpuaas.kernel.tasks import drive_run
from placement.models import Allocation, Claim, NodeTask
from placement.services import endings, releases
from placement.services.allocations import allocation_release, allocations_release, leaving
from placement.services.endings import excesses_sweep, suspensions_sweep
from placement.services.projections import projections_refresh
from placement.services.releases import Leaving, moves, releases_begin, releases_each
from placement.states import (
    ALLOCATION,
    CLAIM,
    LIVE,
    TASK,
    AllocationState,
    ClaimState,
    Outcome,
    TaskState,
)
from tenants.models import QuotaCounter, Tenant
from tenants.services.envelopes import envelope_set
from tenants.services.quota import draining, drains_announce
from tests.builders import (
    BOTH_KINDS,
    CLASS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
    drive_all,
    state_of,
)
from tests.placement.acts import found
from tests.placement.releasing import brought_to, by_the_book, rows

pytestmark = pytest.mark.django_db

SQL = Path(releases.__file__).resolve().parent.parent / "sql" / "release_v1.sql"
STATES = (
    "placed",
    "provisioning",
    "active",
    "preempting",
    "thinned",
    "releasing",
    "cleanup_blocked",
    "released",
)
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "a slot": ("h100.slice", {"slots": 1}),
    "three slots": ("h100.slice", {"slots": 3}),
    "a whole node": ("h100.node", {}),
    "a MIG instance": ("h100.1g", {}),
    "a share": ("h100.tenth", {}),
}


def ways(allocation_id: UUID, tenant: TenantWorld) -> list[Leaving]:
    """By whom an allocation may be given back, and what each says."""
    return [
        leaving(allocation_id, reason="done", actor=tenant.actor, claims=3),
        leaving(allocation_id, reason="", actor=tenant.actor),
        Leaving(
            allocation_id, OPERATOR, "tenant_suspended", "late", Outcome.EVICTED, cancel="late"
        ),
        Leaving(allocation_id, OPERATOR, "provision_failed", "no disk", Outcome.FAILED),
    ]


@contextmanager
def undone(at: datetime) -> Iterator[None]:
    """What happens inside is seen inside, at that time, and has not happened afterwards."""
    with transaction.atomic(), clock.use(clock.FakeClock(at)):
        yield
        transaction.set_rollback(True)


Told = tuple[list[str], dict[str, list[dict[str, Any]]]]
"""Of which kind each run is that is answered, and the rows that are left."""


def one_by_one(asked: list[Leaving], at: datetime) -> Told:
    """What comes of one release after the other, each with a statement for each thing."""
    with undone(at):
        runs = [by_the_book(one) for one in asked]
        return [WorkflowRun.objects.get(pk=run).kind for run in runs], rows()


def together(asked: list[Leaving], at: datetime) -> Told:
    """What comes of one statement for all."""
    with undone(at):
        left = releases_begin(asked)
        assert [one.allocation_id for one in left] == [one.allocation_id for one in asked]
        return [one.run().kind for one in left], rows()


@pytest.fixture
def all_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two subscribers to whatever a release tells."""
    for name in ("ear", "nose"):
        monkeypatch.setitem(events._subscribers, name, dict.fromkeys(releases.EVENTS, print))


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the database was asked, each statement as its first words."""
    asked: list[str] = []
    real: Callable[..., Any] = psycopg.Cursor.execute

    def spy(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        text = query.decode() if isinstance(query, bytes) else str(query)
        asked.append(" ".join(text.split())[:90])
        return real(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", spy)
    return asked


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_release_leaves_the_rows_of_its_statements_one_by_one(
    acme: TenantWorld, state: str, shape: str, all_hear: None
) -> None:
    a_parts_catalogue()
    host = a_host(parts=BOTH_KINDS)
    if "h100.1g" in SHAPES[shape]:
        cut_slots(host, "mig", 0)
    if "h100.tenth" in SHAPES[shape]:
        cut_slots(host, "share", 0)
    made = brought_to(state, acme, host, *SHAPES[shape])
    at = clock.db_now() + timedelta(days=1)
    for one in ways(made, acme):
        assert together([one], at) == one_by_one([one], at)


def test_any_batch_leaves_the_rows_of_its_releases_one_by_one(
    acme: TenantWorld, all_hear: None
) -> None:
    globex = a_tenant("globex")
    held: list[tuple[UUID, TenantWorld]] = []
    for k, state in enumerate(STATES):
        tenant = (acme, globex)[k % 2]
        host = a_host(f"host-{k}")
        sku, wishes = list(SHAPES.values())[k % 3]
        held.append((brought_to(state, tenant, host, sku, wishes), tenant))
        # Nothing that comes later goes to this host.
        for _ in range(host.fresh().free_count):
            globex.order()
        host.lease()
    rng, at = random.Random(7), clock.db_now() + timedelta(days=1)
    for _ in range(25):
        chosen = rng.sample(held, rng.randint(1, len(held)))
        asked = [rng.choice(ways(*one)) for one in chosen]
        assert together(asked, at) == one_by_one(asked, at)


def test_what_moves_is_what_the_tables_of_lifecycles_say() -> None:
    pulled: dict[str, tuple[Lifecycle, str]] = {
        "allocation": (ALLOCATION, "release"),
        "claim": (CLAIM, "release"),
        "task": (TASK, "cancel"),
        "run": (RUN, "undo"),
    }
    told = moves()
    for name, (table, edge) in pulled.items():
        assert tuple(told[name]["from"]) == table.edges[edge].sources
        assert (told[name]["to"], told[name]["first"]) == (table.edges[edge].target, table.initial)
    assert told["live"] == LIVE
    # The function itself names no state: a table that changes changes what it does.
    states = {*AllocationState, *ClaimState, *TaskState, *RunState}
    named = set(re.findall(r"'(\w+)'", SQL.read_text(encoding="utf-8"))) & set(map(str, states))
    assert named <= {"pending"}, "a state of a delivery"


def test_a_release_is_few_statements_however_many_are_given_back(
    acme: TenantWorld, said: list[str]
) -> None:
    a_host()
    a_host("host-2")
    made = [acme.order(slots=2).allocation_id for _ in range(7)]
    first, *others = [one for one in made if one is not None]
    said.clear()
    allocation_release(allocation_id=first, reason="", actor=acme.actor)
    one = [text for text in said if "SAVEPOINT" not in text]
    assert len(one) == 3, one
    said.clear()
    left = allocations_release(allocation_ids=others, reason="", actor=acme.actor)
    many = [text for text in said if "SAVEPOINT" not in text]
    assert [text.split()[0] for text in many] == ["SELECT", "SELECT"]
    assert "placement_release" in many[1]
    assert [one.begun for one in left] == [True] * 6
    assert {row.state for row in Allocation.objects.all()} == {"releasing"}


def test_a_release_that_is_repeated_writes_nothing_and_tells_the_same_run(
    acme: TenantWorld,
) -> None:
    host = a_host()
    made = [one for k in (1, 2) if (one := acme.order(slots=k).allocation_id) is not None]
    host.work()
    first = allocations_release(allocation_ids=made, reason="done", actor=acme.actor)
    before = rows()
    again = allocations_release(allocation_ids=[*made, *made], reason="again", actor=OPERATOR)
    assert [one.run_id for one in again] == [one.run_id for one in first]
    assert [(one.begun, other.begun) for one, other in zip(first, again, strict=True)] == [
        (True, False)
    ] * 2
    assert rows() == before
    host.work()
    assert {state_of(one) for one in made} == {"released"}
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 0
    projections_refresh()
    assert found() == []


def test_nobody_gives_back_what_is_anothers_and_then_nothing_is(acme: TenantWorld) -> None:
    globex = a_tenant("globex")
    a_host()
    mine, theirs = acme.order().allocation_id, globex.order().allocation_id
    assert mine is not None
    assert theirs is not None
    with pytest.raises(NotFound), tenant_scope(acme.tenant.pk):
        allocations_release(allocation_ids=[mine, theirs], reason="", actor=acme.actor)
    with pytest.raises(NotFound):
        allocation_release(allocation_id=ids.new_id(), reason="", actor=acme.actor)
    assert (state_of(mine), state_of(theirs)) == ("placed", "placed")
    with tenant_scope(acme.tenant.pk):
        allocations_release(allocation_ids=[mine], reason="", actor=acme.actor)
    assert (state_of(mine), state_of(theirs)) == ("releasing", "placed")


def test_what_is_not_there_is_left_out_and_nothing_is_asked_for_nothing(
    acme: TenantWorld, said: list[str]
) -> None:
    a_host()
    made = acme.order().allocation_id
    assert made is not None
    missing = leaving(ids.new_id(), reason="", actor=OPERATOR)
    [left] = releases_begin([missing, leaving(made, reason="", actor=OPERATOR)])
    assert (left.allocation_id, left.begun) == (made, True)
    said.clear()
    assert releases_begin([]) == []
    assert said == []


def test_events_of_more_claims_than_were_expected_are_all_told_apart(acme: TenantWorld) -> None:
    a_host()
    made = acme.order(slots=8).allocation_id
    assert made is not None
    releases_begin([leaving(made, reason="", actor=acme.actor, claims=1)])
    told = Event.objects.filter(kind="placement.claim.release")
    assert told.count() == 8
    assert len(set(Event.objects.values_list("uid", flat=True))) == Event.objects.count()


def never_given(allocation_id: UUID) -> None:
    """A row that nobody thought of: what the host was told to make is gone."""
    NodeTask.objects.filter(allocation_id=allocation_id).delete()


@pytest.mark.django_db(transaction=True)
def test_one_that_breaks_in_a_batch_leaves_all_as_they_were_or_is_left_alone(
    acme: TenantWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    host = a_host()
    made = [one for _ in range(6) if (one := acme.order().allocation_id) is not None]
    never_given(made[2])
    before = rows()
    with pytest.raises(DatabaseError, match="1 of 6 allocations were never given to a host"):
        allocations_release(allocation_ids=made, reason="", actor=acme.actor)
    assert rows() == before
    monkeypatch.setattr(releases, "BATCH", 4)
    with pytest.raises(DatabaseError, match="1 of 1"):
        releases_each(leaving(one, reason="", actor=acme.actor) for one in made)
    assert [state_of(one) for one in made].count("releasing") == 5
    assert state_of(made[2]) == "placed"
    assert f"allocation {made[2]} could not be released" in caplog.text
    host.work()
    assert Claim.objects.filter(state__in=LIVE).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_cannot_be_given_back_keeps_none_of_a_suspended_tenants_others(
    acme: TenantWorld,
) -> None:
    a_host()
    made = [one for _ in range(3) if (one := acme.order().allocation_id) is not None]
    never_given(made[1])
    Tenant.objects.filter(pk=acme.tenant.pk).update(state="suspended", suspension="release")
    suspensions_sweep()
    assert [state_of(one) for one in made] == ["releasing", "placed", "releasing"]
    assert SweepFault.objects.get().subject_id == acme.tenant.pk


@pytest.mark.django_db(transaction=True)
def test_a_lease_that_cannot_be_given_back_keeps_none_of_the_others_of_an_excess(
    acme: TenantWorld,
) -> None:
    host = a_host()
    made = [one for _ in range(4) if (one := acme.order().allocation_id) is not None]
    never_given(made[2])
    envelope_set(
        tenant_id=acme.tenant.pk,
        resource_class=CLASS,
        nominal_milli=1000,
        reason="less",
        on_excess="drain",
        drain_after_s=0,
        actor=OPERATOR,
    )
    assert drains_announce() == 1
    outbox.sweep()
    assert [state_of(one) for one in made].count("releasing") == 0, "the event alone is not enough"
    assert excesses_sweep() == 0
    assert [state_of(one) for one in made] == ["placed", "releasing", "placed", "releasing"]
    assert SweepFault.objects.get().subject_id == acme.tenant.pk
    SweepFault.objects.update(next_at=clock.db_now())
    assert excesses_sweep() == 0
    assert [state_of(one) for one in made] == ["placed", "releasing", "placed", "releasing"]
    host.work()
    counter = QuotaCounter.objects.get(tenant=acme.tenant)
    assert (counter.used_milli, counter.grandfathered_milli) == (2000, 1000)
    assert counter.drain_at is not None, "what is left of the excess stays due"
    assert drains_announce() == 0, "and is not announced at each turn"


@pytest.mark.django_db(transaction=True)
def test_what_was_proven_gone_meanwhile_is_no_excess_any_more(acme: TenantWorld) -> None:
    host = a_host()
    made = [one for _ in range(3) if (one := acme.order().allocation_id) is not None]
    host.work()
    envelope_set(
        tenant_id=acme.tenant.pk,
        resource_class=CLASS,
        nominal_milli=2000,
        reason="less",
        on_excess="drain",
        drain_after_s=0,
        actor=OPERATOR,
    )
    assert excesses_sweep() == 1
    assert [state_of(one) for one in made] == ["active", "active", "releasing"]
    [seen_before] = draining()
    host.work()
    assert [state_of(one) for one in made] == ["active", "active", "released"]
    assert endings._newest(seen_before) == []


@pytest.mark.django_db(transaction=True)
def test_one_hint_names_several_runs_and_each_is_driven(
    acme: TenantWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, ...]] = []
    monkeypatch.setattr(nudges, "send", lambda task, *args: sent.append((task, *args)))
    a_host()
    made = [one for _ in range(8) if (one := acme.order().allocation_id) is not None]
    sent.clear()
    left = allocations_release(allocation_ids=made, reason="", actor=acme.actor)
    [(task, *named)] = sent
    assert task == "gpuaas.kernel.drive"
    assert len(named) == 16, "the runs that were making them, and those that give them back"
    assert {str(one.run_id) for one in left} <= set(named)
    drive_run(str(ids.new_id()), *named)
    states = dict(WorkflowRun.objects.values_list("kind", "state"))
    assert states == {"allocation.create": "cancelled", "allocation.release": "running"}
    sent.clear()
    workflow.nudge(*(ids.new_id() for _ in range(70)))
    assert [len(one) - 1 for one in sent] == [32, 32, 6]


def test_what_hosts_have_proven_gives_back_quota_and_room(acme: TenantWorld) -> None:
    hosts: list[Host] = [a_host(f"host-{k}") for k in range(3)]
    made = [one for _ in range(6) if (one := acme.order(slots=4).allocation_id) is not None]
    for host in hosts[:2]:
        host.work()
    allocations_release(allocation_ids=made, reason="", actor=acme.actor)
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 24_000
    for host in hosts:
        host.work()
    drive_all()
    assert {state_of(one) for one in made} == {"released"}
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == 0
    assert [host.fresh().free_count for host in hosts] == [8, 8, 8]
    projections_refresh()
    assert found() == []
