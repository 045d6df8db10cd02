"""Is each kind of corruption found by its audit, and a healthy platform left alone?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection

from gpuaas.kernel import audits
from gpuaas.kernel.audits import Finding
from gpuaas.kernel.ids import new_id
from placement.audits.capacity import projections
from placement.models import Allocation, Claim, ClaimDevice, CleanupProof, GpuDevice, Node, Slot
from placement.services.allocations import allocation_release
from placement.services.nodes import node_drain
from placement.services.projections import projections_refresh
from tenants.models import QuotaCounter
from tests.builders import CLASS, OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db

TABLES = (
    "placement_allocation",
    "placement_claim",
    "placement_cleanupproof",
    "placement_node",
    "placement_nodetask",
    "placement_slot",
    "tenants_quotacounter",
    "kernel_event",
    "kernel_workflowrun",
)


@dataclass
class World:
    """One host of eight slots: two of acme's, one that was given back, five free."""

    host: Host
    acme: TenantWorld

    @property
    def lease(self) -> Allocation:
        """The lease that is active."""
        return Allocation.objects.get(state="active")

    @property
    def claim(self) -> Claim:
        """One of its claims."""
        return Claim.objects.filter(state="active").order_by("slot_index")[0]


@pytest.fixture
def world() -> World:
    a_catalogue()
    made = World(a_host(), a_tenant())
    made.acme.order(slots=2)
    made.acme.order(slots=1)
    made.host.work()
    short = Allocation.objects.get(slots=1)
    allocation_release(allocation_id=short.pk, reason="done", actor=made.acme.actor)
    made.host.work()
    projections_refresh()
    return made


@pytest.fixture
def unguarded(world: World) -> World:
    """As after somebody took the database's own guards away. Rolled back with the test."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        cursor.execute("ALTER TABLE placement_claim DROP CONSTRAINT no_double_claim")
        cursor.execute("DROP INDEX device_held_once")
        cursor.execute("ALTER TABLE tenants_quotacounter DROP CONSTRAINT used_within_limit")
    return world


def found(name: str) -> list[Finding]:
    """What the audit of this name says."""
    return audits.registered()[name]()


def codes(name: str) -> set[str]:
    """The codes of what it says."""
    return {finding.code for finding in found(name)}


def sql(statement: str, *params: UUID) -> None:
    """Write past every service, as a person with a database prompt would."""
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


def test_no_audit_finds_anything_on_a_platform_that_works(world: World) -> None:
    assert Allocation.objects.filter(state="released").exists()
    assert {name: audit() for name, audit in audits.registered().items()} == {
        name: [] for name in audits.registered()
    }


def test_no_audit_finds_anything_while_a_cleanup_is_blocked(world: World) -> None:
    allocation_release(allocation_id=world.lease.pk, reason="done", actor=world.acme.actor)
    world.host.work(skip=("gpu_scrubbed",))
    projections_refresh()
    assert Allocation.objects.filter(state="cleanup_blocked").count() == 1
    assert [name for name, audit in audits.registered().items() if audit()] == []


Plant = Callable[[World], object]

# What is written past the services, and the audit and code that must say so.
CORRUPTIONS: dict[str, tuple[Plant, str, str]] = {
    "two live claims of one slot": (
        lambda w: sql(
            "INSERT INTO placement_claim (id, tenant_id, allocation_id, node_id, node_num, "
            "slot_id, slot_index, span, resource_class_id, amount_milli, state, version, holder, "
            "attempt, boot_id) SELECT %s, tenant_id, allocation_id, node_id, node_num, slot_id, "
            "slot_index, span, resource_class_id, amount_milli, state, version, holder, attempt, "
            "boot_id FROM placement_claim WHERE id = %s",
            new_id(),
            w.claim.pk,
        ),
        "placement.claims",
        "double_claim",
    ),
    "a claim that names another node's number": (
        lambda w: sql(
            "UPDATE placement_claim SET node_num = node_num + 1 WHERE id = %s", w.claim.pk
        ),
        "placement.claims",
        "claim_misplaced",
    ),
    "a claim whose span is not its slot's": (
        lambda w: sql(
            "UPDATE placement_claim SET span = '{[7000,8000)}' WHERE id = %s", w.claim.pk
        ),
        "placement.claims",
        "claim_misplaced",
    ),
    "a lease of two slots with one claim": (
        lambda w: sql("UPDATE placement_claim SET state = 'released' WHERE id = %s", w.claim.pk),
        "placement.claims",
        "claims_incomplete",
    ),
    "a lease that is over with claims that are not": (
        lambda w: sql(
            "UPDATE placement_allocation SET state = 'released' WHERE id = %s", w.lease.pk
        ),
        "placement.claims",
        "claim_outlives_allocation",
    ),
    "a blocked claim that the tenant still holds": (
        lambda w: sql(
            "UPDATE placement_claim SET state = 'cleanup_blocked' WHERE id = %s", w.claim.pk
        ),
        "placement.claims",
        "claim_out_of_step",
    ),
    "a device that two live claims hold": (
        lambda w: ClaimDevice.objects.create(
            claim=Claim.objects.filter(state="active").order_by("-slot_index")[0],
            uid=w.claim.devices.get(uid__startswith="gpu:").uid,
        ),
        "placement.devices",
        "device_held_twice",
    ),
    "a hold on a device that outlives its claim": (
        lambda w: ClaimDevice.objects.filter(claim__state="released").update(live=True),
        "placement.devices",
        "device_hold_differs",
    ),
    "a slot that is held without its GPU": (
        lambda w: w.claim.devices.all().delete(),
        "placement.devices",
        "device_not_held",
    ),
    "a slot whose GPU is known on no node": (
        lambda w: GpuDevice.objects.filter(uuid=Slot.objects.get(index=7).gpu_uuid).delete(),
        "placement.devices",
        "gpu_of_another_node",
    ),
    "a claim that ended without proof": (
        lambda w: CleanupProof.objects.all().delete(),
        "placement.proofs",
        "released_without_proof",
    ),
    "a proof of an earlier attempt": (
        lambda w: CleanupProof.objects.update(attempt=7),
        "placement.proofs",
        "released_without_proof",
    ),
    "a complete proof that lists what is missing": (
        lambda w: CleanupProof.objects.update(missing=[{"step": "gpu_scrubbed"}]),
        "placement.proofs",
        "proof_not_of_its_task",
    ),
    "a free mask with a claimed slot in it": (
        lambda w: Node.objects.update(free_mask=255),
        "placement.capacity",
        "free_capacity_wrong",
    ),
    "a free count that is not the mask's": (
        lambda w: Node.objects.update(free_count=8),
        "placement.capacity",
        "free_capacity_wrong",
    ),
    "a draining node that takes work": (
        lambda w: (
            node_drain(node_id=w.host.node.pk, reason="test", actor=OPERATOR),
            Node.objects.update(schedulable=True),
        ),
        "placement.capacity",
        "schedulable_wrong",
    ),
    "a counter below what is held": (
        lambda w: QuotaCounter.objects.update(used_milli=1000),
        "placement.quota",
        "counter_wrong",
    ),
    "a counter that is gone": (
        lambda w: QuotaCounter.objects.all().delete(),
        "placement.quota",
        "counter_wrong",
    ),
    "a claim of another amount than was decided": (
        lambda w: sql("UPDATE placement_claim SET amount_milli = 3000 WHERE id = %s", w.claim.pk),
        "placement.quota",
        "amount_differs",
    ),
    "a counter that enforces another limit": (
        lambda w: QuotaCounter.objects.update(limit_milli=999_000),
        "tenants.envelopes",
        "limit_differs",
    ),
    "a counter above its limit": (
        lambda w: QuotaCounter.objects.update(used_milli=999_000),
        "tenants.envelopes",
        "over_the_limit",
    ),
    "a counter that is closed to an active tenant": (
        lambda w: QuotaCounter.objects.update(admitting=False),
        "tenants.envelopes",
        "door_differs",
    ),
    "a lease on its way that nobody works on": (
        lambda w: _abandon(w.lease),
        "placement.runs",
        "nobody_works_on_it",
    ),
    "a lease on its way whose run is gone": (
        lambda w: sql(
            "UPDATE placement_allocation SET state = 'releasing', run_id = %s WHERE id = %s",
            new_id(),
            w.lease.pk,
        ),
        "placement.runs",
        "nobody_works_on_it",
    ),
    "a task for a lease that is over": (
        lambda w: sql(
            "UPDATE placement_nodetask SET state = 'pending' WHERE allocation_id = %s "
            "AND kind = 'slice.vm_provision'",
            w.lease.pk,
        ),
        "placement.runs",
        "task_without_purpose",
    ),
    "a state that no event led to": (
        lambda w: sql(
            "UPDATE placement_allocation SET state = 'releasing' WHERE id = %s", w.lease.pk
        ),
        "placement.transitions",
        "state_not_recorded",
    ),
    "an event that was removed": (
        lambda w: sql(
            "DELETE FROM kernel_event WHERE kind = 'placement.allocation.provision' "
            "AND subject_id = %s",
            w.lease.pk,
        ),
        "placement.transitions",
        "move_missing",
    ),
}


def _abandon(lease: Allocation) -> None:
    """The lease is being released, and its run ended five minutes ago."""
    sql("UPDATE placement_allocation SET state = 'releasing' WHERE id = %s", lease.pk)
    sql(
        "UPDATE kernel_workflowrun SET ended_at = ended_at - interval '5 minutes' WHERE id = %s",
        lease.run_id,
    )


@pytest.mark.parametrize("planted", CORRUPTIONS)
def test_each_corruption_is_found_and_named(unguarded: World, planted: str) -> None:
    plant, name, code = CORRUPTIONS[planted]
    plant(unguarded)
    assert code in codes(name)


def test_a_projection_that_nobody_refreshes_is_found(world: World) -> None:
    assert projections(settle_s=0) == []
    Node.objects.update(projected={"posture": "fully_available", "free": 8})
    [finding] = projections(settle_s=0)
    assert finding.code == "projection_wrong"
    assert "fully_available" in finding.detail
    assert "partially_allocated" in finding.detail
    projections_refresh()
    assert projections(settle_s=0) == []


@pytest.mark.parametrize(
    ("command", "plant"),
    [
        ("claims_audit", lambda w: Node.objects.update(free_count=8)),
        ("quota_audit", lambda w: QuotaCounter.objects.update(used_milli=1000)),
    ],
)
def test_the_commands_end_with_three_when_something_is_found(
    unguarded: World, command: str, plant: Plant
) -> None:
    out = StringIO()
    call_command(command, stdout=out)
    assert "0 findings" in out.getvalue()
    plant(unguarded)
    with pytest.raises(SystemExit) as ended:
        call_command(command, stdout=out)
    assert ended.value.code == 3
    assert "1 findings" in out.getvalue()


def test_a_finding_says_who_and_how_much(unguarded: World) -> None:
    QuotaCounter.objects.update(used_milli=1000)
    [finding] = found("placement.quota")
    assert finding.subject == f"tenant {unguarded.acme.tenant.pk}"
    assert finding.detail == f"1000 of {CLASS} is charged, 2000 is held by live claims"
