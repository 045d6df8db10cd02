"""Does a card that comes or goes leave everybody else's slot as it was approved?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.kernel.transitions import advance
from nodeagent.protocol import TopologyReport, cpu_numbers
from nodeagent.simhost.cards import with_cards
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.model import Topology
from nodeagent.topology.slots import topology_report
from placement.domain.division import Devices, Room, Share, divided
from placement.models import IdentityDifference, Node, Slot
from placement.services import approvals, nodes
from placement.services.differences import slot_accept
from placement.services.slots import slots_take
from tests.builders import OPERATOR, a_catalogue
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


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Share], list[Share], dict[int, Room]]:
    """Slots as approved on one or two NUMA nodes, and a discovery with cards gone and added."""
    numas = draw(st.integers(1, 2))
    rooms = {n: Room(frozenset(c + 64 * n for c in CPUS), 64) for n in range(numas)}
    count = draw(st.integers(1, 8))
    there = [f"GPU-{k}" for k in range(count)]
    place = {uuid: draw(st.integers(0, numas - 1)) for uuid in there}
    gone = draw(st.sets(st.sampled_from(there)))
    added = [f"GPU-new-{k}" for k in range(draw(st.integers(0, 3)))]
    place |= {uuid: draw(st.integers(0, numas - 1)) for uuid in added}

    def dealt(uuids: list[str]) -> list[Share]:
        shares = []
        for numa in rooms:
            here = [uuid for uuid in uuids if place[uuid] == numa]
            for k, uuid in enumerate(here):
                each = 64 // len(here)
                cpus = frozenset(64 * numa + k * each + c for c in range(each))
                shares.append(Share(uuid, numa, cpus, each, NONE, NONE))
        return shares

    return dealt(there), dealt([u for u in there if u not in gone] + added), rooms


@given(histories())
def test_approved_slots_are_unchanged_and_what_conflicts_gets_nothing(
    history: tuple[list[Share], list[Share], dict[int, Room]],
) -> None:
    before, seen, rooms = history
    found = divided(before, seen, rooms)
    known = {share.uuid: share for share in before}
    taken = frozenset(cpu for share in before for cpu in share.cpus or ())
    for uuid, share in found.shares.items():
        if uuid in known:
            assert share == known[uuid]
            continue
        assert not (share.cpus or frozenset()) & taken
        assert (uuid in found.left_out) is (not share.cpus or not share.memory)
    held = [cpu for uuid, share in found.shares.items() for cpu in share.cpus or ()]
    assert len(held) == len(set(held))


def test_what_is_there_no_longer_is_a_difference() -> None:
    was = Share("GPU-0", 0, frozenset({0, 1}), 8, Devices("exclusive", ("nic-0",)), NONE)
    rooms = {0: Room(frozenset({1, 2, 3}), 8)}
    now = replace(was, cpus=frozenset({1, 2, 3}), nics=Devices("exclusive", ("nic-1",)))
    assert divided([was], [now], rooms).shares["GPU-0"] == now
    more = replace(was, nics=Devices("exclusive", ("nic-1", "nic-0")))
    assert divided([was], [more], {0: Room(frozenset(range(4)), 16)}).shares["GPU-0"] == was
    moved = replace(was, numa=1, cpus=frozenset({9}))
    assert divided([was], [moved], {1: Room(frozenset({9}), 8)}).shares["GPU-0"] == moved
