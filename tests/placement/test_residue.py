"""Do traces of an earlier tenant block the slot that they are on, and nothing else?"""

from __future__ import annotations

import pytest

from gpuaas.kernel import audits
from gpuaas.kernel.models import Event
from placement.errors import SkuUnavailable
from placement.models import Allocation, Node, Slot, SlotResidue
from placement.selectors import posture_of
from placement.services import nodes, overrides
from placement.services.allocations import allocation_release
from placement.services.projections import projections_refresh
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant
from tests.identity.test_two_people import an_operator, as_person

pytestmark = pytest.mark.django_db
LEFT = "01900000-0000-7000-8000-000000000001"
WHY = "the GPU was swapped"


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant("acme")


@pytest.fixture
def host(acme: TenantWorld) -> Host:
    return a_host()


def free(host: Host) -> list[int]:
    return [k for k in range(8) if host.fresh().free_mask >> k & 1]


def slot_of(host: Host, index: int) -> Slot:
    return Slot.objects.get(node=host.node, index=index)


def nothing_wrong() -> bool:
    projections_refresh()
    found = [f for run in audits.registered().values() for f in run()]
    assert found == []
    return True


def test_residue_on_one_slot_leaves_the_others_for_sale(acme: TenantWorld, host: Host) -> None:
    host.report(residue={3: LEFT})
    assert free(host) == [0, 1, 2, 4, 5, 6, 7]
    assert (host.fresh().schedulable, host.fresh().health) == (True, "ok")
    assert posture_of(host.fresh()) == "cleanup_blocked"
    row = acme.order(slots=7).allocation
    assert row is not None
    assert sorted(row.claims.values_list("slot_index", flat=True)) == [0, 1, 2, 4, 5, 6, 7]
    assert nothing_wrong()


def test_a_whole_node_is_leased_only_when_every_slot_is_clean(
    acme: TenantWorld, host: Host
) -> None:
    host.report(residue={7: LEFT})
    with pytest.raises(SkuUnavailable):
        acme.order("h100.node")
    host.report(clean=(7,))
    assert acme.order("h100.node").allocation is not None


def test_a_report_that_does_not_speak_of_the_slot_proves_nothing(
    acme: TenantWorld, host: Host
) -> None:
    host.report(residue={3: LEFT})
    host.report()
    host.report(clean=(2, 4))
    host.report(dirty=(3,))
    assert 3 not in free(host)
    assert host.fresh().conditions == []
    host.report(clean=(3,))
    assert 3 in free(host)
    assert SlotResidue.objects.get().state == "gone"
    assert nothing_wrong()


def test_a_slot_is_clean_when_each_of_its_own_devices_is(acme: TenantWorld, host: Host) -> None:
    Slot.objects.filter(node=host.node, index=3).update(
        devices={"gpu_uuid": "GPU-host-1-3", "nic": "mlx5_3"}, nic="mlx5_3"
    )
    host.report(residue={3: LEFT})
    host.report(clean=(3,))
    assert 3 not in free(host)


def test_residue_that_names_no_device_or_a_strange_one_blocks_the_node(
    acme: TenantWorld, host: Host
) -> None:
    host.report("residue_found")
    assert not host.fresh().schedulable
    assert posture_of(host.fresh()) == "cleanup_blocked"
    host.report()
    assert host.fresh().schedulable
    host.report(residue={99: LEFT})
    assert not host.fresh().schedulable
    assert SlotResidue.objects.count() == 0


def test_a_shared_device_touches_every_slot_that_uses_it(acme: TenantWorld, host: Host) -> None:
    shared = Slot.objects.filter(node=host.node, index__in=[4, 5])
    shared.update(nic="GPU-host-1-99", nic_mode="shared")
    host.report(residue={99: LEFT})
    assert free(host) == [0, 1, 2, 3, 6, 7]
    assert host.fresh().schedulable


def test_a_neighbour_keeps_working_beside_residue(acme: TenantWorld, host: Host) -> None:
    row = acme.order(slots=2).allocation
    assert row is not None
    host.work()
    host.report(residue={5: LEFT})
    row.refresh_from_db()
    assert row.state == "active"
    assert free(host) == [2, 3, 4, 6, 7]


def test_the_same_residue_is_one_finding_however_often_it_is_reported(
    acme: TenantWorld, host: Host
) -> None:
    host.report(residue={3: LEFT})
    generation = host.fresh().generation
    host.report(residue={3: LEFT})
    assert host.fresh().generation == generation
    assert SlotResidue.objects.count() == 1
    assert Event.objects.filter(kind="placement.slotresidue.find").count() == 1


def test_an_override_of_a_slot_accepts_what_was_found_and_nothing_new(
    acme: TenantWorld, host: Host
) -> None:
    one, two = an_operator("one"), an_operator("two")
    host.report(residue={3: LEFT, 4: LEFT})
    slot = slot_of(host, 3)
    overrides.slot_override_request(slot_id=slot.pk, reason=WHY, actor=as_person(one))
    assert 3 not in free(host)
    overrides.slot_override_approve(slot_id=slot.pk, reason="seen it", actor=as_person(two))
    assert free(host) == [0, 1, 2, 3, 5, 6, 7]
    host.report(residue={3: LEFT, 4: LEFT})
    assert 3 in free(host)
    host.report(residue={3: "somebody-else"})
    assert 3 not in free(host)
    assert nothing_wrong()


def test_an_allocations_override_accepts_all_that_it_left(acme: TenantWorld, host: Host) -> None:
    one, two = an_operator("one"), an_operator("two")
    row = acme.order(slots=2).allocation
    assert row is not None
    host.work()
    released(row, acme, host)
    host.report(residue={0: str(row.pk), 1: str(row.pk), 5: LEFT})
    assert free(host) == [2, 3, 4, 6, 7]
    overrides.override_request(allocation_id=row.pk, reason=WHY, actor=as_person(one))
    overrides.override_approve(allocation_id=row.pk, reason="seen it", actor=as_person(two))
    assert free(host) == [0, 1, 2, 3, 4, 6, 7]
    assert nothing_wrong()


def released(row: Allocation, acme: TenantWorld, host: Host, *, skip: tuple[str, ...] = ()) -> None:
    allocation_release(allocation_id=row.pk, reason="done", actor=acme.actor)
    host.work(skip=skip)
    row.refresh_from_db()


def test_a_drain_of_a_slot_and_its_residue_are_two_things(acme: TenantWorld, host: Host) -> None:
    host.report(residue={3: LEFT})
    nodes.node_drain(node_id=host.node.pk, slot_index=3, reason="swap", actor=OPERATOR)
    host.report(clean=(3,))
    assert 3 not in free(host)
    nodes.node_undrain(node_id=host.node.pk, slot_index=3, reason="swapped", actor=OPERATOR)
    assert 3 in free(host)


def test_a_retired_slot_takes_its_residue_with_it(acme: TenantWorld, host: Host) -> None:
    host.report(residue={3: LEFT})
    nodes.node_retire(node_id=host.node.pk, reason="scrapped", actor=OPERATOR)
    host.report()
    assert SlotResidue.objects.get().state == "gone"
    assert Node.objects.get(pk=host.node.pk).state == "retired"
