"""Is a host still what was approved?  Every difference has a name and a declared outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.kernel.errors import InvalidRequest, NotFound
from nodeagent.protocol import CandidateSlot, Finding, Gpu, TopologyReport
from placement.domain.identity import (
    BLOCK,
    CODES,
    OUTCOMES,
    Difference,
    SeenGpu,
    SlotIdentity,
    differences,
    host_differences,
)
from placement.errors import DifferenceNotAcceptable, ReasonMissing
from placement.models import GpuDevice, IdentityDifference, Node, NodeFamily, NodeTask, Slot
from placement.services import approvals, nodes
from placement.services.differences import boots_sweep, slot_accept
from placement.services.slots import slots_take
from tenants.models import Sku
from tests.builders import OPERATOR, Host, a_catalogue, a_host, a_report, a_tenant, drive_all

COUNT = 8
INDEXES = st.integers(0, COUNT - 1)
KEPT = ("id", "index", "gpu_uuid", "devices", "device_uids", "cpuset", "approved_at")


def approved_slots(count: int = COUNT) -> list[SlotIdentity]:
    """What was approved: each GPU at an address of its own, with a NIC."""
    return [
        SlotIdentity(k, f"GPU-{k}", f"0000:{k:02x}:00.0", {"nic": f"nic-{k}"}) for k in range(count)
    ]


def as_seen(slots: list[SlotIdentity]) -> list[SeenGpu]:
    """A discovery that finds all as it was."""
    return [SeenGpu(slot.uuid, slot.pci, slot.bundle) for slot in slots]


def codes(found: tuple[Difference, ...]) -> list[tuple[str, int | None]]:
    """Names and slots."""
    return [(one.code, one.slot_index) for one in found]


def test_what_is_as_it_was_differs_in_nothing_in_any_order() -> None:
    slots = approved_slots()
    assert differences(slots, reversed(as_seen(slots))) == ()


def test_every_condition_has_a_declared_outcome() -> None:
    assert set(CODES.values()) == set(OUTCOMES)


def test_each_condition_is_told_by_its_name() -> None:
    slots = approved_slots(3)
    seen = as_seen(slots)
    moved = replace(seen[1], pci="0000:77:00.0")
    other = replace(seen[1], uuid="GPU-new")
    nameless = replace(seen[1], uuid="")
    bundle = replace(seen[1], bundle={"nic": "nic-9"})
    cases: list[tuple[list[SeenGpu], list[tuple[str, int | None]]]] = [
        ([seen[0], moved, seen[2]], [("address_changed", 1)]),
        ([seen[0], other, seen[2]], [("card_swapped", 1), ("card_added", None)]),
        ([seen[0], seen[2]], [("card_vanished", 1)]),
        ([seen[0], nameless, seen[2]], [("uuid_unknown", 1)]),
        ([seen[0], bundle, seen[2]], [("bundle_changed", 1)]),
        ([*seen, replace(seen[1], pci="0000:99:00.0")], [("duplicate_uuid", 1)]),
        ([*seen, SeenGpu("GPU-more", "0000:98:00.0")], [("card_added", None)]),
    ]
    for told, expected in cases:
        assert codes(differences(slots, told)) == expected


def test_two_cards_that_change_places_keep_their_slots() -> None:
    slots = approved_slots(2)
    first, second = as_seen(slots)
    found = differences(slots, [replace(first, pci=second.pci), replace(second, pci=first.pci)])
    assert codes(found) == [("address_changed", 0), ("address_changed", 1)]
    assert BLOCK not in {one.outcome for one in found}


def test_a_copy_of_another_hosts_disk_is_a_clone() -> None:
    seen = as_seen(approved_slots(2))
    found = differences([], seen, elsewhere=frozenset({"GPU-0", "GPU-1"}))
    assert codes(found) == [
        ("host_cloned", None),
        ("card_elsewhere", None),
        ("card_elsewhere", None),
    ]
    one_moved = differences([], seen, elsewhere=frozenset({"GPU-0"}))
    assert codes(one_moved) == [("card_elsewhere", None)]


def test_a_new_name_and_a_new_boot_are_told_apart() -> None:
    found = host_differences(hostname="b", was_hostname="a", boot="2", was_boot="1")
    assert codes(found) == [("host_renamed", None), ("new_boot", None)]
    assert host_differences(hostname="b", was_hostname="", boot="2", was_boot="") == ()


MUTATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("drop"), INDEXES),
        st.tuples(st.just("add"), INDEXES),
        st.tuples(st.just("swap"), INDEXES),
        st.tuples(st.just("duplicate"), INDEXES),
        st.tuples(st.just("blank"), INDEXES),
        st.tuples(st.just("move"), INDEXES),
        st.tuples(st.just("shuffle"), INDEXES),
    ),
    max_size=6,
)


def mutated(seen: list[SeenGpu], steps: list[tuple[str, int]]) -> list[SeenGpu]:
    """A discovery after these accidents."""
    gpus = list(seen)
    for number, (what, at) in enumerate(steps):
        place = at % len(gpus) if gpus else 0
        if what == "add":
            gpus.append(SeenGpu(f"GPU-added-{number}", f"0000:a{number}:00.0"))
        elif what == "shuffle":
            gpus = gpus[place:] + gpus[:place]
        elif not gpus:
            continue
        elif what == "drop":
            del gpus[place]
        elif what == "swap":
            gpus[place] = replace(gpus[place], uuid=f"GPU-swapped-{number}")
        elif what == "duplicate":
            gpus.append(replace(gpus[place], pci=f"0000:d{number}:00.0"))
        elif what == "blank":
            gpus[place] = replace(gpus[place], uuid="")
        else:
            gpus[place] = replace(gpus[place], pci=f"0000:e{number}:00.0")
    return gpus


@settings(max_examples=2000, deadline=None)
@given(MUTATIONS)
def test_a_slot_is_either_vouched_for_or_blocked_with_one_reason(
    steps: list[tuple[str, int]],
) -> None:
    slots = approved_slots()
    seen = mutated(as_seen(slots), steps)
    found = differences(slots, seen)
    for slot in slots:
        said = [one for one in found if one.slot_index == slot.index]
        alike = [gpu for gpu in seen if gpu.uuid == slot.uuid]
        sure = len(alike) == 1 and alike[0].bundle == slot.bundle
        blocked = [one for one in said if one.outcome == BLOCK]
        assert len(blocked) == (0 if sure else 1)
        assert all(one.uuid == slot.uuid for one in said)
    named = {one.uuid for one in found if one.slot_index is None}
    assert not named & {slot.uuid for slot in slots}


# With the database


@pytest.fixture
def host(db: None) -> Host:
    """A ready host of eight slots."""
    a_catalogue()
    return a_host("h1")


def report_with(
    host: Host, *, drop: tuple[int, ...] = (), swap: tuple[int, ...] = ()
) -> TopologyReport:
    """The host's report with addresses, without some GPUs and with others in their place."""
    plain = a_report(host.node.name)
    gpus: list[Gpu] = []
    slots: list[CandidateSlot] = []
    for gpu, slot in zip(plain.gpus, plain.slots, strict=True):
        if gpu.index in drop:
            continue
        uuid = f"GPU-new-{gpu.index}" if gpu.index in swap else gpu.uuid
        index = len(gpus)
        gpus.append(replace(gpu, index=index, uuid=uuid, pci=f"0000:{gpu.index:02x}:00.0"))
        slots.append(replace(slot, index=index, gpu_index=index, gpu_uuid=uuid))
    return replace(plain, gpus=tuple(gpus), slots=tuple(slots))


def discovered(host: Host, report: TopologyReport) -> list[str]:
    """The report comes in, as the result of a discovery does."""
    node = host.fresh()
    node.topology = report.to_json()
    node.save(update_fields=["topology"])
    return slots_take(node, report, actor=OPERATOR)


def slots_of(host: Host) -> dict[int, tuple[str, str]]:
    """State and GPU by number."""
    rows = Slot.objects.filter(node=host.node).exclude(state="retired")
    return {slot.index: (slot.state, slot.gpu_uuid) for slot in rows}


def opened(host: Host) -> list[str]:
    """Names of what is otherwise than approved now."""
    rows = IdentityDifference.objects.filter(node=host.node, ended_at__isnull=True)
    return sorted(rows.values_list("code", flat=True))


def test_a_vanished_card_renumbers_nobody(host: Host) -> None:
    discovered(host, report_with(host))
    before = slots_of(host)
    said = discovered(host, report_with(host, drop=(2,)))
    after = slots_of(host)
    assert {k: v for k, v in after.items() if k != 2} == {k: v for k, v in before.items() if k != 2}
    assert after[2] == ("blocked", "GPU-h1-2")
    assert (host.fresh().free_count, host.fresh().free_mask & 0b100) == (7, 0)
    assert opened(host) == ["card_vanished"]
    assert "card_vanished" in said[0]


def test_a_swapped_card_waits_until_its_predecessor_is_given_up(host: Host) -> None:
    discovered(host, report_with(host))
    discovered(host, report_with(host, swap=(3,)))
    assert slots_of(host)[3] == ("blocked", "GPU-h1-3")
    assert 8 not in slots_of(host)
    slot_accept(node_id=host.node.pk, slot_index=3, reason="replaced by hand", actor=OPERATOR)
    assert slots_of(host)[3] == ("verified", "GPU-new-3")
    assert not GpuDevice.objects.filter(uuid="GPU-h1-3").exists()
    node = approvals.node_approve(node_id=host.node.pk, actor=OPERATOR)
    assert slots_of(host)[3] == ("approved", "GPU-new-3")
    assert (node.free_count, node.slot_count) == (8, 8)
    assert Slot.objects.get(node=node, index=3, state="approved").devices["slot_index"] == 3


def test_a_card_more_than_the_family_has_is_approved_with_a_family_that_has_it(host: Host) -> None:
    """A host with more free than its family has slots would be found by nobody."""
    with transaction.atomic():
        slots_take(nodes.locked(host.node.pk), a_report("h1", COUNT + 1), actor=OPERATOR)
    with pytest.raises(InvalidRequest) as refused:
        approvals.node_approve(node_id=host.node.pk, actor=OPERATOR, reason="one more")
    assert refused.value.errors[0].pointer == "/family"
    assert "name a family of 9" in refused.value.detail
    assert (slots_of(host)[COUNT][0], host.fresh().free_count) == ("verified", COUNT)
    NodeFamily.objects.create(name="h100x9", title="h100x9", slots=COUNT + 1)
    node = approvals.node_approve(
        node_id=host.node.pk, actor=OPERATOR, reason="one more", family="h100x9"
    )
    assert (node.free_count, node.slot_count) == (COUNT + 1, COUNT + 1)
    Sku.objects.update(family="h100x9")
    assert a_tenant("acme").order(slots=1).allocation is not None


def test_other_devices_with_the_same_card_are_approved_for_that_slot_alone(host: Host) -> None:
    report = report_with(host)
    slot = replace(report.slots[1], cpuset="4-7")
    changed = replace(report, slots=(report.slots[0], slot, *report.slots[2:]))
    discovered(host, report)
    discovered(host, changed)
    row = Slot.objects.get(node=host.node, index=1)
    assert (row.state, row.devices["cpuset"]) == ("blocked", None)
    slot_accept(node_id=host.node.pk, slot_index=1, reason="as wanted", actor=OPERATOR)
    row.refresh_from_db()
    assert (row.state, row.devices["cpuset"], row.block_reason) == ("approved", "4-7", "")
    assert host.fresh().free_count == 8
    assert opened(host) == []


def test_a_card_that_comes_back_is_approved_again_by_somebody(host: Host) -> None:
    discovered(host, report_with(host))
    discovered(host, report_with(host, drop=(5,)))
    discovered(host, report_with(host))
    assert slots_of(host)[5][0] == "blocked"
    assert opened(host) == []
    with pytest.raises(ReasonMissing):
        slot_accept(node_id=host.node.pk, slot_index=5, reason=" ", actor=OPERATOR)
    slot_accept(node_id=host.node.pk, slot_index=5, reason="seated again", actor=OPERATOR)
    assert slots_of(host)[5] == ("approved", "GPU-h1-5")


def test_a_held_slot_is_not_changed_under_its_tenant(host: Host) -> None:
    world = a_tenant()
    world.order(slots=8)
    drive_all()
    discovered(host, report_with(host))
    discovered(host, report_with(host, drop=(0,)))
    with pytest.raises(DifferenceNotAcceptable):
        slot_accept(node_id=host.node.pk, slot_index=0, reason="x", actor=OPERATOR)


def test_nobody_accepts_a_card_that_cannot_say_who_it_is(host: Host) -> None:
    report = report_with(host)
    nameless = replace(
        report,
        gpus=(replace(report.gpus[0], uuid=None), *report.gpus[1:]),
        slots=(replace(report.slots[0], gpu_uuid=None), *report.slots[1:]),
    )
    discovered(host, report)
    discovered(host, nameless)
    assert opened(host) == ["uuid_unknown"]
    with pytest.raises(DifferenceNotAcceptable):
        slot_accept(node_id=host.node.pk, slot_index=0, reason="x", actor=OPERATOR)


def test_a_uuid_that_the_host_found_twice_blocks_its_slot(host: Host) -> None:
    report = report_with(host, drop=(0,))
    finding = Finding("gpu_uuid_duplicate", "two GPUs have one UUID", "GPU-h1-0")
    discovered(host, replace(report, findings=(finding,)))
    assert slots_of(host)[0][0] == "blocked"
    assert opened(host) == ["duplicate_uuid"]


def test_only_a_blocked_slot_can_be_accepted(host: Host) -> None:
    with pytest.raises(NotFound):
        slot_accept(node_id=host.node.pk, slot_index=0, reason="x", actor=OPERATOR)


def test_a_clone_offers_nothing_and_takes_nothing(host: Host) -> None:
    twin = nodes.node_create(name="h2", actor=OPERATOR)
    said = slots_take(twin, replace(report_with(host), hostname="h2"), actor=OPERATOR)
    assert not Slot.objects.filter(node=twin).exists()
    assert set(GpuDevice.objects.values_list("node__name", flat=True)) == {"h1"}
    rows = IdentityDifference.objects.filter(node=twin)
    assert set(rows.values_list("code", flat=True)) == {"host_cloned", "card_elsewhere"}
    assert any("host_cloned" in words for words in said)
    assert {state for state, _ in slots_of(host).values()} == {"approved"}


def test_a_new_boot_is_looked_at_once_more(host: Host) -> None:
    discovered(host, report_with(host))
    assert boots_sweep() == 0
    Node.objects.filter(pk=host.node.pk).update(boot_id="boot-00000002")
    assert (boots_sweep(), boots_sweep()) == (1, 1)
    waiting = NodeTask.objects.filter(
        node=host.node, kind="slice.topology_discover", state="pending"
    )
    assert waiting.count() == 1
    discovered(host, replace(report_with(host), hostname="renamed"))
    assert opened(host) == ["host_renamed", "new_boot"]
    assert boots_sweep() == 0
    assert {state for state, _ in slots_of(host).values()} == {"approved"}


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(drop=st.sets(INDEXES, max_size=3), swap=st.sets(INDEXES, max_size=3))
def test_approved_slots_never_change_whatever_is_reported(
    host: Host, drop: set[int], swap: set[int]
) -> None:
    with transaction.atomic():
        discovered(host, report_with(host))
        before = list(Slot.objects.filter(node=host.node).order_by("index").values(*KEPT))
        discovered(host, report_with(host, drop=tuple(drop), swap=tuple(swap)))
        rows = Slot.objects.filter(node=host.node, pk__in=[row["id"] for row in before])
        assert list(rows.order_by("index").values(*KEPT)) == before
        blocked = set(rows.filter(state="blocked").values_list("index", flat=True))
        assert blocked == drop | swap
        assert set(rows.filter(state="approved").values_list("index", flat=True)) == (
            set(range(COUNT)) - blocked
        )
        transaction.set_rollback(True)
