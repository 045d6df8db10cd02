"""Is a set placed if and only if some placement exists, and is what is planned allowed?"""

from __future__ import annotations

from itertools import product
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.domain.fit import Held, Place, Want, open_mask, taken
from placement.domain.sets import LEVELS, Hold, NoPlan, SetAsk, SetPlan, Site, Window, place_set
from placement.domain.terms import Alone, Own, Terms

MINE, OTHER = UUID(int=1), UUID(int=2)
names = st.sampled_from(["", "a", "b"])
stretches = st.builds(
    lambda start, length: Window(start, None if length == 0 else start + length),
    st.integers(0, 3),
    st.integers(0, 3),
)


@st.composite
def sites(draw: st.DrawFn, num: int) -> Site:
    """A host of one to four slots, standing anywhere, held by anybody, with plans of its own."""
    count = draw(st.integers(1, 4))
    masks = st.integers(0, (1 << count) - 1)
    free = draw(masks)
    part = st.tuples(*[st.sampled_from(["", "0", "1"])] * 4).map(".".join)
    held = draw(
        st.lists(
            st.builds(Held, st.sampled_from([MINE, OTHER]), masks, st.sampled_from([0, 1, 2])),
            max_size=2,
        )
    )
    return Site(
        Place(
            num,
            0,
            free,
            count,
            "|".join(draw(st.lists(part, min_size=count, max_size=count))),
            draw(masks),
            tuple(Held(h.tenant, h.mask & ~free, h.alone) for h in held if h.mask & ~free),
        ),
        zone=draw(names),
        block=draw(names),
        rack=draw(names),
        fabric=draw(names),
        holds=tuple(draw(st.lists(st.builds(Hold, masks, stretches), max_size=2))),
        returns=tuple(draw(st.lists(st.tuples(masks, st.integers(0, 4)), max_size=1))),
    )


fleets = st.integers(1, 6).flatmap(lambda n: st.tuples(*[sites(num) for num in range(1, n + 1)]))
asks = st.builds(
    SetAsk,
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple),
    want=st.builds(
        Want,
        st.just(1),
        st.booleans(),
        st.builds(
            Terms,
            alone=st.sampled_from(list(Alone)),
            own=st.sampled_from([Own.ANY, Own.ANY, Own.WITH, Own.APART]),
        ),
        st.just(MINE),
    ),
    required=st.sampled_from(["", *LEVELS]),
    preferred=st.sampled_from(["", *LEVELS]),
    apart=st.booleans(),
    windows=st.lists(stretches, max_size=2).map(tuple),
)


def exists(fleet: tuple[Site, ...], ask: SetAsk) -> bool:
    """Every way to give each member a host, tried in every window, without any cleverness."""
    single = ask.apart or ask.want.terms.own == Own.APART
    for window in ask.windows or (None,):
        for chosen in product(fleet, repeat=len(ask.sizes)):
            parts = {site.part(ask.required) if ask.required else () for site in chosen}
            if len(parts) > 1 or None in parts:
                continue
            members: dict[int, list[int]] = {}
            for site, size in zip(chosen, ask.sizes, strict=True):
                members.setdefault(site.place.num, []).append(size)
            if all(
                _holds(site.during(window), ask.want, members[site.place.num], single)
                for site in chosen
            ):
                return True
    return False


def _holds(place: Place, want: Want, sizes: list[int], single: bool) -> bool:
    usable = open_mask(place, want)
    if single and len(sizes) > 1:
        return False
    if 0 in sizes:
        return len(sizes) == 1 and usable == (1 << place.slot_count) - 1
    return sum(sizes) <= usable.bit_count()


@given(fleets, asks)
@settings(max_examples=1500, deadline=None)
def test_a_set_is_placed_if_and_only_if_some_placement_exists(
    fleet: tuple[Site, ...], ask: SetAsk
) -> None:
    found = place_set(fleet, ask)
    assert isinstance(found, SetPlan) == exists(fleet, ask)
    assert isinstance(found, SetPlan) or found.decided


@given(fleets, asks)
@settings(max_examples=600, deadline=None)
def test_what_is_planned_keeps_to_every_rule(fleet: tuple[Site, ...], ask: SetAsk) -> None:
    found = place_set(fleet, ask)
    if isinstance(found, NoPlan):
        return
    by_num = {site.place.num: site for site in fleet}
    used = [by_num[option.num] for option in found.options]
    if ask.required:
        assert {site.part(ask.required) for site in used} == {found.part}
    if ask.preferred and found.kept_preference:
        assert len({site.part(ask.preferred) for site in used}) == 1
    if ask.apart:
        assert len({site.place.num for site in used}) == len(used)
    assert found.window in (ask.windows or (None,))
    left = {num: open_mask(site.during(found.window), ask.want) for num, site in by_num.items()}
    for size, option in zip(ask.sizes, found.options, strict=True):
        whole = (1 << by_num[option.num].place.slot_count) - 1
        assert option.mask == whole if size == 0 else option.mask.bit_count() == size
        assert not option.mask & ~left[option.num]
        left[option.num] &= ~option.mask


def plain(num: int, free: int, rack: str = "") -> Site:
    """An eight-slot host with its first slots free."""
    place = Place(num, 0, (1 << free) - 1, 8, "|".join(["0.0.0.-"] * 8))
    return Site(place, zone="z", block="b", rack=rack)


def test_four_whole_hosts_go_into_the_one_rack_that_has_them() -> None:
    fleet = [
        plain(k, 8 if rack == "r2" or k % 2 else 3, rack)
        for k, rack in enumerate(["r1"] * 4 + ["r2"] * 4)
    ]
    found = place_set(fleet, SetAsk((0, 0, 0, 0), Want(0), required="rack"))
    assert isinstance(found, SetPlan)
    assert found.part == ("z", "b", "r2")
    refused = place_set(fleet, SetAsk((0,) * 5, Want(0), required="rack"))
    assert refused == NoPlan(fitting=4, members=5)


def test_a_preferred_rack_is_given_up_rather_than_the_set() -> None:
    fleet = [plain(k, 2, f"r{k}") for k in range(3)]
    found = place_set(fleet, SetAsk((2, 2), Want(2), required="block", preferred="rack"))
    assert isinstance(found, SetPlan)
    assert not found.kept_preference


def test_members_of_mixed_sizes_are_packed_where_greed_alone_would_fail() -> None:
    fleet = [plain(1, 6), plain(2, 4)]
    found = place_set(fleet, SetAsk((3, 3, 2, 2), Want(1)))
    assert isinstance(found, SetPlan)
    assert [option.num for option in found.options] == [1, 1, 2, 2]


def test_a_window_counts_what_comes_back_before_it_and_not_what_is_reserved_in_it() -> None:
    night = Window(10, 20)
    back = Site(Place(1, 0, 0, 2, "0.0.0.-|0.0.0.-"), returns=((0b11, 9),))
    reserved = Site(Place(2, 0, 0b11, 2, "0.0.0.-|0.0.0.-"), holds=(Hold(0b11, Window(15, 16)),))
    found = place_set([back, reserved], SetAsk((2, 2), Want(2), windows=(night, Window(20))))
    assert isinstance(found, SetPlan)
    assert found.window == Window(20)
    alone = place_set([back, reserved], SetAsk((2,), Want(2), windows=(night,)))
    assert isinstance(alone, SetPlan)
    assert alone.options[0].num == 1


def test_a_set_to_which_it_matters_who_holds_what_says_whose_it_is() -> None:
    with pytest.raises(ValueError, match="whose"):
        SetAsk((1,), Want(1, terms=Terms(alone=Alone.WIRING)))
    with pytest.raises(ValueError, match="level"):
        SetAsk((1,), Want(1), required="row")


def test_one_member_beside_another_is_no_stranger_to_it() -> None:
    want = Want(1, terms=Terms(alone=Alone.WIRING), tenant=MINE)
    place = Place(1, 0, 0b11, 2, "0.0.0.0|0.0.0.1", 0, ())
    found = place_set([Site(place)], SetAsk((1, 1), want))
    assert isinstance(found, SetPlan)
    after = taken(place, found.options[0], want)
    assert open_mask(after, want) == found.options[1].mask
    assert open_mask(after, Want(1, tenant=OTHER)) == 0
