"""Are tenants that an operator keeps apart never on one host, whatever the order of things?"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.kernel.errors import InvalidRequest, NotFound, ProductError
from gpuaas.kernel.models import Event
from placement.domain.fit import Place, Want, best_option, taken
from placement.domain.terms import Terms
from placement.models import Allocation, Separation
from placement.selectors.separations import separation_shown, separations, together_now
from placement.services import bundle, engine
from placement.services import separations as service
from placement.services.allocations import allocation_release
from placement.services.queue import cycle_run
from tenants.errors import PreviewStale
from tests.builders import (
    BOTH_KINDS,
    OPERATOR,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
)
from tests.placement.test_races import together

ROUNDS = 8


def kept_apart(*worlds: TenantWorld, name: str = "rivals") -> Separation:
    """These are never placed on one host."""
    return service.separation_set(
        name=name, tenants=[w.tenant.pk for w in worlds], reason="competitors", actor=OPERATOR
    )


def hosts_of(world: TenantWorld) -> set[str]:
    """Where the tenant's live work is."""
    rows = Allocation.objects.filter(tenant=world.tenant).exclude(state="released")
    return set(rows.values_list("node__name", flat=True))


def refused(world: TenantWorld, sku: str = "h100.slice", **wishes: Any) -> ProductError:
    """Why the tenant gets nothing."""
    with pytest.raises(ProductError) as error:
        world.order(sku, **wishes)
    return error.value


@pytest.fixture
def rivals() -> tuple[TenantWorld, TenantWorld]:
    a_catalogue()
    return a_tenant("acme"), a_tenant("globex")


@pytest.mark.django_db(transaction=True)
def test_who_is_kept_apart_goes_to_another_host_and_others_stay_together(
    rivals: tuple[TenantWorld, TenantWorld],
) -> None:
    acme, globex = rivals
    initech = a_tenant("initech")
    for name in ("host-1", "host-2", "host-3"):
        a_host(name)
    kept_apart(acme, globex)
    for world in (acme, globex, initech, acme, globex):
        world.order(slots=2)
    assert hosts_of(acme).isdisjoint(hosts_of(globex))
    assert len(hosts_of(acme)) == len(hosts_of(globex)) == 1
    assert hosts_of(initech) <= hosts_of(acme) | hosts_of(globex), "nothing keeps it apart"


@pytest.mark.django_db(transaction=True)
def test_a_refusal_says_how_many_hosts_and_not_who_and_ends_with_the_proof(
    rivals: tuple[TenantWorld, TenantWorld],
) -> None:
    acme, globex = rivals
    host = a_host()
    kept_apart(acme, globex)
    lease = acme.order(slots=1).allocation_id
    host.work()
    error = refused(globex, slots=1)
    assert error.code == "forbidden_by_topology"
    assert error.facts["removed"] == {"never_together": 1}
    assert error.facts["never_together_with"] == 1
    told = f"{error.detail} {error.facts}"
    assert str(acme.tenant.pk) not in told
    assert "acme" not in told
    assert lease is not None
    allocation_release(allocation_id=lease, reason="", actor=acme.actor)
    assert refused(globex, slots=1).code == "forbidden_by_topology", "it is not proven clean yet"
    host.work()
    globex.order(slots=1)
    assert hosts_of(globex) == {"host-1"}


@pytest.mark.django_db(transaction=True)
def test_whoever_comes_first_of_two_at_once_has_the_host(
    rivals: tuple[TenantWorld, TenantWorld],
) -> None:
    acme, globex = rivals
    kept_apart(acme, globex)
    for k in range(ROUNDS):
        a_host(f"host-{k}")
        done = together(lambda: acme.order(slots=1), lambda: globex.order(slots=1))
        codes = [one.code for one in done if isinstance(one, ProductError)]
        assert set(codes) <= {"forbidden_by_topology", "concurrent_update"}
        assert together_now([acme.tenant.pk, globex.tenant.pk]) == []
        # Each fills its host, so that the next round is about the next one.
        for world in rivals:
            for _ in range(7):
                if hosts_of(world):
                    try:
                        world.order(slots=1)
                    except ProductError:
                        break
        assert hosts_of(acme).isdisjoint(hosts_of(globex))


@pytest.mark.django_db(transaction=True)
def test_a_batch_of_the_queue_keeps_them_apart_as_well(
    rivals: tuple[TenantWorld, TenantWorld],
) -> None:
    acme, globex = rivals
    initech = a_tenant("initech")
    kept_apart(acme, globex)
    host = a_host("host-1")
    filling = initech.order(slots=8).allocation_id
    host.work()
    for world in (acme, globex, acme, globex):
        world.order(slots=3, wait=True)
    assert filling is not None
    allocation_release(allocation_id=filling, reason="", actor=initech.actor)
    host.work()
    cycle_run("default")
    assert sorted(map(len, (hosts_of(acme), hosts_of(globex)))) == [0, 1]
    a_host("host-2")
    cycle_run("default")
    assert hosts_of(acme).isdisjoint(hosts_of(globex))
    assert Allocation.objects.exclude(tenant=initech.tenant).count() == 4


@pytest.mark.django_db(transaction=True)
def test_parts_of_a_gpu_are_kept_apart_by_their_host() -> None:
    a_catalogue()
    a_parts_catalogue()
    acme, globex = a_tenant("acme"), a_tenant("globex")
    kept_apart(acme, globex)
    host = a_host(parts=BOTH_KINDS)
    cut_slots(host, "mig", 3, 4)
    acme.order("h100.1g")
    error = refused(globex, "h100.1g")
    assert error.code == "forbidden_by_topology"
    assert error.facts["removed"].get("never_together")
    acme.order("h100.1g")


@pytest.mark.django_db(transaction=True)
def test_a_set_that_is_removed_binds_nobody_and_both_are_on_record(
    rivals: tuple[TenantWorld, TenantWorld],
) -> None:
    acme, globex = rivals
    a_host()
    kept_apart(acme, globex)
    acme.order(slots=1)
    service.separation_remove(name="rivals", reason="merged", actor=OPERATOR)
    globex.order(slots=1)
    assert together_now([acme.tenant.pk, globex.tenant.pk]) == [("host-1", ["acme", "globex"])]
    events = Event.objects.filter(kind__startswith="placement.separation.").order_by("id")
    assert [(event.kind, event.reason) for event in events] == [
        ("placement.separation.set", "competitors"),
        ("placement.separation.remove", "merged"),
    ]
    with pytest.raises(NotFound):
        service.separation_remove(name="rivals", reason="again", actor=OPERATOR)


@pytest.mark.django_db(transaction=True)
def test_who_shares_a_host_already_is_told_before_and_stays(
    rivals: tuple[TenantWorld, TenantWorld],
) -> None:
    acme, globex = rivals
    initech = a_tenant("initech")
    a_host()
    for world in rivals:
        world.order(slots=1)
    both = [acme.tenant.pk, globex.tenant.pk]
    seen = service.separation_preview(name="rivals", tenants=both)
    assert (seen.added, seen.dropped) == (["acme", "globex"], [])
    assert seen.together == [("host-1", ["acme", "globex"])]
    service.separation_set(
        name="rivals", tenants=both, reason="competitors", actor=OPERATOR, seen=seen.digest
    )
    assert refused(acme, slots=1).facts["removed"] == {"never_together": 1}
    with pytest.raises(PreviewStale):
        service.separation_set(
            name="rivals",
            tenants=[acme.tenant.pk, initech.tenant.pk],
            reason="other",
            actor=OPERATOR,
            seen=seen.digest,
        )
    row = service.separation_set(
        name="rivals",
        tenants=[acme.tenant.pk, initech.tenant.pk],
        reason="other",
        actor=OPERATOR,
    )
    shown = separation_shown(row)
    assert (shown.version, shown.together, shown.reason) == (2, 0, "other")
    assert [slug for _, slug in shown.tenants] == ["acme", "initech"]
    assert [one.name for one in separations()] == ["rivals"]


@pytest.mark.parametrize(
    ("name", "count", "field"),
    [
        ("Rivals!", 2, "/name"),
        ("", 2, "/name"),
        ("rivals", 1, "/tenants"),
        ("rivals", 0, "/tenants"),
    ],
)
@pytest.mark.django_db(transaction=True)
def test_a_bad_set_is_refused_by_its_field(
    rivals: tuple[TenantWorld, TenantWorld], name: str, count: int, field: str
) -> None:
    members = [world.tenant.pk for world in rivals][:count]
    with pytest.raises(InvalidRequest) as error:
        service.separation_set(name=name, tenants=members, reason="x", actor=OPERATOR)
    assert [one.pointer for one in error.value.errors] == [field]
    with pytest.raises(InvalidRequest) as error:
        service.separation_set(
            name="rivals", tenants=[*members, uuid4(), uuid4()], reason="x", actor=OPERATOR
        )
    assert error.value.errors[0].code == "unknown"
    assert not Separation.objects.exists()


TENANTS = tuple(UUID(int=k) for k in range(1, 6))


@given(
    st.sets(st.sampled_from(list(combinations(range(5), 2)))),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(1, 3)), max_size=30),
)
@settings(max_examples=300, deadline=None)
def test_any_order_of_requests_puts_no_two_that_are_kept_apart_on_one_host(
    apart: set[tuple[int, int]], asks: list[tuple[int, int, int]]
) -> None:
    never = {
        k: tuple(TENANTS[j] for j in range(5) if (min(j, k), max(j, k)) in apart) for k in range(5)
    }
    places = [
        Place(n, 0, 0xFF, 8, "|".join(f"{i // 4}.{i}.{i}.-" for i in range(8)), 0, ())
        for n in range(2)
    ]
    for who, at, slots in asks:
        want = Want(slots, terms=Terms(never=never[who]), tenant=TENANTS[who])
        option = best_option(places[at], want)
        foes = {held.tenant for held in places[at].held or ()} & set(never[who])
        assert (option is None) == (bool(foes) or places[at].free_mask.bit_count() < slots)
        if option is not None:
            places[at] = taken(places[at], option, want)
    unseen = Place(9, 0, 0xFF, 8, places[0].layout)
    closed = Want(1, terms=Terms(never=(TENANTS[0],)), tenant=TENANTS[1])
    assert best_option(unseen, closed) is None, "nobody asked who is there"


@pytest.mark.django_db(transaction=True)
def test_a_set_that_comes_between_look_and_commit_binds_that_commit(
    rivals: tuple[TenantWorld, TenantWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = rivals
    a_host("host-1")
    one.order(slots=1)
    write = bundle.commit
    sets: list[Separation] = []

    def commit(*args: Any, **kwargs: Any) -> Any:
        if not sets:
            sets.append(kept_apart(one, other))
        return write(*args, **kwargs)

    monkeypatch.setattr(engine, "commit", commit)
    assert refused(other, slots=1).code == "forbidden_by_topology"
    assert hosts_of(other) == set()
    a_host("host-2")
    other.order(slots=1)
    assert hosts_of(other) == {"host-2"}


@pytest.mark.django_db(transaction=True)
def test_of_two_changes_that_were_looked_at_before_either_one_is_looked_at_again(
    rivals: tuple[TenantWorld, TenantWorld],
) -> None:
    third, fourth = a_tenant("third"), a_tenant("fourth")
    for round_ in range(ROUNDS):
        name = f"set-{round_}"
        if round_ % 2:
            kept_apart(*rivals, name=name)
        wishes = [[w.tenant.pk for w in (*rivals, more)] for more in (third, fourth)]
        seen = [service.separation_preview(name=name, tenants=who).digest for who in wishes]
        done = together(
            *(
                partial(
                    service.separation_set,
                    name=name,
                    tenants=who,
                    reason="both",
                    actor=OPERATOR,
                    seen=digest,
                )
                for who, digest in zip(wishes, seen, strict=True)
            )
        )
        assert [type(one) for one in done if isinstance(one, ProductError)] == [PreviewStale]
        (kept,) = [one for one in done if isinstance(one, Separation)]
        assert Separation.objects.get(name=name).tenants == kept.tenants
