"""Is a card of which two tenants have functions ever taken for a NIC of each one's own?"""

from __future__ import annotations

from dataclasses import replace

from nodeagent.protocol import DeviceFact, DeviceMode, Presence
from placement.domain.wiring import neighbours, with_cards
from tests.placement.meshes import mesh_report
from tests.placement.test_odd_topologies import place_of


def test_functions_of_one_card_are_one_nic_to_who_was_promised_to_share_none() -> None:
    apart = "0.1.9.5|0.2..6|0.3..7|0.4..-"
    assert neighbours(apart, 4) == (0b0001, 0b0010, 0b0100, 0b1000)
    both = with_cards(apart, {0: {"a"}, 1: {"a"}, 2: set(), 3: set()})
    assert neighbours(both, 4) == (0b0011, 0b0011, 0b0100, 0b1000)
    # A slot with functions of two cards shares with the slots of either.
    assert neighbours(with_cards(apart, {0: {"a"}, 1: {"b"}, 2: {"a", "b"}}), 4)[0] == 0b0111
    assert with_cards(both, {0: {"a"}, 1: {"a"}}) == both
    assert with_cards("", {0: {"a"}}) == ""


def test_two_slots_with_functions_of_one_card_share_it_as_discovery_tells() -> None:
    report = mesh_report(2, {(0, 1): 1}, below=1)
    names = ("0000:2a:00.2", "0000:2a:00.3")
    exclusive = DeviceMode.EXCLUSIVE
    slots = [
        replace(slot, nic=nic, nic_mode=exclusive, nvlink_domain=f"alone-{nic}")
        for slot, nic in zip(report.slots, names, strict=True)
    ]
    made = replace(report, slots=tuple(slots), nvlinks=())
    assert neighbours(place_of(made).layout, 2) == (0b01, 0b10)
    facts = tuple(
        DeviceFact(nic, "sriov_card", Presence.PRESENT, "0000:2a:00.0", None) for nic in names
    )
    told = place_of(replace(made, facts=facts))
    assert neighbours(told.layout, 2) == (0b11, 0b11)
    assert told.exclusive_mask == 0b11
