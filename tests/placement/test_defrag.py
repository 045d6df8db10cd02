"""Are moves planned, shown, made one by one, and stopped when the fleet is another?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from admission.models import AdmissionRequest, Workload
from gpuaas.kernel import clock, outbox, workflow
from gpuaas.kernel.errors import InvalidRequest, ProductError
from gpuaas.kernel.models import Event, WorkflowRun
from placement.defrag_errors import DefragPlanStale
from placement.models import Allocation, Defragmentation, Node, Pool
from placement.services.allocations import allocation_release, request_withdraw
from placement.services.defrag import (
    DefragPlan,
    defrag_plan,
    defrag_run,
    in_window,
    policy_of,
    policy_set,
)
from placement.services.maintenance import Selector, window_cancel, window_plan
from placement.services.nodes import node_drain
from placement.services.queue import cycle_sweep
from placement.services.workloads import workload_scale, workload_stop
from placement.snapshots import movable
from tenants.models import SlaTier
from tenants.services.tenancy import envelope_set
from tests.admission.test_workloads import run_it, the_workload, used
from tests.builders import (
    BOTH_KINDS,
    CLASS,
    OPERATOR,
    Host,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
    drive_all,
)
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db(transaction=True)


def allowed(**how: Any) -> None:
    """Moves are allowed in the pool."""
    given = {"enabled": True, "moves": 4, "lost_milli": 100_000, "from_hour": 0, "until_hour": 0}
    policy_set(pool="default", reason="test", actor=OPERATOR, **{**given, **how})


class Spread:
    """Two hosts of eight, four slots of each in use: of a service that may be moved, and of a job.

    ``movable`` says which of the two was declared so.
    """

    def __init__(self, *movable: str) -> None:
        a_catalogue()
        SlaTier.objects.update(protected_run_s=0)
        self.acme = a_tenant("acme")
        self.hosts = [a_host("host-1"), a_host("host-2")]
        for name, kind, other in (("web", "service", "host-2"), ("train", "job", "host-1")):
            Node.objects.filter(name=other).update(schedulable=False)
            run_it(self.acme, name=name, kind=kind, slots=4, movable=name in movable)
            Node.objects.update(schedulable=True)
        self.settle()

    def settle(self) -> None:
        """Hosts do what is due, and what follows from it."""
        for _ in range(4):
            for host in self.hosts:
                host.work()
            outbox.sweep()
            drive_all()

    def where(self, name: str) -> list[str]:
        """The hosts of a workload's allocations that are not released."""
        rows = Allocation.objects.exclude(state="released").filter(workload__name=name)
        return sorted(rows.values_list("node__name", flat=True))

    def begin(self, plan: DefragPlan) -> WorkflowRun:
        """Run what was looked at."""
        return defrag_run(sku=plan.sku, seen=plan.digest, reason="room", actor=OPERATOR)


def code_of(act: Any) -> str:
    """The code with which it is refused."""
    with pytest.raises(ProductError) as refused:
        act()
    return refused.value.code


def test_a_plan_says_what_would_move_where_and_writes_nothing() -> None:
    place = Spread("web")
    before = (Event.objects.count(), Node.objects.get(name="host-1").generation)
    allowed()
    plan = defrag_plan(sku="h100.slice")
    assert (plan.slots, plan.host, plan.enabled, plan.possible) == (8, "host-1", True, True)
    (step,) = plan.steps
    assert (step.workload, step.source, step.target) == ("web", "host-1", "host-2")
    assert (step.leaves, step.takes, step.lost_milli) == ([0, 1, 2, 3], [4, 5, 6, 7], 0)
    first = plan.pictures[0]
    assert first.before == ["leaving"] * 4 + ["free"] * 4
    assert first.after == ["free"] * 8
    assert plan.pictures[1].after == ["held"] * 4 + ["arriving"] * 4
    assert Event.objects.count() == before[0] + 1, "only the policy was written"
    assert Node.objects.get(name="host-1").generation == before[1]
    assert place.where("web") == ["host-1"]


def test_nothing_that_was_not_declared_movable_ever_moves() -> None:
    place = Spread()
    allowed()
    plan = defrag_plan(sku="h100.slice")
    assert (plan.possible, plan.movable, plan.least) == (False, 0, None)
    assert "too little" in plan.said
    assert code_of(lambda: place.begin(plan)) == "defrag_no_plan"
    place.acme.order(slots=1)
    assert defrag_plan(sku="h100.slice").movable == 0, "a lease is never moved"


def test_moves_are_off_until_the_pool_allows_them_and_only_in_its_hours() -> None:
    place = Spread("web")
    plan = defrag_plan(sku="h100.slice")
    assert plan.possible
    assert not plan.enabled
    assert code_of(lambda: place.begin(plan)) == "defrag_off"
    hour = Event.objects.latest("id").at.hour
    allowed(from_hour=(hour + 2) % 24, until_hour=(hour + 3) % 24)
    assert code_of(lambda: place.begin(plan)) == "defrag_off"
    allowed(from_hour=23, until_hour=1)
    policy = policy_of(Pool.objects.get(name="default"))
    assert [in_window(policy, h) for h in (22, 23, 0, 1)] == [False, True, True, False]
    assert code_of(lambda: allowed(moves=99)) == "invalid_request"


def test_the_job_with_less_lost_work_is_moved_and_a_budget_forbids_what_loses_too_much() -> None:
    Spread("train")
    Allocation.objects.filter(workload__name="train").update(active_at="2020-01-01T00:00:00Z")
    allowed()
    plan = defrag_plan(sku="h100.slice")
    assert not plan.possible
    assert "within the budget" in plan.said
    row = Allocation.objects.get(workload__name="train").workload
    assert row is not None
    row.spec = {**row.spec, "checkpoint_s": 900}
    row.save()
    plan = defrag_plan(sku="h100.slice")
    assert (plan.possible, plan.lost_milli) == (True, 1000)
    assert not defrag_plan(sku="h100.slice", lost_milli=999).possible
    assert not defrag_plan(sku="h100.slice", moves=0).possible


def test_a_run_moves_what_was_planned_and_makes_the_room() -> None:
    place = Spread("web")
    allowed()
    run = place.begin(defrag_plan(sku="h100.slice"))
    drive_all()
    assert not Node.objects.get(name="host-1").schedulable
    assert place.where("web") == ["host-1", "host-2"], "it holds its new place before it leaves"
    assert used(place.acme) == 12_000
    place.settle()
    run.refresh_from_db()
    assert (run.state, (run.result or {})["outcome"]) == ("succeeded", "moved")
    assert place.where("web") == ["host-2"]
    assert (Node.objects.get(name="host-1").free_count, used(place.acme)) == (8, 8_000)
    row = Defragmentation.objects.get()
    assert (row.outcome, [move["state"] for move in row.moves]) == ("moved", ["moved"])
    request = AdmissionRequest.objects.get(pk=row.moves[0]["request"])
    assert (request.action, request.actor["name"]) == ("workload.placement", OPERATOR.name)
    assert findings() == []


def test_the_room_is_for_who_waits_and_for_nobody_who_comes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("placement.services.queue.HOLD_AFTER_S", 0)
    place = Spread("web")
    allowed()
    waits = place.acme.order(slots=8, wait=True)
    place.begin(defrag_plan(sku="h100.slice"))
    drive_all()
    with pytest.raises(ProductError) as refused:
        place.acme.order(slots=1)
    assert refused.value.facts["removed"]["node_held"] == 1
    place.settle()
    cycle_sweep()
    row = AdmissionRequest.objects.get(pk=waits.request_id)
    assert row.state == "admitted"
    assert Allocation.objects.get(request=row).node.name == "host-1"
    assert findings() == []


def test_a_plan_that_is_not_what_would_be_done_now_is_not_run() -> None:
    place = Spread("web", "train")
    allowed()
    plan = defrag_plan(sku="h100.slice")
    assert [step.workload for step in plan.steps] == ["web"]
    web = Workload.objects.get(name="web")
    web.spec = {**web.spec, "movable": False}
    web.save()
    assert [step.workload for step in defrag_plan(sku="h100.slice").steps] == ["train"]
    assert code_of(lambda: place.begin(plan)) == "defrag_plan_stale"
    assert not Defragmentation.objects.exists()


def test_a_second_run_in_the_pool_waits_for_the_first() -> None:
    place = Spread("web")
    allowed()
    plan = defrag_plan(sku="h100.slice")
    place.begin(plan)
    Node.objects.filter(name="host-1").update(schedulable=True)
    assert code_of(lambda: place.begin(plan)) == "operation_in_progress"


def test_a_run_stops_with_the_reason_when_what_was_to_move_is_gone() -> None:
    place = Spread("web")
    allowed()
    run = place.begin(defrag_plan(sku="h100.slice"))
    web = Workload.objects.get(name="web")
    workload_stop(workload_id=web.pk, reason="", actor=place.acme.actor)
    drive_all()
    run.refresh_from_db()
    assert (run.state, (run.error or {})["code"]) == ("failed", "defrag_plan_stale")
    row = Defragmentation.objects.get()
    assert (row.outcome, row.code) == ("stopped", "defrag_plan_stale")
    assert "not active" in row.detail
    assert Node.objects.get(name="host-1").schedulable
    place.settle()
    assert findings() == []


def test_a_run_stops_with_the_reason_when_the_new_place_was_taken() -> None:
    place = Spread("web")
    allowed()
    run = place.begin(defrag_plan(sku="h100.slice"))
    place.acme.order(slots=4)
    drive_all()
    run.refresh_from_db()
    assert run.state == "failed"
    assert (run.error or {})["code"] in ("sku_unavailable", "forbidden_by_locality")
    assert Defragmentation.objects.get().moves[0]["state"] == "refused"
    assert AdmissionRequest.objects.filter(state="denied").count() == 1
    assert (place.where("web"), used(place.acme)) == (["host-1"], 12_000)
    assert findings() == []


def test_a_run_stops_when_a_left_place_is_not_proven_clean() -> None:
    place = Spread("web")
    allowed()
    run = place.begin(defrag_plan(sku="h100.slice"))
    drive_all()
    place.hosts[1].work()
    outbox.sweep()
    place.hosts[0].work(skip=("gpu_scrubbed",))
    outbox.sweep()
    drive_all()
    run.refresh_from_db()
    assert (run.state, (run.error or {})["code"]) == ("failed", "cleanup_blocked")
    assert place.where("web") == ["host-1", "host-2"]
    assert used(place.acme) == 8_000, "the platform holds what is blocked"
    assert findings() == []


def test_a_run_that_is_cancelled_lets_the_move_under_way_end_and_begins_no_other() -> None:
    place = Spread("web")
    allowed()
    run = place.begin(defrag_plan(sku="h100.slice"))
    drive_all()
    workflow.cancel(run.pk, OPERATOR, "enough")
    drive_all()
    assert Defragmentation.objects.get().outcome == "stopped"
    assert Node.objects.get(name="host-1").schedulable
    place.settle()
    assert place.where("web") == ["host-2"]
    assert findings() == []


def test_a_workload_that_is_scaled_down_while_one_replica_moves_ends_with_what_is_wanted() -> None:
    a_catalogue()
    SlaTier.objects.update(protected_run_s=0)
    acme = a_tenant("acme")
    hosts: list[Host] = [a_host("host-1"), a_host("host-2")]
    Node.objects.filter(name="host-2").update(schedulable=False)
    row = the_workload(run_it(acme, name="web", slots=2, replicas=2, movable=True))
    Node.objects.update(schedulable=True)
    blocker = acme.order(slots=5, own="apart")
    for host in hosts:
        host.work()
    allowed()
    plan = defrag_plan(sku="h100.slice", slots=6)
    assert len(plan.steps) == 1
    defrag_run(sku="h100.slice", slots=6, seen=plan.digest, reason="room", actor=OPERATOR)
    drive_all()
    workload_scale(workload_id=row.pk, replicas=1, actor=acme.actor)
    for _ in range(4):
        for host in hosts:
            host.work()
        outbox.sweep()
        drive_all()
    standing = Allocation.objects.filter(workload=row, state="active")
    assert standing.count() == 1
    assert used(acme) == 7_000
    assert blocker.allocation_id is not None
    allocation_release(allocation_id=blocker.allocation_id, reason="", actor=acme.actor)
    assert findings() == []


def test_with_room_already_there_is_nothing_to_do() -> None:
    place = Spread("web")
    allowed()
    plan = defrag_plan(sku="h100.slice", slots=4)
    assert (plan.fits_already, plan.steps) == (True, [])
    assert (
        code_of(
            lambda: defrag_run(
                sku="h100.slice", slots=4, seen=plan.digest, reason="room", actor=OPERATOR
            )
        )
        == "defrag_no_plan"
    )
    whole = defrag_plan(sku="h100.node")
    assert (whole.slots, whole.possible) == (0, True)
    assert place.where("web") == ["host-1"]
    assert code_of(lambda: defrag_plan(sku="h100.slice", slots=9)) == "invalid_request"
    assert code_of(lambda: defrag_plan(sku="none")) == "not_found"


def test_nothing_is_moved_into_a_window_of_maintenance_or_onto_a_host_that_is_drained() -> None:
    place = Spread("web")
    allowed()
    assert defrag_plan(sku="h100.slice").possible
    target = place.hosts[1].node
    starts = clock.db_now() + timedelta(hours=2)
    window = window_plan(
        selector=Selector(nodes=("host-2",)),
        starts_at=starts,
        ends_at=starts + timedelta(hours=1),
        reason="firmware",
        actor=OPERATOR,
    )[0]
    assert not defrag_plan(sku="h100.slice").possible, "the window comes before its work ends"
    window_cancel(window_id=window.pk, reason="not needed", actor=OPERATOR)
    plan = defrag_plan(sku="h100.slice")
    assert plan.possible
    node_drain(node_id=target.pk, reason="work", actor=OPERATOR)
    assert not defrag_plan(sku="h100.slice").possible
    assert code_of(lambda: place.begin(plan)) == "defrag_no_plan"


def test_a_run_stops_where_maintenance_was_planned_meanwhile() -> None:
    place = Spread("web")
    allowed()
    run = place.begin(defrag_plan(sku="h100.slice"))
    starts = clock.db_now() + timedelta(hours=2)
    window_plan(
        selector=Selector(nodes=("host-2",)),
        starts_at=starts,
        ends_at=starts + timedelta(hours=1),
        reason="firmware",
        actor=OPERATOR,
    )
    place.settle()
    run.refresh_from_db()
    assert (run.state, place.where("web")) == ("failed", ["host-1"])
    assert Defragmentation.objects.get().outcome == "stopped"


def test_a_plan_says_what_it_leaves_out_and_why() -> None:
    place = Spread("web")
    a_parts_catalogue()
    place.hosts.append(a_host("host-3", parts=BOTH_KINDS))
    cut_slots(place.hosts[2], "mig", 0)
    place.acme.order("h100.1g")
    place.acme.order(slots=1)
    plan = defrag_plan(sku="h100.slice")
    assert plan.left_out == {"move_lease": 1, "move_not_declared": 1, "move_part": 1}
    assert (plan.movable, plan.hosts_looked_at, plan.fewest) == (1, 3, True)
    SlaTier.objects.update(protected_run_s=3600)
    assert defrag_plan(sku="h100.slice").left_out["move_not_now"] == 1
    SlaTier.objects.update(protected_run_s=0)
    envelope_set(
        tenant_id=place.acme.tenant.pk,
        resource_class=CLASS,
        nominal_milli=9_125,
        reason="full",
        actor=OPERATOR,
    )
    assert defrag_plan(sku="h100.slice").left_out["move_refused"] == 1


def test_a_fleet_beyond_a_page_gets_a_plan_that_says_it_is_not_proven_fewest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Spread("web", "train")
    a_host("host-3")
    Node.objects.filter(name="host-3").update(schedulable=False)
    assert defrag_plan(sku="h100.slice").fewest
    Node.objects.update(schedulable=True)
    Node.objects.filter(name="host-3").update(free_count=0, free_mask=0)
    monkeypatch.setattr(movable, "MOST_HOSTS", 2)
    plan = defrag_plan(sku="h100.slice")
    assert (plan.possible, plan.fewest, len(plan.steps), plan.hosts_looked_at) == (
        True,
        False,
        1,
        2,
    )
    assert "Not proven fewest: 2 hosts were looked at, not all." in plan.said
    monkeypatch.setattr(movable, "MOST_HOSTS", 1)
    plan = defrag_plan(sku="h100.slice")
    assert (plan.possible, plan.decided, plan.hosts_looked_at) == (False, False, 3)


class Waiting(Spread):
    """The same, and two tenants wait for a whole host: globex first, then initech."""

    def __init__(self) -> None:
        super().__init__("web")
        self.globex, self.initech = a_tenant("globex"), a_tenant("initech")
        self.first = self.globex.order(slots=8, wait=True).request
        self.second = self.initech.order(slots=8, wait=True).request

    def states(self) -> list[str]:
        """Of the two requests, as they wait."""
        rows = AdmissionRequest.objects.filter(pk__in=[self.first.pk, self.second.pk])
        return list(rows.order_by("queued_at", "pk").values_list("state", flat=True))


def test_room_that_is_made_for_one_request_goes_to_it_and_not_to_the_head_of_the_queue() -> None:
    place = Waiting()
    allowed()
    plan = defrag_plan(sku="h100.slice", request=place.second.pk)
    assert (plan.slots, len(plan.steps)) == (8, 1)
    with pytest.raises(DefragPlanStale):  # what was looked at was room for somebody else
        defrag_run(
            sku="h100.slice",
            seen=plan.digest,
            request=place.first.pk,
            slots=8,
            reason="they waited",
            actor=OPERATOR,
        )
    run = defrag_run(
        sku="h100.slice",
        seen=plan.digest,
        request=place.second.pk,
        reason="they waited",
        actor=OPERATOR,
    )
    place.settle()
    run.refresh_from_db()
    assert run.state == "succeeded"
    assert place.states() == ["queued", "admitted"]
    won = Allocation.objects.get(request=place.second)
    assert (won.node.name, won.slots) == (plan.host, 8)
    assert Defragmentation.objects.get().for_request == place.second.pk
    assert findings() == []


def test_a_named_request_that_went_away_leaves_the_room_to_the_queue() -> None:
    place = Waiting()
    allowed()
    plan = defrag_plan(sku="h100.slice", request=place.second.pk)
    defrag_run(
        sku="h100.slice", seen=plan.digest, request=place.second.pk, reason="x", actor=OPERATOR
    )
    request_withdraw(request_id=place.second.pk, actor=place.initech.actor)
    place.settle()
    cycle_sweep()
    assert place.states() == ["admitted", "withdrawn"]


def test_room_is_made_where_the_request_may_run_and_a_strange_one_is_refused_by_name() -> None:
    place = Spread("web")
    Node.objects.filter(name="host-2").update(zone="b")
    globex = a_tenant("globex")
    bound = globex.order(slots=8, zones=("b",), wait=True).request
    assert not defrag_plan(sku="h100.slice", request=bound.pk).possible, "train cannot be moved"
    assert defrag_plan(sku="h100.slice").host == "host-1"
    with pytest.raises(InvalidRequest) as refused:
        defrag_plan(sku="h100.node", request=bound.pk)
    assert refused.value.errors[0].pointer == "/sku"
    with pytest.raises(InvalidRequest) as refused:
        defrag_plan(sku="h100.slice", request=place.acme.tenant.pk)
    assert refused.value.errors[0].pointer == "/request"
    with pytest.raises(InvalidRequest) as refused:
        defrag_plan(sku="h100.slice", slots=2, request=bound.pk)
    assert refused.value.errors[0].pointer == "/slots"
