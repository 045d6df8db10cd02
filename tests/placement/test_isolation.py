"""Does nobody share what somebody was promised alone, whatever comes and goes?"""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from itertools import combinations
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.kernel.errors import ProductError
from placement.audits.wiring import wiring
from placement.domain.fit import Held, Place, Want, best_option, open_mask, taken
from placement.domain.order import AllocationOrder
from placement.domain.spans import indices
from placement.domain.terms import Alone, Own, Terms, merged, version_of
from placement.domain.wiring import neighbours
from placement.models import Allocation, Claim, Node
from placement.selectors.offers import offer_list
from placement.services.allocations import allocation_plan, allocation_release
from placement.services.nodes import locked, versions_seen
from placement.services.terms import scoring_set, terms_set
from tenants.models import Sku
from tests.builders import OPERATOR, Host, a_catalogue, a_host, a_tenant

TENANTS = tuple(UUID(int=k) for k in range(1, 4))
PAIRED = "0.0.0.0|0.0.0.1|0.1.1.2|0.1.1.3|1.2.2.4|1.2.2.5|1.3.3.6|1.3.3.7"
"""Eight slots in pairs that share a switch and an NVLink bridge, a NIC each."""
parts = st.tuples(
    st.sampled_from(["0", "1"]),
    st.sampled_from(["", "0", "1", "2", "3:0", "4:0", "5:6"]),
    st.sampled_from(["", "0", "1"]),
    st.sampled_from(["", "-", "0", "1", "2"]),
).map(".".join)
acts = st.lists(
    st.tuples(
        st.sampled_from(TENANTS),
        st.integers(0, 4),
        st.sampled_from(list(Alone)),
        st.booleans(),
    ),
    max_size=14,
)


def wired_together(layout: str, one: int, other: int) -> bool:
    """Whether two slots share a part, read off the layout; what is unknown may be shared."""
    fields = [part.split(".") for part in layout.split("|")]
    a, b = fields[one], fields[other]
    links_known = any(part[2] for part in fields)
    if "" in (a[1], b[1]) or set(a[1].split(":")) & set(b[1].split(":")):
        return True
    if not links_known or (a[2] and a[2] == b[2]):
        return True
    return "" in (a[3], b[3]) or (a[3] == b[3] != "-")


def broken(layout: str, held: Iterable[Held]) -> list[str]:
    """Promises that do not hold, pair by pair of slots."""
    return [
        f"{a.tenant} {i} beside {b.tenant} {j}"
        for a, b in combinations(held, 2)
        if a.tenant != b.tenant and max(a.alone, b.alone) > Alone.SHARES
        for i in indices(a.mask)
        for j in indices(b.mask)
        if max(a.alone, b.alone) == Alone.NODE or wired_together(layout, i, j)
    ]


@given(st.integers(1, 8).flatmap(lambda n: st.lists(parts, min_size=n, max_size=n)), acts)
@settings(max_examples=600, deadline=None)
def test_any_sequence_of_claims_and_releases_keeps_every_promise(
    wired: list[str], sequence: list[tuple[UUID, int, Alone, bool]]
) -> None:
    count = len(wired)
    place = Place(1, 0, (1 << count) - 1, count, "|".join(wired), 0, ())
    held: list[Held] = []
    for tenant, slots, alone, gives_back in sequence:
        if gives_back and held:
            gone = held.pop(slots % len(held))
            place = Place(1, 0, place.free_mask | gone.mask, count, place.layout, 0, tuple(held))
            continue
        want = Want(slots, terms=Terms(alone=alone), tenant=tenant)
        option = best_option(place, want)
        if option is not None:
            place = taken(place, option, want)
            held.append(Held(tenant, option.mask, alone))
        assert broken(place.layout, held) == []


@given(st.lists(parts, min_size=1, max_size=8))
def test_neighbours_are_what_the_layout_says(wired: list[str]) -> None:
    layout = "|".join(wired)
    for one, mask in enumerate(neighbours(layout, len(wired))):
        expected = [k for k in range(len(wired)) if k == one or wired_together(layout, one, k)]
        assert indices(mask) == expected


def test_a_place_of_which_nobody_asked_who_holds_it_is_closed_to_who_wants_to_be_alone() -> None:
    place = Place(1, 0, 0b11, 2, "0.0.0.0|0.1.1.1")
    alone = Want(1, terms=Terms(alone=Alone.WIRING), tenant=TENANTS[0])
    assert open_mask(place, alone) == 0
    assert open_mask(place, Want(1)) == 0b11


def test_a_link_to_another_host_closes_a_host_to_strangers_only() -> None:
    place = Place(1, 0, 0b11, 2, PAIRED, 0, (Held(TENANTS[0], 0, Alone.WIRING, afar=True),))
    assert open_mask(place, Want(1, tenant=TENANTS[0])) == 0b11
    assert open_mask(place, Want(1, tenant=TENANTS[1])) == 0


def test_terms_add_up_to_the_strictest() -> None:
    base = {"alone": 0, "own": "", "driver_min": [], "driver_below": [], "runtime_min": []}
    both = merged(
        [
            {**base, "tenants": [], "alone": 1, "driver_min": [535, 104], "driver_below": [580]},
            {**base, "tenants": ["a"], "own": Own.WITH, "driver_min": [550]},
            {**base, "tenants": [], "own": Own.APART, "driver_below": [570]},
        ]
    )
    assert both == Terms(Alone.WIRING, Own.APART, (550,), (570,), (), ("a",))
    assert version_of("535.104.5") == (535, 104, 5)


def pairs(*names: str) -> list[Host]:
    """Hosts of four pairs of slots."""
    hosts = [a_host(name) for name in names]
    Node.objects.update(layout=PAIRED)
    return hosts


def promise(alone: str, **more: str) -> None:
    """What every slice promises from now on."""
    terms_set(noun="sku", name="h100.slice", reason="test", actor=OPERATOR, alone=alone, **more)


def refused(act: object, **wishes: object) -> ProductError:
    """The refusal of an order."""
    with pytest.raises(ProductError) as caught:
        act.order(**wishes)  # type: ignore[attr-defined]  # a TenantWorld
    return caught.value


@pytest.mark.django_db
def test_a_promise_keeps_both_sides_apart_and_the_refusal_counts_why() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    [host] = pairs("host-1")
    promise("wiring")
    acme.order(slots=1)
    promise("shares")
    globex.order(slots=6)
    claims = {c.slot_index: c.tenant_id for c in Claim.objects.all()}
    assert claims == {0: acme.tenant.pk} | dict.fromkeys(range(2, 8), globex.tenant.pk)
    assert host.fresh().free_mask == 0b10
    error = refused(globex, slots=1)
    assert error.code == "forbidden_by_topology"
    assert "another tenant was promised" in error.detail
    assert error.facts["removed"] == {"other_tenants_isolation": 1}
    assert error.facts["nearest"] == {"constraint": "other_tenants_isolation", "free": 1}
    assert acme.order(slots=1).allocation_id is not None
    assert wiring() == []


@pytest.mark.django_db
def test_a_host_alone_is_found_beyond_the_first_page_of_fuller_ones() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex", envelope_slots=400)
    hosts = pairs(*[f"host-{k}" for k in range(28)])
    for _ in range(27):
        globex.order(slots=5)
    promise("node")
    ticket = acme.order(slots=2)
    assert ticket.allocation_id is not None
    row = Allocation.objects.get(pk=ticket.allocation_id)
    empty = [host.node.pk for host in hosts if not host.fresh().claims.exclude(allocation=row)]
    assert empty == [row.node_id]
    assert refused(acme, slots=7).facts["removed"] == {"free_slots": 28}
    assert wiring() == []


@pytest.mark.django_db
def test_an_nvlink_domain_across_hosts_is_one_tenants_where_it_was_promised() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    pairs("host-1", "host-2")
    Node.objects.update(fabric="nvl72-1")
    promise("wiring")
    acme.order(slots=2)
    error = refused(globex, slots=1)
    assert error.facts["removed"] == {"wiring_isolation": 2}
    acme.order(slots=8)
    assert wiring() == []


@pytest.mark.django_db
def test_versions_pools_and_the_tenants_own_hosts_each_refuse_with_their_own_code() -> None:
    a_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    pairs("host-1", "host-2")
    promise("shares", driver_min="550", driver_below="580")
    error = refused(acme, slots=1)
    assert (error.code, error.facts["removed"]) == ("never_fits", {"driver_version": 2})
    Node.objects.filter(name="host-1").update(driver=[560, 28])
    acme.order(slots=1)
    promise("shares", runtime_min="12.4")
    assert refused(acme, slots=1).facts["removed"] == {"runtime_version": 2}
    promise("shares", own="apart")
    acme.order(slots=1)
    assert refused(acme, slots=1).facts["removed"] == {"tenant_affinity": 2}
    promise("shares", own="with")
    assert refused(globex, slots=1).facts["removed"] == {"tenant_affinity": 2}
    acme.order(slots=1)
    promise("shares")
    terms_set(
        noun="pool",
        name="default",
        reason="sold",
        actor=OPERATOR,
        tenants=[globex.tenant.pk],
    )
    assert refused(acme, slots=1, wait=True).code == "pool_dedicated"
    globex.order(slots=1)


@pytest.mark.django_db
def test_a_host_that_says_its_versions_is_let_in_and_silence_changes_nothing() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    [host] = pairs("host-1")
    promise("shares", driver_min="550", runtime_min="12.4")
    assert refused(acme, slots=1).code == "never_fits"
    with transaction.atomic():
        versions_seen(locked(host.node.pk), driver="550.54.15", runtime="12.4")
    generation = host.fresh().generation
    with transaction.atomic():
        versions_seen(locked(host.node.pk), driver=None, runtime="unknown")
    assert (host.fresh().driver, host.fresh().runtime) == ([550, 54, 15], [12, 4])
    assert host.fresh().generation == generation
    acme.order(slots=1)


@pytest.mark.django_db
def test_an_sku_that_no_approved_host_can_ever_hold_is_flagged() -> None:
    a_catalogue()
    pairs("host-1")

    def flags() -> dict[str, str]:
        return {offer.sku: offer.code for offer in offer_list()}

    assert flags() == {"h100.node": "", "h100.slice": ""}
    promise("shares", driver_min="550")
    assert flags() == {"h100.node": "", "h100.slice": "never_fits"}
    promise("shares")
    Sku.objects.filter(name="h100.slice").update(exclusive_nic=True)
    assert flags() == {"h100.node": "", "h100.slice": "never_fits"}


@pytest.mark.django_db
def test_a_decision_says_what_room_it_cost_and_by_which_weights() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    pairs("host-1", "host-2")
    scoring_set(gap=10_000, fragment=1000, stranded=200, broken=900, reason="x", actor=OPERATOR)
    ticket = acme.order(slots=1)
    allocation_release(allocation_id=ticket.allocation_id, reason="", actor=acme.actor)  # type: ignore[arg-type]  # placed
    plan = allocation_plan(
        tenant_id=acme.tenant.pk,
        project_id=acme.project.pk,
        order=AllocationOrder(sku="h100.slice", slots=1),
        actor=acme.actor,
    )
    assert plan.choice is not None
    assert isinstance(plan.choice["room_lost_milli"], int)
    assert plan.runner_up is not None


@pytest.mark.django_db
def test_terms_and_weights_that_make_no_sense_are_refused_by_name() -> None:
    a_catalogue()
    for field, wrong in (
        ("alone", {"alone": "moon"}),
        ("own", {"own": "near"}),
        ("driver_min", {"driver_min": "v5"}),
        ("name", {"name": "h100.none"}),
        ("noun", {"noun": "node"}),
    ):
        with pytest.raises(ProductError) as caught:
            terms_set(
                **{  # type: ignore[arg-type]  # wrong on purpose
                    "noun": "sku",
                    "name": "h100.slice",
                    "reason": "x",
                    "actor": OPERATOR,
                    **wrong,
                }
            )
        assert caught.value.errors[0].pointer == f"/{field}"
    with pytest.raises(ProductError):
        scoring_set(gap=-1, fragment=0, stranded=0, broken=0, reason="x", actor=OPERATOR)


@pytest.mark.django_db
def test_an_operator_sets_and_lists_terms_by_a_command() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    out = StringIO()
    call_command(
        "placement_terms", "sku", "h100.slice", alone="wiring", reason="sold so", stdout=out
    )
    call_command(
        "placement_terms", "pool", "default", tenant=["acme"], reason="theirs", stdout=StringIO()
    )
    call_command("placement_terms", stdout=out)
    assert out.getvalue().splitlines() == [
        "sku:h100.slice: alone wiring (version 1)",
        f"pool:default: tenants {acme.tenant.pk} (version 1)",
        "sku:h100.slice: alone wiring (version 1)",
    ]
    with pytest.raises(CommandError, match="no tenant"):
        call_command("placement_terms", "pool", "default", tenant=["nobody"], reason="x")
    with pytest.raises(CommandError):
        call_command("placement_terms", "sku", "h100.slice", alone="node", reason="")
