"""Is every difference between what is wanted and what is seen found, and repaired or explained?"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from gpuaas.kernel import errors
from gpuaas.kernel.clock import FakeClock, db_now, use
from gpuaas.kernel.clock import now as time_now
from gpuaas.kernel.models import Event, WorkflowRun
from nodeagent.protocol import Address, Presence, VmState
from placement.domain.drift import (
    KINDS,
    DeviceDifference,
    Holding,
    HostFacts,
    Known,
    Machine,
    Report,
    SlotFact,
    Work,
    compare,
)
from placement.models import Allocation, AutomaticAction, Claim, Drift, Node, NodeTask
from placement.models.allocation import Observed
from placement.selectors.timeline import event_facts
from placement.services import cleanup
from placement.services.allocations import allocation_release
from placement.services.drift import drift_accept, drift_reconcile, drift_remove, drift_sweep
from placement.snapshots import drift as drift_snapshot
from placement.states import LIVE
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant, drive_all
from tests.placement.drifting import Broken, living, machine

PERIOD_S = 90
A, B = "0190-a", "0190-b"


def facts(*machines: Machine, age_s: float = 5.0, boot: str = "b1", **more: object) -> HostFacts:
    gpus = more.pop("gpus", {})
    return HostFacts(
        boot="b1",
        silent_s=1.0,
        report=Report(age_s, boot, machines, gpus),  # type: ignore[arg-type]  # a mapping
        **more,  # type: ignore[arg-type]  # passed through
    )


def kinds(known: HostFacts) -> set[str]:
    return {one.kind for one in compare(known).differences}


HELD = Holding(A, "active", 900.0, False, ((0, "b1"), (1, "b1")), ("h", 22))
SWAPPED = DeviceDifference("card_swapped", "block", 1, "G1", "x")
FINE = Machine(A, "vm", "running", (0, 1), ("h", 22))


@pytest.mark.parametrize(
    ("known", "want"),
    [
        (facts(FINE, holdings=(HELD,)), set()),
        (facts(holdings=(HELD,)), {"vm_missing"}),
        (facts(holdings=(HELD,), age_s=61.0), {"observed_stale"}),
        (facts(holdings=(HELD,), boot="b0"), {"observed_stale"}),
        (facts(Machine(A, "vm", "stopped", (0, 1)), holdings=(HELD,)), {"vm_state"}),
        (facts(Machine(A, "vm", "unknown", (0, 1)), holdings=(HELD,)), set()),
        (facts(Machine(A, "vm", "running", (0, 2)), holdings=(HELD,)), {"vm_elsewhere"}),
        (
            facts(Machine(A, "vm", "running", (0, 1), ("h", 23)), holdings=(HELD,)),
            {"address_changed"},
        ),
        (
            facts(FINE, holdings=(Holding(A, "active", 900.0, False, ((0, "b0"), (1, "b0"))),)),
            {"boot_changed_under_claim"},
        ),
        (facts(Machine("", "x", "running", ())), {"vm_unknown"}),
        (facts(Machine(B, "x", "running", ()), known=(Known(B, False, None),)), {"vm_unknown"}),
        (
            facts(Machine(B, "x", "running", ()), known=(Known(B, True, 90.0),)),
            {"released_but_present"},
        ),
        (facts(Machine(B, "x", "running", ()), known=(Known(B, True, 5.0),)), set()),
        (facts(slots=(SlotFact(0, "G0", False),), gpus={"G0": "absent"}), {"device_missing"}),
        (facts(slots=(SlotFact(0, "G0", False),), gpus={"G0": "unknown"}), set()),
        (facts(slots=(SlotFact(0, "G0", False),), gpus={}), set()),
        (facts(slots=(SlotFact(0, "G0", False),), gpus={"G1": "present"}), {"device_unknown"}),
        (facts(slots=(SlotFact(0, "G0", False, "data"),)), {"residue"}),
        (facts(slots=(SlotFact(0, "G0", True, "data"),)), set()),
        (
            facts(devices=(DeviceDifference("card_swapped", "block", 1, "G1", "x"),)),
            {"device_differs"},
        ),
        (facts(devices=(DeviceDifference("new_boot", "note", None, "", "x"),)), set()),
        (facts(work=(Work("t", "slice.vm_release", 121.0),)), {"task_stuck"}),
        (facts(holdings=(Holding(A, "placed", 61.0, False),)), {"making_stopped"}),
        (facts(holdings=(Holding(A, "releasing", 61.0, False),)), {"release_stopped"}),
        (facts(holdings=(Holding(A, "releasing", 61.0, True),)), set()),
    ],
)
def test_each_difference_has_its_name(known: HostFacts, want: set[str]) -> None:
    assert kinds(known) == want


def test_an_old_report_judges_nothing_that_only_a_report_can() -> None:
    result = compare(facts(holdings=(HELD,), age_s=61.0))
    assert {k for k, kind in KINDS.items() if kind.from_report} & result.judged == set()


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def broken(acme: TenantWorld) -> Broken:
    return Broken(a_host())


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    # Rows that the database dates itself are never later than this.
    fake = FakeClock(time_now() + timedelta(seconds=60))
    with use(fake):
        yield fake


def lease(acme: TenantWorld, broken: Broken, slots: int = 2) -> str:
    row = acme.order(slots=slots).allocation
    assert row is not None
    broken.work()
    assert Allocation.objects.get(pk=row.pk).state == "active"
    return str(row.pk)


def pass_by(clock: FakeClock, broken: Broken, periods: int = 2) -> None:
    """Periods in which the host is honest: it reports, works, and is looked at."""
    for _ in range(periods):
        for _ in range(3):
            clock.advance(PERIOD_S / 3)
            broken.work()
            broken.report()
            drift_sweep()
        broken.work()
        broken.report()
        drift_sweep()


def standing(kind: str) -> list[Drift]:
    return list(Drift.objects.filter(kind=kind, state__in=["open", "escalated"]))


@pytest.mark.django_db
def test_a_lost_machine_is_kept_until_an_operator_gives_it_up(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    ref = lease(acme, broken)
    broken.machines.pop(ref)
    pass_by(clock, broken)
    (row,) = standing("vm_missing")
    assert (row.actor, row.severity, row.slots) == ("operator", "high", [0, 1])
    assert Allocation.objects.get(pk=ref).state == "active"
    drift_remove(drift_id=row.pk, reason="the disk is lost", actor=OPERATOR)
    pass_by(clock, broken)
    ended = Allocation.objects.get(pk=ref)
    assert (ended.state, ended.outcome_code) == ("released", "drift_vm_missing")
    row.refresh_from_db()
    assert (row.state, row.outcome) == ("closed", "repaired")


@pytest.mark.django_db
def test_silence_is_not_absence(acme: TenantWorld, broken: Broken, clock: FakeClock) -> None:
    ref = lease(acme, broken)
    broken.machines.pop(ref)
    clock.advance(600)
    drift_sweep()
    assert [row.kind for row in Drift.objects.all()] == ["observed_stale"]
    broken.machines[ref] = machine(ref, (0, 1))
    pass_by(clock, broken)
    assert set(Drift.objects.values_list("state", "outcome")) == {("closed", "ended")}


@pytest.mark.django_db
def test_a_difference_that_passes_within_its_grace_is_never_told(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    ref = lease(acme, broken)
    gone = broken.machines.pop(ref)
    clock.advance(61)
    broken.report()
    drift_sweep()
    assert Drift.objects.get().state == "seen"
    broken.machines[ref] = gone
    clock.advance(15)
    broken.report()
    drift_sweep()
    assert not Drift.objects.exists()
    assert not Event.objects.filter(kind__startswith="placement.drift").exists()


@pytest.mark.django_db
def test_the_machine_of_an_ended_allocation_goes_and_a_strangers_stays(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    ref = lease(acme, broken)
    left = broken.machines[ref]
    allocation_release(allocation_id=Allocation.objects.get(pk=ref).pk, reason="", actor=acme.actor)
    broken.work()
    broken.machines[ref] = left
    broken.stranger("somebody-s")
    pass_by(clock, broken)
    assert set(broken.machines) == {"somebody-s"}
    assert Drift.objects.get(kind="released_but_present").outcome == "repaired"
    (row,) = standing("vm_unknown")
    assert not broken.host.fresh().schedulable
    with pytest.raises(errors.ProductError) as refused:
        drift_remove(drift_id=row.pk, reason="away with it", actor=OPERATOR)
    assert refused.value.code == "drift_not_removable"
    drift_accept(drift_id=row.pk, reason="a probe of ours", actor=OPERATOR)
    pass_by(clock, broken)
    row.refresh_from_db()
    assert (row.state, row.decision) == ("accepted", "a probe of ours")
    broken.machines.clear()
    pass_by(clock, broken)
    row.refresh_from_db()
    assert (row.state, row.outcome) == ("closed", "accepted")


@pytest.mark.django_db
def test_what_is_repaired_or_decided_elsewhere_cannot_be_accepted(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    ref = lease(acme, broken)
    left = broken.machines[ref]
    allocation_release(allocation_id=Allocation.objects.get(pk=ref).pk, reason="", actor=acme.actor)
    broken.work()
    broken.machines[ref] = left
    clock.advance(61)
    broken.report()
    drift_sweep()
    row = Drift.objects.get(kind="released_but_present")
    with pytest.raises(errors.ProductError) as refused:
        drift_accept(drift_id=row.pk, reason="leave it", actor=OPERATOR)
    assert refused.value.code == "drift_not_acceptable"


@pytest.mark.django_db
def test_a_new_address_and_a_new_boot_are_followed(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    ref = lease(acme, broken)
    broken.change(ref, address=Address("127.0.0.9", 2299, "ubuntu"))
    broken.reboot(7)
    broken.host.lease()
    pass_by(clock, broken)
    row = Allocation.objects.get(pk=ref)
    assert row.connection is not None
    assert row.connection["command"] == "ssh -p 2299 ubuntu@127.0.0.9"
    assert set(Claim.objects.values_list("boot_id", flat=True)) == {"boot-00000007"}
    told = Event.objects.get(kind="placement.allocation.rebound")
    assert told.facts["boot_id"] == "boot-00000007"
    assert (told.before, told.after, event_facts(told, operator=False)) == (None, None, {})
    ended = Drift.objects.filter(kind__in=["address_changed", "boot_changed_under_claim"])
    assert set(ended.values_list("state", "outcome")) == {("closed", "repaired")}


@pytest.mark.django_db
def test_one_host_that_cannot_be_compared_stops_no_other(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    ref = lease(acme, broken)
    poisoned = a_host("host-2")
    Node.objects.filter(pk=poisoned.node.pk).update(observed={"boot_id": poisoned.boot, "vms": 3})
    broken.machines.pop(ref)
    Node.objects.filter(pk=poisoned.node.pk).update(observed={"boot_id": "x", "vms": [1]})
    pass_by(clock, broken)
    assert [row.node_id for row in standing("not_comparable")] == [poisoned.node.pk]
    assert [row.node_id for row in standing("vm_missing")] == [broken.host.node.pk]


@pytest.mark.django_db
def test_what_the_breaker_holds_is_tried_later(
    acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    other = Broken(a_host("host-2"))
    for here in (broken, other):
        Node.objects.exclude(pk=here.host.node.pk).update(schedulable=False)
        Node.objects.filter(pk=here.host.node.pk).update(schedulable=True)
        ref = lease(acme, here, 8)
        left = here.machines[ref]
        allocation_release(
            allocation_id=Allocation.objects.get(pk=ref).pk, reason="", actor=acme.actor
        )
        here.work()
        here.machines[ref] = left
    for _ in range(4):
        clock.advance(30)
        for here in (broken, other):
            here.report()
        drift_sweep()
    assert AutomaticAction.objects.filter(state="held").count() == 1
    (held,) = Drift.objects.filter(trouble="held by the breaker")
    assert (held.attempts, held.state) == (0, "open")


@pytest.mark.django_db
def test_a_look_reads_no_allocation_that_is_none_of_the_hosts(acme: TenantWorld) -> None:
    """What has ended grows for ever: a machine's allocation is found by its key."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            f"EXPLAIN {drift_snapshot._FACTS}", {"nodes": [acme.tenant.pk], "now": db_now()}
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Seq Scan on placement_allocation" not in plan, plan


@pytest.mark.django_db
def test_a_quiet_look_costs_the_same_for_one_host_and_for_many(acme: TenantWorld) -> None:
    def statements() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            drift_sweep()
        return len(seen)

    a_host("host-1")
    one = statements()
    for k in range(2, 6):
        a_host(f"host-{k}")
    assert statements() == one


def do_lose(broken: Broken, chance: random.Random) -> None:
    if broken.machines:
        broken.machines.pop(chance.choice(sorted(broken.machines)))


def do_stop(broken: Broken, chance: random.Random) -> None:
    mine = sorted(ref for ref, one in broken.machines.items() if one.claim_ref)
    if mine:
        broken.change(chance.choice(mine), state=VmState.STOPPED)


def do_move(broken: Broken, chance: random.Random) -> None:
    mine = sorted(ref for ref, one in broken.machines.items() if one.claim_ref)
    if mine:
        address = Address("127.0.0.1", chance.randrange(2300, 9000), "ubuntu")
        broken.change(chance.choice(mine), address=address)


def do_stranger(broken: Broken, chance: random.Random) -> None:
    broken.stranger(f"stranger-{chance.randrange(1000)}")


def do_ghost(broken: Broken, chance: random.Random) -> None:
    """The machine of something that ended is there again."""
    for row in Allocation.objects.filter(state="released")[:1]:
        broken.machines[str(row.pk)] = machine(str(row.pk), ())


def do_foreign_ref(broken: Broken, chance: random.Random) -> None:
    ref = str(uuid4())
    broken.machines[ref] = machine(ref, ())


def do_reboot(broken: Broken, chance: random.Random) -> None:
    broken.reboot(chance.randrange(10, 10_000))


def do_gpu_gone(broken: Broken, chance: random.Random) -> None:
    broken.gpus[chance.choice(sorted(broken.gpus))] = Presence.ABSENT


def do_gpu_new(broken: Broken, chance: random.Random) -> None:
    broken.gpus[f"GPU-new-{chance.randrange(100)}"] = Presence.PRESENT


def do_forget_run(broken: Broken, chance: random.Random) -> None:
    """Somebody ended a run and its tasks by hand."""
    for row in living(broken):
        if row.state in ("placed", "provisioning", "releasing"):
            cleanup.cancel_tasks(row, OPERATOR)
            WorkflowRun.objects.filter(pk=row.run_id).delete()
            return


def do_forget_presence(broken: Broken, chance: random.Random) -> None:
    Allocation.objects.update(observed=Observed.UNKNOWN)


CORRUPTIONS = (
    do_lose,
    do_stop,
    do_move,
    do_stranger,
    do_ghost,
    do_foreign_ref,
    do_reboot,
    do_gpu_gone,
    do_gpu_new,
    do_forget_run,
    do_forget_presence,
)


def unexplained(broken: Broken) -> list[str]:
    """Everything that is otherwise than wanted, and of which no open row says why."""
    about = {
        (row.kind, str(row.allocation_id or ""), row.subject)
        for row in Drift.objects.filter(state__in=["open", "escalated", "accepted"])
    }
    said = {allocation for _, allocation, _ in about} | {subject for _, _, subject in about}
    out = []
    held = {str(row.pk): row for row in living(broken)}
    for ref, row in held.items():
        seen = broken.machines.get(ref)
        boots = set(
            Claim.objects.filter(allocation=row, state__in=LIVE).values_list("boot_id", flat=True)
        )
        fine = row.state == "cleanup_blocked" or (
            row.state == "active"
            and seen is not None
            and seen.state == VmState.RUNNING
            and seen.address is not None
            and row.connection is not None
            and row.connection["port"] == seen.address.port
            and boots == {broken.host.boot}
        )
        if not fine and ref not in said:
            out.append(f"allocation {row.state}")
    for ref, one in broken.machines.items():
        if ref not in held and ref not in said and f"vm:{one.name}" not in said:
            out.append(f"machine {one.name}")
    sold = {f"GPU-host-1-{k}" for k in range(8)}
    for gpu, presence in broken.gpus.items():
        odd = presence == Presence.ABSENT if gpu in sold else presence == Presence.PRESENT
        if odd and f"gpu:{gpu}" not in said:
            out.append(gpu)
    return out


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(25))
def test_from_any_broken_state_two_periods_bring_agreement_or_an_open_reason(
    seed: int, acme: TenantWorld, broken: Broken, clock: FakeClock
) -> None:
    """I-20. Whatever was broken behind its back, and strangers are never touched."""
    chance = random.Random(seed)
    for size in (1, 2, 1):
        lease(acme, broken, size)
    for row in living(broken)[:1]:
        allocation_release(allocation_id=row.pk, reason="", actor=acme.actor)
        if chance.random() < 0.5:
            broken.work()
    if chance.random() < 0.5:
        acme.order(slots=1)
    for _ in range(chance.randrange(1, 7)):
        chance.choice(CORRUPTIONS)(broken, chance)
        if chance.random() < 0.4:
            clock.advance(chance.randrange(1, 200))
            drift_sweep()
    strangers = {ref for ref, one in broken.machines.items() if one.claim_ref is None}
    pass_by(clock, broken)
    assert unexplained(broken) == []
    assert {r for r, one in broken.machines.items() if one.claim_ref is None} == strangers
    moved = Drift.objects.count()
    pass_by(clock, broken, 1)
    assert Drift.objects.filter(state="seen").count() == 0
    assert Drift.objects.count() <= moved + 1
    assert drift_reconcile(node_ids=[]) == 0
    assert NodeTask.objects.filter(kind="slice.vm_release").count() <= 12
    drive_all()
