"""Does the NVLink domain that GPUs report become the host's, and stay careful while it changes?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.protocol import DeviceFact, DeviceMode, GpuFabric, Nic, NicKind, Presence, WireError
from nodeagent.protocol import TopologyReport as Report
from placement.audits.wiring import wiring
from placement.domain.fabric import ABSENT, PRESENT, UNKNOWN, Told, common, fold
from placement.errors import DifferenceNotAcceptable
from placement.models import IdentityDifference, Node, Slot
from placement.models.node import Intended
from placement.services import nodes
from placement.services.allocations import allocation_release
from placement.services.differences import fabrics_sweep, slot_accept
from placement.services.identity import MOST_ENDED
from placement.services.slots import slots_take
from tests.builders import OPERATOR, Host, a_catalogue, a_report, a_tenant, drive_all
from tests.placement.test_identity import discovered, opened, slots_of
from tests.placement.test_isolation import pairs, promise, refused

A, B = "0a1b2c3d-0000-4000-8000-00000000000a", "0a1b2c3d-0000-4000-8000-00000000000b"
IN_A, IN_B = Told(PRESENT, "a"), Told(PRESENT, "b")
NONE, UNSURE = Told(ABSENT, reason="not_supported"), Told(UNKNOWN, reason="fabric_in_progress")


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ([IN_A, IN_A], "a"),
        ([NONE, NONE], ""),
        ([IN_A, IN_B], None),
        ([IN_A, NONE], None),
        ([IN_A, UNSURE], None),
        ([NONE, UNSURE], None),
        ([IN_A, None], None),
        ([NONE, None], None),
        ([None, None], None),
        ([], None),
    ],
)
def test_a_host_is_in_a_domain_when_all_of_its_gpus_say_the_same(
    told: list[Told | None], name: str | None
) -> None:
    assert common(told)[0] == name
    assert bool(common(told)[1]) is (name is None)


@given(
    st.lists(st.sampled_from([IN_A, IN_B, NONE, UNSURE, None]), max_size=4),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "a", "b"]),
    st.booleans(),
)
def test_a_domain_that_is_known_is_never_forgotten_under_a_claim_or_for_want_of_an_answer(
    told: list[Told | None], was: str, seen: str, live: bool
) -> None:
    found = fold(told, was=was, seen=seen, live=live)
    now = common(told)[0]
    if live or now is None:
        assert found.fabric == was
    if now is not None:
        assert now in (found.fabric, found.seen) or (now == "" and live)
    if now is None:
        assert found.seen == seen
    told_of = found.difference is not None
    assert told_of is ((now is None and bool(was or seen)) or (live and now not in (None, was)))


@pytest.mark.parametrize(
    "raw",
    [
        {"presence": "present"},
        {"presence": "present", "cluster": A},
        {"presence": "present", "clique": 1},
        {"presence": "absent", "cluster": A, "clique": 1},
        {"presence": "present", "cluster": A.upper(), "clique": 1},
        {"presence": "present", "cluster": "00000000-0000-0000-0000-000000000000", "clique": 0},
        {"presence": "present", "cluster": A, "clique": 2**32 - 1},
        {"presence": "present", "cluster": A, "clique": -1},
        {"presence": "present", "cluster": A, "clique": True},
        {"presence": "maybe"},
        {"presence": "absent", "more": 1},
    ],
)
def test_a_domain_on_the_wire_is_whole_or_refused(raw: dict[str, object]) -> None:
    with pytest.raises(WireError):
        GpuFabric.from_json(raw)


def in_domain(report: Report, *clusters: str | None) -> Report:
    """The report with each GPU in a domain, the last one for those that are not named."""
    said = [
        GpuFabric(Presence.UNKNOWN, reason="fabric_in_progress")
        if cluster is None
        else GpuFabric(Presence.PRESENT, cluster, 3)
        if cluster
        else GpuFabric(Presence.ABSENT, reason="single_host")
        for cluster in clusters
    ]
    gpus = [replace(gpu, fabric=said[min(gpu.index, len(said) - 1)]) for gpu in report.gpus]
    return Report.from_json(replace(report, gpus=tuple(gpus)).to_json())


def reported(host: Host, *clusters: str | None) -> list[str]:
    """A discovery of the host comes in; what differs."""
    return discovered(host, in_domain(a_report(host.node.name), *clusters))


def domain(host: Host) -> tuple[str, str]:
    """What placement goes by."""
    return host.fresh().fabric, host.fresh().fabric_seen


@pytest.mark.django_db
def test_what_the_gpus_report_is_what_placement_goes_by() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    hosts = pairs("host-1", "host-2")
    before = hosts[0].fresh().generation
    for host in hosts:
        assert reported(host, A) == []
    assert [domain(host) for host in hosts] == [(f"{A}.3", "")] * 2
    assert hosts[0].fresh().generation == before + 1
    promise("wiring")
    acme.order(slots=2)
    assert refused(globex, slots=1).facts["removed"] == {"wiring_isolation": 2}
    assert wiring() == []


@pytest.mark.django_db
def test_gpus_that_disagree_or_cannot_say_leave_a_new_host_without_a_domain() -> None:
    a_catalogue()
    (host,) = pairs("host-1")
    for told in ((A, B), (A, None), (None,), (A, ""), ("",)):
        reported(host, *told)
        assert domain(host) == ("", "")


@pytest.mark.django_db
def test_a_host_that_cannot_say_stays_where_it_was_and_this_is_shown() -> None:
    a_catalogue()
    (host,) = pairs("host-1")
    reported(host, A)
    said = reported(host, A, None)
    assert domain(host) == (f"{A}.3", "")
    assert opened(host) == ["fabric_changed"]
    assert "7 GPUs" not in said[0]
    assert "nobody can say" in said[0]
    reported(host, B)
    assert (domain(host), opened(host)) == ((f"{B}.3", ""), [])
    reported(host, "")
    assert (domain(host), opened(host)) == (("", ""), [])


@pytest.mark.django_db
def test_a_host_that_moves_under_a_claim_counts_in_both_domains_until_it_has_ended() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    moved, stays, there = pairs("host-1", "host-2", "host-3")
    reported(moved, A)
    reported(stays, A)
    reported(there, B)
    promise("wiring")
    Node.objects.exclude(name="host-1").update(schedulable=False)
    ticket = acme.order(slots=8)
    drive_all()
    moved.work()
    drive_all()
    said = reported(moved, B)
    assert domain(moved) == (f"{A}.3", f"{B}.3")
    assert (opened(moved), "stays until its claims have ended" in said[0]) == (
        ["fabric_changed"],
        True,
    )
    Node.objects.exclude(name="host-1").update(schedulable=True)
    assert refused(globex, slots=1).facts["removed"]["wiring_isolation"] == 2
    assert (fabrics_sweep(), wiring()) == (0, [])
    assert ticket.allocation_id is not None
    allocation_release(allocation_id=ticket.allocation_id, reason="done", actor=acme.actor)
    drive_all()
    moved.work()
    drive_all()
    assert (fabrics_sweep(), fabrics_sweep()) == (1, 0)
    assert (domain(moved), opened(moved)) == ((f"{B}.3", ""), [])
    assert globex.order(slots=1).allocation_id is not None


def with_groups(report: Report, groups: dict[str, str]) -> Report:
    """The report of a host with real addresses, and what is in the devices' IOMMU groups."""
    gpus = [replace(gpu, pci=f"0000:{gpu.index + 16:02x}:00.0") for gpu in report.gpus]
    nics = [
        Nic(f"0000:{k + 64:02x}:00.0", f"0000:{k + 64:02x}:00.0", NicKind.ETHERNET, 0, None, None)
        for k in range(len(gpus))
    ]
    slots = [
        replace(slot, nic=nic.id, nic_mode=DeviceMode.EXCLUSIVE)
        for slot, nic in zip(report.slots, nics, strict=True)
    ]
    facts = [
        DeviceFact(device, "iommu_group_others", Presence.PRESENT, others)
        for device, others in groups.items()
    ]
    return replace(
        report, gpus=tuple(gpus), nics=tuple(nics), slots=tuple(slots), facts=tuple(facts)
    )


SHARED = {
    # Slots 0 and 1 share a group; slot 2's GPU shares one with its own NIC; slot 3's NIC with a
    # device that nobody sells.
    "0000:10:00.0": "0000:11:00.0",
    "0000:11:00.0": "0000:10:00.0",
    "0000:12:00.0": "0000:42:00.0",
    "0000:42:00.0": "0000:12:00.0",
    "0000:43:00.0": "0000:99:00.0",
}


@pytest.mark.django_db
def test_slots_that_share_an_iommu_group_are_never_offered_and_the_others_are() -> None:
    node = nodes.node_create(name="host-1", actor=OPERATOR)
    said = slots_take(node, with_groups(a_report("host-1"), SHARED), actor=OPERATOR)
    states = {slot.index: slot.state for slot in Slot.objects.filter(node=node)}
    assert states == dict.fromkeys((0, 1, 3), "blocked") | dict.fromkeys(
        (2, 4, 5, 6, 7), "verified"
    )
    assert "also has 0000:11:00.0" in Slot.objects.get(node=node, index=0).block_reason
    assert [words.endswith("(iommu_shared)") for words in said] == [True] * 3


@pytest.mark.django_db
def test_an_approved_slot_that_comes_to_share_a_group_is_blocked_until_it_does_not() -> None:
    a_catalogue()
    (host,) = pairs("host-1")
    plain = with_groups(a_report("host-1"), {})
    for slot in Slot.objects.filter(node=host.node):
        devices = {**slot.devices, "nic": f"0000:{slot.index + 64:02x}:00.0"}
        Slot.objects.filter(pk=slot.pk).update(devices={**devices, "nic_mode": "exclusive"})
    discovered(host, plain)
    assert opened(host) == []
    discovered(host, with_groups(a_report("host-1"), SHARED))
    assert {k for k, (state, _) in slots_of(host).items() if state == "blocked"} == {0, 1, 3}
    assert opened(host) == ["iommu_shared"] * 3
    with pytest.raises(DifferenceNotAcceptable, match="ACS"):
        slot_accept(node_id=host.node.pk, slot_index=0, reason="x", actor=OPERATOR)
    discovered(host, plain)
    assert opened(host) == []
    slot_accept(node_id=host.node.pk, slot_index=0, reason="ACS is on", actor=OPERATOR)
    assert slots_of(host)[0][0] == "approved"


@pytest.mark.django_db
def test_a_host_that_is_only_given_whole_hands_no_group_to_a_machine() -> None:
    node = nodes.node_create(name="host-1", actor=OPERATOR, intended=Intended.BAREMETAL)
    assert slots_take(node, with_groups(a_report("host-1"), SHARED), actor=OPERATOR) == []
    assert set(Slot.objects.filter(node=node).values_list("state", flat=True)) == {"verified"}


@pytest.mark.django_db
def test_a_host_that_boots_for_ever_does_not_fill_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MOST_ENDED == 200
    monkeypatch.setattr("placement.services.identity.MOST_ENDED", 3)
    a_catalogue()
    (host,) = pairs("host-1")
    for boot in range(12):
        Node.objects.filter(pk=host.node.pk).update(boot_id=f"boot-{boot:08}")
        discovered(host, a_report("host-1"))
        # Looked at once more in the same boot, the difference is over.
        discovered(host, a_report("host-1"))
    rows = IdentityDifference.objects.filter(node=host.node)
    assert (rows.filter(ended_at__isnull=True).count(), rows.count()) == (0, 3)
    assert rows.order_by("-ended_at")[0].discovered == {"boot_id": "boot-00000011"}
