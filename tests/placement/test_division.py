"""Does a card that comes or goes leave everybody else's slot as it was approved?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.kernel.transitions import advance
from nodeagent.protocol import DeviceMode, TopologyReport, cpu_numbers
from nodeagent.simhost.cards import with_cards
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.model import Topology
from nodeagent.topology.slots import topology_report
from placement.domain.division import Devices, Room, Share, divided
from placement.errors import DeviceInTwoSlots, DifferenceNotAcceptable
from placement.models import IdentityDifference, Node, Slot
from placement.services import approvals, nodes
from placement.services.candidates import slot_fields
from placement.services.differences import slot_accept
from placement.services.identities import clashes, one_slot_each_or_refuse
from placement.services.slots import slots_take
from tests.builders import OPERATOR, a_catalogue, a_report
from tests.topologies import topology_files

TREES = [path for path in topology_files() if load_topology_file(path).gpus]
NONE = Devices("none")


def tree_of(path: Path) -> Topology:
    """A captured host whose cards have names and whose NUMA nodes have memory."""
    plain = load_topology_file(path)
    return replace(
        plain,
        gpus=tuple(replace(gpu, uuid=gpu.uuid or f"GPU-{gpu.index}") for gpu in plain.gpus),
        numa=tuple(replace(one, memory_bytes=one.memory_bytes or 2**40) for one in plain.numa),
    )


def without(tree: Topology, *gone: int) -> TopologyReport:
    """What a discovery tells when these cards are not there."""
    return topology_report(with_cards(tree, {str(index): None for index in gone}, {}), "h1")


def approved_host(tree: Topology) -> Node:
    """A host whose slots are approved as its tree has them."""
    count = len(tree.gpus)
    a_catalogue(f"family{count}", count)
    node = nodes.node_create(name="h1", actor=OPERATOR)
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    discovered(node, without(tree))
    approvals.node_approve(node_id=node.pk, actor=OPERATOR, family=f"family{count}")
    return Node.objects.get(pk=node.pk)


def discovered(node: Node, report: TopologyReport) -> list[str]:
    """The report comes in, as the result of a discovery does."""
    row = Node.objects.get(pk=node.pk)
    row.topology = report.to_json()
    row.save(update_fields=["topology"])
    return slots_take(row, report, actor=OPERATOR)


def approved() -> dict[str, object]:
    """What was approved of each slot that is sold."""
    rows = Slot.objects.filter(state="approved")
    return {slot.gpu_uuid: (slot.index, slot.devices, slot.device_uids) for slot in rows}


def blocked() -> list[str]:
    """The cards whose slots are blocked."""
    return sorted(Slot.objects.filter(state="blocked").values_list("gpu_uuid", flat=True))


def no_cpu_is_in_two_slots() -> bool:
    """Whether the CPUs of all slots that are not retired are disjoint."""
    held = [cpu_numbers(s.cpuset or None) or () for s in Slot.objects.exclude(state="retired")]
    return sum(map(len, held)) == len({cpu for cpus in held for cpu in cpus})


@pytest.mark.django_db
@pytest.mark.parametrize("path", TREES, ids=[path.stem for path in TREES])
def test_a_card_that_vanishes_blocks_its_own_slot_alone_and_nothing_else_when_it_returns(
    path: Path,
) -> None:
    tree = tree_of(path)
    node = approved_host(tree)
    before = approved()
    assert (len(before), no_cpu_is_in_two_slots()) == (len(tree.gpus), True)
    for gpu in tree.gpus:
        discovered(node, without(tree, gpu.index))
        assert blocked() == [gpu.uuid]
        assert approved() == {uuid: held for uuid, held in before.items() if uuid != gpu.uuid}
        discovered(node, without(tree))
        assert not IdentityDifference.objects.filter(ended_at__isnull=True).exists()
        index = Slot.objects.get(state="blocked").index
        slot_accept(node_id=node.pk, slot_index=index, reason="reseated", actor=OPERATOR)
        assert approved() == before


@pytest.mark.django_db
@pytest.mark.parametrize("path", TREES, ids=[path.stem for path in TREES])
def test_a_slot_that_is_given_up_leaves_its_share_to_the_next_card_in_its_place(
    path: Path,
) -> None:
    tree = tree_of(path)
    node = approved_host(tree)
    before = approved()
    last = tree.gpus[-1]
    discovered(node, without(tree, last.index))
    index = Slot.objects.get(state="blocked").index
    slot_accept(node_id=node.pk, slot_index=index, reason="sold the card", actor=OPERATOR)
    assert (len(approved()), blocked()) == (len(tree.gpus) - 1, [])
    fresh = topology_report(with_cards(tree, {str(last.index): "GPU-next"}, {}), "h1")
    discovered(node, fresh)
    slot = Slot.objects.get(gpu_uuid="GPU-next")
    old = Slot.objects.get(gpu_uuid=last.uuid)
    assert (slot.state, slot.cpuset, slot.memory_bytes) == (
        "verified",
        old.cpuset,
        old.memory_bytes,
    )
    assert {k: v for k, v in before.items() if k != last.uuid} == approved()
    assert no_cpu_is_in_two_slots()


@pytest.mark.django_db
def test_a_card_beside_which_nothing_is_left_is_not_offered_and_says_why() -> None:
    tree = tree_of(TREES[0])
    first = replace(tree, gpus=tree.gpus[:1], nics=())
    node = approved_host(first)
    before = approved()
    added = replace(first.gpus[0], index=1, uuid="GPU-added", pci="0000:fe:00.0")
    said = discovered(node, topology_report(replace(first, gpus=(*first.gpus, added)), "h1"))
    assert (approved(), blocked()) == (before, [])
    assert not Slot.objects.filter(gpu_uuid="GPU-added").exists()
    assert any("approved slots have all CPUs or memory" in words for words in said)


CPUS = range(64)
History = tuple[list[Share], list[Share], dict[int, Room], set[str]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Slots as approved on one or two NUMA nodes, and a discovery with cards gone, moved, added.

    With them the cards whose slots somebody has. A discovery deals to those that it sees.
    """
    numas = draw(st.integers(1, 2))
    rooms = {n: Room(frozenset(c + 64 * n for c in CPUS), 64) for n in range(numas)}
    count = draw(st.integers(1, 8))
    there = [f"GPU-{k}" for k in range(count)]
    place = {uuid: draw(st.integers(0, numas - 1)) for uuid in there}
    gone = draw(st.sets(st.sampled_from(there)))
    moved = draw(st.sets(st.sampled_from(there))) - gone
    in_use = draw(st.sets(st.sampled_from(there)))
    added = [f"GPU-new-{k}" for k in range(draw(st.integers(0, 4)))]
    now = place | {uuid: draw(st.integers(0, numas - 1)) for uuid in (*sorted(moved), *added)}

    def dealt(uuids: list[str], place: dict[str, int]) -> list[Share]:
        shares = []
        for numa in rooms:
            here = [uuid for uuid in uuids if place[uuid] == numa]
            nics = [f"nic-{numa}-{k}" for k in range(8)]
            for k, uuid in enumerate(here):
                each = 64 // len(here)
                cpus = frozenset(64 * numa + k * each + c for c in range(each))
                mine = tuple(nics[k :: len(here)][: 8 // len(here)])
                own = Devices("exclusive", mine) if mine else NONE
                shares.append(Share(uuid, numa, cpus, each, own, own))
        return shares

    seen = [uuid for uuid in there if uuid not in gone] + added
    # A card may be given up before: then less is taken than there is.
    old = [uuid for uuid in there if uuid in in_use or draw(st.integers(0, 4))]
    approved = [share for share in dealt(there, place) if share.uuid in old]
    return approved, dealt(seen, now), rooms, in_use


def own(devices: Devices) -> tuple[str, ...]:
    """What a slot has alone."""
    return devices.ids if devices.mode == "exclusive" else ()


def nobody_has_what_another_has(shares: list[Share], rooms: dict[int, Room]) -> bool:
    """Whether CPUs, NICs and drives are disjoint and the memory is there."""
    cpus = [cpu for share in shares for cpu in share.cpus or ()]
    nics = [one for share in shares for one in own(share.nics)]
    nvmes = [one for share in shares for one in own(share.nvmes)]
    once = all(len(some) == len(set(some)) for some in (cpus, nics, nvmes))
    memory = {numa: sum(s.memory or 0 for s in shares if s.numa == numa) for numa in rooms}
    return once and all(memory[numa] <= (room.memory or 0) for numa, room in rooms.items())


@given(histories())
def test_approved_slots_are_unchanged_and_what_conflicts_gets_nothing(history: History) -> None:
    before, seen, rooms, in_use = history
    found = divided(before, seen, rooms, in_use)
    known = {share.uuid: share for share in before}
    now = {share.uuid: share for share in seen}
    assert found.shares.keys() == now.keys()
    for uuid, share in found.shares.items():
        was = known.get(uuid)
        if was is not None and was.numa == share.numa:
            assert (share.cpus, share.memory) == (was.cpus, was.memory)
        assert (uuid in found.left_out) is (not share.cpus or not share.memory)
    vanished = [share for share in before if share.uuid not in now]
    assert nobody_has_what_another_has([*found.shares.values(), *vanished], rooms)
    # What somebody has, or a slot that is not given up, is no new card's, wherever its card is.
    fresh = [share for uuid, share in found.shares.items() if uuid not in known]
    assert nobody_has_what_another_has([*fresh, *before], rooms)
    for uuid in in_use & now.keys() & known.keys():
        others = [share for other, share in found.shares.items() if other != uuid]
        assert nobody_has_what_another_has([*others, known[uuid]], rooms)


def a_share(uuid: str, cpus: range, memory: int, numa: int = 1) -> Share:
    """A share without NICs and drives."""
    return Share(uuid, numa, frozenset(cpus), memory, NONE, NONE)


def test_a_card_that_moves_to_another_numa_node_gets_nothing_that_is_there_anothers() -> None:
    b, c = a_share("B", range(32, 48), 100), a_share("C", range(48, 64), 100)
    was, now = a_share("A", range(16), 100, 0), a_share("A", range(54, 64), 66)
    rooms = {0: Room(frozenset(range(32)), 200), 1: Room(frozenset(range(32, 64)), 200)}
    found = divided([was, b, c], [now, b, c], rooms)
    assert (found.shares["A"].cpus, found.shares["A"].memory) == (frozenset(), 0)
    assert (found.shares["B"], found.shares["C"], found.left_out) == (b, c, frozenset({"A"}))
    # With C given up there is room for it.
    found = divided([was, b], [now, b], rooms)
    assert (found.shares["A"], found.left_out) == (now, frozenset())


def test_two_cards_that_change_places_get_each_others_unless_somebody_has_one() -> None:
    a, b = a_share("A", range(16), 100, 0), a_share("B", range(16, 32), 100)
    now = [replace(a, numa=1, cpus=b.cpus), replace(b, numa=0, cpus=a.cpus)]
    rooms = {0: Room(a.cpus, 100), 1: Room(b.cpus, 100)}
    found = divided([a, b], now, rooms)
    assert ([*found.shares.values()], found.left_out) == (now, frozenset())
    assert divided([a, b], now, rooms, {"A"}).left_out == {"B"}


def test_a_slot_whose_cpu_goes_offline_gets_none_of_anothers_in_its_place() -> None:
    a, b = a_share("A", range(8), 8), a_share("B", range(8, 16), 8)
    seen = [replace(a, cpus=frozenset({*range(7), 8})), replace(b, cpus=frozenset(range(9, 16)))]
    found = divided([a, b], seen, {1: Room(frozenset({*range(7), *range(8, 16)}), 16)})
    assert (found.shares["A"].cpus, found.shares["B"]) == (frozenset(range(7)), b)


def test_several_new_cards_share_the_memory_that_is_left() -> None:
    a = a_share("A", range(8), 200)
    seen = [a_share("A", range(8), 133)]
    seen += [a_share(f"new-{k}", range(8 * k, 8 * k + 8), 133) for k in (1, 2)]
    found = divided([a], seen, {1: Room(frozenset(range(64)), 400)})
    assert {uuid: share.memory for uuid, share in found.shares.items()} == {
        "A": 200,
        "new-1": 133,
        "new-2": 67,
    }


def test_the_nics_and_drives_of_a_slot_whose_card_is_gone_are_not_given_away() -> None:
    nic, nvme = Devices("exclusive", ("nic-0",)), Devices("exclusive", ("nvme-0", "nvme-1"))
    gone = replace(a_share("A", range(8), 8), nics=nic, nvmes=nvme)
    seen = replace(
        a_share("new", range(8, 16), 8), nics=nic, nvmes=Devices("exclusive", ("nvme-1", "nvme-2"))
    )
    found = divided([gone], [seen], {1: Room(frozenset(range(64)), 64)}).shares["new"]
    assert (found.nics, found.nvmes) == (NONE, Devices("exclusive", ("nvme-2",)))


def a_split_host(numas: tuple[int, ...], cpusets: tuple[str, ...], *nics: str) -> TopologyReport:
    """Cards on these NUMA nodes with these CPUs, half a node's memory each, and exclusive NICs."""
    plain = a_report("h1", len(numas), per_numa=2)
    gpus = tuple(replace(gpu, numa=numas[gpu.index]) for gpu in plain.gpus)
    named = [DeviceMode.EXCLUSIVE if nic else DeviceMode.NONE for nic in nics]
    slots = tuple(
        replace(
            slot,
            numa=numas[slot.index],
            cpuset=cpusets[slot.index],
            memory_bytes=2**37,
            nic=nics[slot.index] or None if nics else None,
            nic_mode=named[slot.index] if nics else DeviceMode.NONE,
        )
        for slot in plain.slots
    )
    return replace(plain, gpus=gpus, slots=slots)


def split_and_approved(report: TopologyReport) -> Node:
    """A host whose slots are approved as this report has them."""
    a_catalogue(f"family{len(report.slots)}", len(report.slots))
    node = nodes.node_create(name="h1", actor=OPERATOR)
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    discovered(node, report)
    approvals.node_approve(node_id=node.pk, actor=OPERATOR, family=f"family{len(report.slots)}")
    return Node.objects.get(pk=node.pk)


@pytest.mark.django_db
def test_a_moved_card_beside_which_others_have_all_is_kept_blocked_and_refused_with_a_reason() -> (
    None
):
    places = ("0-15", "16-31", "32-47", "48-63")
    node = split_and_approved(a_split_host((0, 0, 1, 1), places))
    before = approved()
    said = discovered(node, a_split_host((1, 0, 1, 1), ("54-63", "0-31", "32-42", "43-53")))
    assert blocked() == ["GPU-h1-0"]
    assert approved() == {uuid: held for uuid, held in before.items() if uuid != "GPU-h1-0"}
    assert any("other slots have all CPUs or memory beside its GPU GPU-h1-0" in s for s in said)
    with pytest.raises(DifferenceNotAcceptable, match="give one of them up"):
        slot_accept(node_id=node.pk, slot_index=0, reason="moved it", actor=OPERATOR)
    discovered(node, a_split_host((0, 0, 1, 1), places))
    slot_accept(node_id=node.pk, slot_index=0, reason="moved it back", actor=OPERATOR)
    assert approved() == before


@pytest.mark.django_db
def test_two_cards_that_changed_places_are_accepted_one_after_the_other() -> None:
    places = ("0-15", "16-31", "32-47", "48-63")
    node = split_and_approved(a_split_host((0, 0, 1, 1), places))
    discovered(node, a_split_host((1, 0, 1, 0), ("32-47", "16-31", "48-63", "0-15")))
    assert blocked() == ["GPU-h1-0", "GPU-h1-3"]
    for index in (0, 3):
        slot_accept(node_id=node.pk, slot_index=index, reason="exchanged", actor=OPERATOR)
    found = dict(Slot.objects.filter(state="approved").values_list("gpu_uuid", "cpuset"))
    assert (found["GPU-h1-2"], len(found), no_cpu_is_in_two_slots()) == ("32-47", 4, True)


@pytest.mark.django_db
def test_an_approval_names_the_nic_of_a_slot_whose_card_is_gone() -> None:
    node = split_and_approved(a_split_host((0, 0), ("0-15", "16-31"), "nic-0", "nic-1"))
    whole = a_split_host((0, 0), ("0-15", "16-31"), "nic-0", "nic-1")
    discovered(node, replace(whole, gpus=whole.gpus[:1], slots=whole.slots[:1]))
    gone = Slot.objects.get(state="blocked")
    added = replace(whole.slots[1], index=2, gpu_index=2, gpu_uuid="GPU-added", cpuset="8-15")
    fields = slot_fields(added, 2, node.num)
    fresh = Slot.objects.create(node=node, index=2, state="verified", **fields)
    with pytest.raises(DeviceInTwoSlots, match="nic-1 is in slot 1 of h1 and slot 2 of h1"):
        one_slot_each_or_refuse([fresh])
    advance(gone, "retire", actor=OPERATOR, reason="given up")
    one_slot_each_or_refuse([fresh])
    assert clashes([fresh]) == {}


def test_what_is_there_no_longer_is_a_difference() -> None:
    was = Share("GPU-0", 0, frozenset({0, 1}), 8, Devices("exclusive", ("nic-0",)), NONE)
    rooms = {0: Room(frozenset({1, 2, 3}), 8)}
    now = replace(was, cpus=frozenset({1, 2, 3}), nics=Devices("exclusive", ("nic-1",)))
    assert divided([was], [now], rooms).shares["GPU-0"] == now
    more = replace(was, nics=Devices("exclusive", ("nic-1", "nic-0")))
    assert divided([was], [more], {0: Room(frozenset(range(4)), 16)}).shares["GPU-0"] == was
    moved = replace(was, numa=1, cpus=frozenset({9}))
    assert divided([was], [moved], {1: Room(frozenset({9}), 8)}).shares["GPU-0"] == moved
