"""Does nobody share what somebody was promised alone, when GPUs are also sold in parts?"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.fit import Held, Option, Place, Want, best_option, taken
from placement.domain.mig import board_named
from placement.domain.parts import CutState, PartAsk, cut_after
from placement.domain.terms import Alone, Terms
from tests.placement.test_isolation import TENANTS, broken

BOARD = "a100-80"
MEMORY = 81_920
wiring = st.tuples(
    st.sampled_from(["0", "1"]),
    st.sampled_from(["", "0", "1", "2"]),
    st.sampled_from(["", "0", "1"]),
    st.sampled_from(["", "-", "0", "1", "2"]),
).map(".".join)
asks = st.one_of(
    st.builds(Want, st.integers(0, 3)),
    st.sampled_from(["1g.10gb", "3g.40gb", "7g.80gb"]).map(
        lambda profile: Want(1, part=PartAsk("mig", profile=profile))
    ),
    st.tuples(st.integers(1, 1000), st.integers(1, MEMORY)).map(
        lambda size: Want(1, part=PartAsk("share", milli=size[0], memory_mib=size[1]))
    ),
)
acts = st.lists(
    st.tuples(st.sampled_from(TENANTS), asks, st.sampled_from(list(Alone)), st.booleans()),
    max_size=16,
)
hosts = st.lists(
    st.tuples(wiring, st.sampled_from(["whole", "mig", "share"])), min_size=1, max_size=6
)
Lease = tuple[UUID, Want, Option, Alone]


def empty(host: list[tuple[str, str]]) -> Place:
    """The host with nothing on it; slots that are cut are no slots."""
    free, cuts = 0, []
    for index, (_, cut) in enumerate(host):
        if cut == "whole":
            free |= 1 << index
        else:
            board = BOARD if cut == "mig" else ""
            cuts.append(CutState(index, cut, board, memory_mib=MEMORY))
    layout = "|".join(wired for wired, _ in host)
    return Place(1, 0, free, len(host), layout, 0, (), cuts=tuple(cuts))


def with_all(host: list[tuple[str, str]], leases: list[Lease]) -> Place:
    """The host with these leases on it, told anew: what an end of others leaves."""
    place = empty(host)
    held, cuts = [], {cut.slot: cut for cut in place.cuts or ()}
    for tenant, _, option, alone in leases:
        part = option.part
        mask = option.mask if part is None else 1 << part.slot
        held.append(Held(tenant, mask, alone))
        if part is not None:
            cuts[part.slot] = cut_after(cuts[part.slot], part, tenant)
    free = place.free_mask & ~sum(option.mask for _, _, option, _ in leases)
    return replace(place, free_mask=free, held=tuple(held), cuts=tuple(cuts.values()))


def overlapping(leases: list[Lease]) -> list[str]:
    """Parts that lie over each other, and shares of two tenants on one GPU."""
    out = []
    for k, (tenant, _, option, _) in enumerate(leases):
        for other_tenant, _, other, _ in leases[k + 1 :]:
            one, two = option.part, other.part
            if option.mask & other.mask:
                out.append(f"slots {option.mask:b} and {other.mask:b}")
            if one is None or two is None or one.slot != two.slot:
                continue
            if any(a < d and c < b for a, b in one.spans for c, d in two.spans):
                out.append(f"{one} and {two}")
            if one.kind == "share" and tenant != other_tenant:
                out.append(f"shares of {tenant} and {other_tenant} on {one.slot}")
    return out


def test_the_board_of_these_hosts_is_known() -> None:
    assert board_named(BOARD) is not None


@given(hosts, acts)
@settings(max_examples=500, deadline=None)
def test_any_sequence_of_slots_and_parts_keeps_every_promise(
    host: list[tuple[str, str]], sequence: list[tuple[UUID, Want, Alone, bool]]
) -> None:
    leases: list[Lease] = []
    place = empty(host)
    for tenant, asked, alone, gives_back in sequence:
        if gives_back and leases:
            leases.pop(len(sequence) % len(leases))
            place = with_all(host, leases)
            continue
        want = replace(asked, tenant=tenant, terms=Terms(alone=alone))
        option = best_option(place, want)
        if option is not None:
            place = taken(place, option, want)
            leases.append((tenant, want, option, alone))
            again = with_all(host, leases)
            assert replace(place, generation=0) == replace(again, generation=0)
        assert overlapping(leases) == []
        assert broken(place.layout, place.held or ()) == []
        used = [cut for cut in place.cuts or () if cut.memory_used_mib > cut.memory_mib]
        assert used == []


def test_a_host_of_its_own_is_not_given_beside_a_part_and_no_part_beside_it() -> None:
    host = [("0.0.0.0", "whole"), ("0.1.1.1", "mig")]
    part = Want(1, part=PartAsk("mig", profile="1g.10gb"), tenant=TENANTS[0])
    alone = Want(1, terms=Terms(alone=Alone.NODE), tenant=TENANTS[1])
    place = empty(host)
    option = best_option(place, part)
    assert option is not None
    assert best_option(taken(place, option, part), alone) is None
    option = best_option(place, alone)
    assert option is not None
    assert best_option(taken(place, option, alone), part) is None
