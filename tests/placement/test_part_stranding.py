"""Does the account of idle parts of GPUs add up, and does it say what really fits, and why not?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.mig import BOARDS, left, open_starts, room
from placement.domain.part_stranding import (
    PART_CAUSES,
    PART_HELPS,
    CutSlots,
    PartStranding,
    SoldPart,
    part_stranding,
)
from placement.domain.parts import PartAsk
from placement.domain.stranding import Hosts, Sold
from placement.domain.terms import Alone, Terms
from placement.services import nodes
from placement.services.fragmentation import part_fragmentation_list
from placement.services.terms import terms_set
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
)

BOARD = next(board for board in BOARDS if board.profile("1g.10gb") and board.slices == 8)


@st.composite
def groups(draw: st.DrawFn) -> CutSlots:
    """Some cut slots, in any condition."""
    state = draw(st.sampled_from(["", "", "", "maintenance", "maintenance_window", "draining"]))
    held = draw(st.integers(0, 15))
    host = Hosts(
        hosts=1,
        slots=4,
        free=1 << draw(st.integers(0, 3)),
        idle=1,
        layout="0.0.0.0|0.0.0.1|0.1.1.2|0.1.1.3",
        held=held,
        promised=draw(st.integers(0, 15)) & held,
        state=state,
        intended=draw(st.sampled_from(["any", "any", "slices", "baremetal"])),
        driver=draw(st.sampled_from([(), (550,)])),
        kept=draw(st.integers(0, 5)) == 0,
    )
    slots = draw(st.integers(1, 3))
    if draw(st.booleans()):
        used = draw(st.integers(0, 511))
        return CutSlots(slots, host, "mig", BOARD.name, used, 125 * left(BOARD, used))
    memory_used = draw(st.integers(0, 80_000))
    somebodys = memory_used > 0 and draw(st.booleans())
    free = draw(st.integers(0, 1000))
    return CutSlots(slots, host, "share", "", 0, free, 80_000, memory_used, somebodys)


asks = st.one_of(
    st.builds(PartAsk, st.just("mig"), profile=st.sampled_from([r.name for r in BOARD.profiles])),
    st.just(PartAsk("mig", profile="9g.nothing")),
    st.builds(
        PartAsk, st.just("share"), milli=st.integers(1, 1000), memory_mib=st.integers(1, 90_000)
    ),
)
terms = st.builds(
    Terms, alone=st.sampled_from(list(Alone)), driver_min=st.sampled_from([(), (550,)])
)


@given(asks, terms, st.lists(groups(), max_size=6))
@settings(max_examples=400, deadline=None)
def test_open_and_the_causes_add_up_to_what_is_idle(
    ask: PartAsk, bound: Terms, fleet: list[CutSlots]
) -> None:
    found = part_stranding(SoldPart(ask, Sold("x", 1, 1, terms=bound)), fleet)
    assert found.open + found.stranded == found.idle
    assert all(milli > 0 for milli in found.causes.values())
    assert all(fit.now <= fit.ideal for fit in found.fits)
    assert set(PART_HELPS) >= set(PART_CAUSES)


@given(st.lists(st.integers(0, 511), max_size=5))
def test_for_each_profile_it_tells_what_goes_onto_the_gpus_one_after_the_other(
    states: list[int],
) -> None:
    host = Hosts(1, 8, 1, 1)
    fleet = [CutSlots(1, host, "mig", BOARD.name, s, 125 * left(BOARD, s)) for s in states]
    smallest = PartAsk("mig", profile="1g.10gb")
    found = part_stranding(SoldPart(smallest, Sold("x", 1, 1)), fleet)
    told = {fit.part: fit.now for fit in found.fits}
    for row in BOARD.profiles if states else ():
        assert told[row.name] == sum(room(BOARD, s, row) for s in states)
    fitting = [r for r in BOARD.profiles if any(open_starts(BOARD, s, r) for s in states)]
    largest = max(((r.size, r.compute, r.name) for r in fitting), default=(0, 0, ""))
    assert found.largest == largest[2]


class Cut:
    """A host with two GPUs cut for MIG and one for shares, and two tenants."""

    def __init__(self) -> None:
        a_catalogue()
        a_parts_catalogue()
        self.acme: TenantWorld = a_tenant("acme")
        self.globex: TenantWorld = a_tenant("globex")
        self.host: Host = a_host("host-1", parts=BOTH_KINDS)
        cut_slots(self.host, "mig", 0, 1)
        cut_slots(self.host, "share", 2)

    def told(self, sku: str) -> PartStranding:
        """The account of one product."""
        (account,) = part_fragmentation_list(sku)
        return account.found


@pytest.mark.django_db
def test_what_is_cut_otherwise_and_what_the_geometry_strands_are_told_apart() -> None:
    fleet = Cut()
    found = fleet.told("h100.3g")
    assert (found.cut_slots, found.idle, found.open, found.now) == (3, 3000, 2000, 4)
    assert found.causes == {"cut_otherwise": 1000}
    assert found.largest == "7g.80gb"
    fleet.acme.order("h100.1g")
    found = fleet.told("h100.3g")
    assert (found.now, found.open, found.largest) == (3, 1500, "7g.80gb")
    assert found.causes == {"cut_otherwise": 1000, "free_milli": 375}
    fleet.acme.order("h100.3g")
    fleet.acme.order("h100.3g")
    fleet.acme.order("h100.3g")
    found = fleet.told("h100.4g")
    assert (found.now, found.largest) == (0, "2g.20gb")
    assert {fit.part: (fit.now, fit.ideal) for fit in found.fits}["1g.10gb"] == (2, 3)


@pytest.mark.django_db
def test_shares_of_one_tenant_are_of_no_use_to_another_and_memory_may_be_what_lacks() -> None:
    fleet = Cut()
    found = fleet.told("h100.tenth")
    assert (found.now, found.open) == (2, 200)
    assert found.causes == {"cut_otherwise": 2000, "memory_headroom": 800}
    fleet.acme.order("h100.third")
    found = fleet.told("h100.tenth")
    assert (found.now, found.open, found.largest) == (0, 0, "")
    assert found.causes == {"cut_otherwise": 2000, "shared_by_another_tenant": 700}


@pytest.mark.django_db
def test_a_slot_out_of_service_strands_its_parts_by_that_cause() -> None:
    fleet = Cut()
    nodes.node_drain(node_id=fleet.host.node.pk, reason="work", actor=OPERATOR, slot_index=0)
    assert fleet.told("h100.1g").causes == {
        "draining": 1000,
        "cut_otherwise": 1000,
        "no_place_for_profile": 125,
    }
    nodes.node_drain(node_id=fleet.host.node.pk, reason="work", actor=OPERATOR)
    assert fleet.told("h100.1g").causes == {"draining": 3000}


@pytest.mark.django_db
def test_a_part_that_was_promised_a_host_of_its_own_finds_none_beside_others() -> None:
    fleet = Cut()
    fleet.globex.order("h100.1g")
    terms_set(noun="sku", name="h100.3g", alone="node", reason="test", actor=OPERATOR)
    found = fleet.told("h100.3g")
    assert (found.open, found.causes) == (0, {"wiring_isolation": 2875})
