"""Parts of a GPU: how a slot is cut, what goes on it, what is refused, and how it is given back."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction

from gpuaas.kernel.errors import InvalidRequest, ProductError
from gpuaas.kernel.models import Event
from placement.audits.parts import parts
from placement.errors import GpuUnknown, NeverFits, PartUnsupported, SkuUnavailable, SlotInUse
from placement.models import Claim, ClaimDevice, CutSlot, GpuDevice, Node, NodeTask, Slot
from placement.services import allocations, cuts, evidence, nodes, queue, workloads
from placement.states import LIVE
from tenants.models import QuotaCounter, SlaTier
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
    state_of,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def host() -> Host:
    a_catalogue()
    a_parts_catalogue()
    return a_host(parts=BOTH_KINDS)


def _lease(world: TenantWorld, host: Host, sku: str) -> UUID:
    ticket = world.order(sku)
    host.work()
    assert ticket.allocation_id is not None
    assert state_of(ticket.allocation_id) == "active"
    return ticket.allocation_id


def _release(world: TenantWorld, host: Host, allocation_id: UUID, **how: object) -> None:
    allocations.allocation_release(allocation_id=allocation_id, reason="", actor=world.actor)
    host.work(**how)


def _live() -> list[tuple[int, str, dict[str, object] | None]]:
    rows = Claim.objects.filter(state__in=LIVE).order_by("slot_index", "span")
    return [(claim.slot_index, claim.span, claim.part) for claim in rows]


def test_an_instance_is_leased_used_and_proven_gone(host: Host) -> None:
    cut_slots(host, "mig", 3)
    acme = a_tenant()
    node = host.fresh()
    assert (node.free_count, node.free_mask >> 3 & 1) == (7, 0)
    mine = _lease(acme, host, "h100.1g")
    [(slot, span, part)] = _live()
    assert (slot, span) == (3, "{[3750,3875)}")
    assert part == {"kind": "mig", "profile": "1g.10gb", "start": 6, "size": 1, "bits": 64}
    uid = ClaimDevice.objects.get(live=True).uid
    assert uid == f"mig:GPU-{node.name}-3:6:1"
    row = CutSlot.objects.get()
    assert (row.state, row.free_milli, row.taken, row.open) == (64, 875, "{[3750,3875)}", True)
    [given] = NodeTask.objects.get(kind="slice.vm_provision").params["slots"]
    assert given["part"] == {"kind": "mig", "profile": "1g.10gb", "start": 6, "size": 1}
    assert (given["nic"], given["memory_bytes"]) == (None, 2**35 // 8)
    assert QuotaCounter.objects.get().used_milli == 125
    _release(acme, host, mine)
    assert state_of(mine) == "released"
    row.refresh_from_db()
    assert (row.state, row.free_milli, row.taken) == (0, 1000, "{}")
    assert not ClaimDevice.objects.filter(live=True).exists()
    assert QuotaCounter.objects.get().used_milli == 0


def test_without_the_word_that_it_was_destroyed_a_part_stays_blocked(host: Host) -> None:
    cut_slots(host, "mig", 0)
    acme = a_tenant()
    mine = _lease(acme, host, "h100.3g")
    _release(acme, host, mine, skip=("part_destroyed",))
    assert state_of(mine) == "cleanup_blocked"
    assert CutSlot.objects.get().free_milli == 500
    other = _lease(acme, host, "h100.3g")
    assert state_of(other) == "active"


def test_instances_of_two_tenants_fill_one_gpu_before_another_is_broken(host: Host) -> None:
    cut_slots(host, "mig", 0, 5)
    acme, beta = a_tenant("acme"), a_tenant("beta")
    for world in (acme, beta, acme, beta, acme, beta, acme):
        _lease(world, host, "h100.1g")
    assert {slot for slot, _, _ in _live()} == {0}
    _lease(acme, host, "h100.1g")
    assert {slot for slot, _, _ in _live()} == {0, 5}
    media = _lease(acme, host, "h100.media")
    assert state_of(media) == "active"
    with pytest.raises(SkuUnavailable) as refused:
        acme.order("h100.media")
    assert refused.value.facts["removed"] == {"no_place_for_profile": 2}
    assert refused.value.facts["largest_free_milli"] == 750


def test_shares_of_one_gpu_are_one_tenants(host: Host) -> None:
    cut_slots(host, "share", 2)
    acme, beta = a_tenant("acme"), a_tenant("beta")
    first = _lease(acme, host, "h100.third")
    _lease(acme, host, "h100.third")
    with pytest.raises(SkuUnavailable) as refused:
        beta.order("h100.third")
    assert refused.value.facts["removed"] == {"shared_by_another_tenant": 1}
    _release(acme, host, first)
    _lease(acme, host, "h100.tenth")
    _lease(acme, host, "h100.third")
    # The freed third was given to a tenth and to a part of the next third: two spans, one claim.
    assert sorted(span for _, span, _ in _live()) == [
        "{[2000,2100)}",
        "{[2100,2300),[2600,2700)}",
        "{[2300,2600)}",
    ]


def test_the_memory_of_a_gpu_is_not_sold_twice(host: Host) -> None:
    cut_slots(host, "share", 2)
    acme = a_tenant()
    _lease(acme, host, "h100.tenth")
    _lease(acme, host, "h100.tenth")
    row = CutSlot.objects.get()
    assert (row.memory_mib, row.memory_used_mib, row.free_milli) == (81_920, 60_000, 800)
    with pytest.raises(SkuUnavailable) as refused:
        acme.order("h100.tenth")
    assert refused.value.facts["removed"] == {"memory_headroom": 1}
    assert refused.value.facts["nearest"] == {"constraint": "memory_headroom", "free_milli": 800}


def test_nothing_is_cut_for_it(host: Host) -> None:
    cut_slots(host, "share", 2)
    acme = a_tenant()
    with pytest.raises(NeverFits) as refused:
        acme.order("h100.1g")
    assert refused.value.facts["removed"] == {"cut_otherwise": 1}
    assert refused.value.facts["cut_slots"] == 1


def test_a_cut_slot_is_no_part_of_slices_or_of_the_whole_node(host: Host) -> None:
    cut_slots(host, "mig", 7)
    acme = a_tenant()
    with pytest.raises(ProductError) as refused:
        acme.order("h100.node")
    assert refused.value.code == "sku_unavailable"
    assert refused.value.facts["removed"] == {"whole_node_free": 1}
    assert "has 7 free of 8 slots; the rest is taken, blocked or cut" in refused.value.detail
    with pytest.raises(ProductError):
        acme.order(slots=8)
    acme.order(slots=7)
    _lease(acme, host, "h100.1g")
    assert Node.objects.get().free_count == 0


def test_a_slot_is_cut_only_while_nothing_is_on_it(host: Host) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    mine = _lease(acme, host, "h100.1g")
    acme.order(slots=1)
    [whole] = [slot for slot, _, part in _live() if part is None]
    for index, cut in ((1, "whole"), (1, "share"), (whole, "mig")):
        with pytest.raises(SlotInUse) as refused:
            cut_slots(host, cut, index)
        assert refused.value.facts == {"slot_index": index, "claims": 1}
    _release(acme, host, mine)
    cut_slots(host, "whole", 1)
    assert not CutSlot.objects.exists()
    assert Slot.objects.get(index=1).cut == "whole"
    assert host.fresh().free_mask >> 1 & 1


def test_a_cut_has_a_reason_an_event_and_bumps_the_generation(host: Host) -> None:
    before = host.fresh().generation
    with pytest.raises(ProductError) as refused:
        cuts.slot_cut(node_id=host.node.pk, slot_index=1, cut="mig", reason=" ", actor=OPERATOR)
    assert refused.value.code == "reason_missing"
    cut_slots(host, "mig", 1)
    assert host.fresh().generation > before
    event = Event.objects.get(kind="placement.node.cut")
    assert (event.before, event.after, event.reason) == ({"cut": "whole"}, {"cut": "mig"}, "test")
    assert event.facts == {"slot_index": 1, "board": "h100-80", "memory_mib": 81_920}
    cut_slots(host, "mig", 1)
    assert Event.objects.filter(kind="placement.node.cut").count() == 1


def test_what_is_not_known_to_be_possible_is_refused(host: Host) -> None:
    GpuDevice.objects.filter(index=1).update(model="Tesla V100-SXM2-32GB")
    with pytest.raises(GpuUnknown):
        cut_slots(host, "mig", 1)
    GpuDevice.objects.filter(index=2).update(memory_bytes=None)
    with pytest.raises(GpuUnknown):
        cut_slots(host, "share", 2)
    with pytest.raises(InvalidRequest) as refused:
        cut_slots(host, "quarters", 1)
    assert refused.value.errors[0].pointer == "/cut"
    silent = a_host("host-2")
    with pytest.raises(PartUnsupported) as unsupported:
        cut_slots(silent, "mig", 0)
    assert unsupported.value.facts == {"cut": "mig", "supported": []}


def test_a_host_that_no_longer_says_that_it_can_gets_no_more_parts(host: Host) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    mine = _lease(acme, host, "h100.1g")
    host.parts = ("share",)
    host.report()
    with pytest.raises(SkuUnavailable) as refused:
        acme.order("h100.1g")
    assert refused.value.facts["removed"] == {"slot_closed": 1}
    assert state_of(mine) == "active"
    host.parts = BOTH_KINDS
    host.report()
    _lease(acme, host, "h100.1g")


@pytest.mark.parametrize("how", ["slot drain", "node drain", "residue", "quarantine"])
def test_what_closes_the_parent_closes_its_parts(host: Host, how: str) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    mine = _lease(acme, host, "h100.1g")
    node_id = host.node.pk
    if how == "slot drain":
        nodes.node_drain(node_id=node_id, reason="test", actor=OPERATOR, slot_index=1)
    elif how == "node drain":
        nodes.node_drain(node_id=node_id, reason="test", actor=OPERATOR)
    elif how == "quarantine":
        nodes.node_quarantine(node_id=node_id, reason="test", actor=OPERATOR)
    else:
        host.report(residue={1: "somebody"})
    assert not CutSlot.objects.get().open
    with pytest.raises((SkuUnavailable, NeverFits)) as refused:
        acme.order("h100.1g")
    [code] = refused.value.facts["removed"]
    expected = {
        "slot drain": "slot_closed",
        "residue": "slot_closed",
        "node drain": "node_draining",
        "quarantine": "node_in_service",
    }
    assert code == expected[how]
    assert state_of(mine) == "active"


def test_a_part_is_leased_by_itself(host: Host) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    for wish, field in (({"slots": 2}, "/slots"), ({"apart": True}, "/apart")):
        with pytest.raises(InvalidRequest) as refused:
            acme.order("h100.1g", **wish)
        assert [error.pointer for error in refused.value.errors] == [field]
    assert acme.order("h100.1g", slots=1).allocation_id is not None


def test_a_tier_that_promises_more_than_a_part_gives_refuses_it(host: Host) -> None:
    cut_slots(host, "share", 0)
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    SlaTier.objects.filter(name="standard").update(isolation="mig")
    with pytest.raises(ProductError) as refused:
        acme.order("h100.third")
    assert refused.value.code == "sharing_not_eligible"
    assert acme.order("h100.1g").allocation_id is not None
    SlaTier.objects.filter(name="standard").update(isolation="vm")
    with pytest.raises(ProductError) as again:
        acme.order("h100.1g")
    assert again.value.code == "sharing_not_eligible"


def test_who_waits_for_a_part_gets_it_when_it_is_free(host: Host) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    first = _lease(acme, host, "h100.4g")
    _lease(acme, host, "h100.3g")
    waits = [acme.order("h100.1g", wait=True) for _ in range(2)]
    assert queue.cycle_run("default") == 0
    assert waits[0].request.code == "waiting_for_capacity"
    _release(acme, host, first)
    assert queue.cycle_run("default") == 2
    assert len([1 for _, _, part in _live() if part]) == 3


def test_replicas_of_a_workload_are_parts_all_or_none(host: Host) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()

    def submit(replicas: int) -> None:
        order = workloads.WorkloadOrder(
            kind="job", name=f"job-{replicas}", sku="h100.1g", replicas=replicas
        )
        workloads.workload_create(
            tenant_id=acme.tenant.pk, project_id=acme.project.pk, order=order, actor=acme.actor
        )

    with pytest.raises(SkuUnavailable):
        submit(8)
    assert not _live()
    submit(7)
    assert len(_live()) == 7
    assert CutSlot.objects.get().state == 0b1111111


def test_the_database_refuses_what_the_product_would_never_write(host: Host) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    _lease(acme, host, "h100.1g")
    claim = Claim.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        Claim.objects.filter(pk=claim.pk).update(slot_index=-1)
    with pytest.raises(IntegrityError), transaction.atomic():
        CutSlot.objects.update(memory_used_mib=1_000_000)
    with (
        pytest.raises(IntegrityError, match="no_double_claim"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "INSERT INTO placement_claim (id, tenant_id, allocation_id, node_id, node_num, "
            "slot_id, slot_index, span, resource_class_id, amount_milli, state, version, holder, "
            "attempt, boot_id, alone) SELECT gen_random_uuid(), tenant_id, allocation_id, node_id, "
            "node_num, slot_id, slot_index, '{[1000,2000)}', resource_class_id, 1000, 'reserved', "
            "1, 'tenant', 1, '', 0 FROM placement_claim"
        )


CORRUPTIONS = {
    "cut_state_wrong": "UPDATE placement_cutslot SET free_milli = 1 WHERE cut = 'mig'",
    "cut_row_differs": "UPDATE placement_slot SET cut = 'mig' WHERE index = 5",
    "part_on_uncut_slot": "UPDATE placement_slot SET cut = 'whole' WHERE index = 1",
    "parent_held_beside_part": (
        "INSERT INTO placement_claimdevice (claim_id, uid, live) "
        "SELECT c.id, 'gpu:' || s.gpu_uuid, true FROM placement_claim c, placement_slot s "
        "WHERE s.index = 1 AND c.slot_index = 2"
    ),
    "instance_not_held": "UPDATE placement_claimdevice SET live = false WHERE uid LIKE 'mig:%'",
    "shares_exceed_gpu": (
        "UPDATE placement_claim SET part = part || '{\"memory_mib\": 100000}' WHERE slot_index = 2"
    ),
    "part_span_wrong": "UPDATE placement_claim SET span = '{[1000,1250)}' WHERE slot_index = 1",
    "instances_conflict": (
        'UPDATE placement_claim SET part = part || \'{"profile": "1g.5gb"}\' WHERE slot_index = 1'
    ),
}


@pytest.mark.parametrize("code", sorted(CORRUPTIONS))
def test_each_corruption_of_parts_is_found(host: Host, code: str) -> None:
    cut_slots(host, "mig", 1)
    cut_slots(host, "share", 2)
    acme = a_tenant()
    _lease(acme, host, "h100.1g")
    _lease(acme, host, "h100.third")
    assert parts() == []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(CORRUPTIONS[code])
    assert code in {finding.code for finding in parts()}


def test_a_workload_shares_by_the_shape_that_it_runs_on(host: Host) -> None:
    cut_slots(host, "mig", 1)
    acme = a_tenant()
    order = workloads.WorkloadOrder(kind="job", name="small", sku="h100.1g")
    ticket = workloads.workload_create(
        tenant_id=acme.tenant.pk, project_id=acme.project.pk, order=order, actor=acme.actor
    )
    assert ticket.workload_id is not None
    workloads.gpu_sharing(workload_id=ticket.workload_id, mode="mig", actor=acme.actor)
    for mode in ("shared", "none"):
        with pytest.raises(ProductError) as refused:
            workloads.gpu_sharing(workload_id=ticket.workload_id, mode=mode, actor=acme.actor)
        assert refused.value.code == "sharing_not_eligible"


def test_a_host_that_is_not_fit_for_slices_sells_no_parts_and_its_count_is_right(
    host: Host,
) -> None:
    cut_slots(host, "mig", 3)
    evidence.node_demote(
        node_id=host.node.pk, capability="slices", reason="inspected", actor=OPERATOR
    )
    assert not CutSlot.objects.get().open
    assert list(parts()) == []
