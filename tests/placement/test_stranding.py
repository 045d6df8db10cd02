"""Does the account of idle capacity add up, and does it say what really fits?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.kernel.errors import NotFound
from placement.domain.stranding import SCATTERED, Hosts, Sold, Stranding, stranding
from placement.domain.terms import Alone, Terms
from placement.models import Allocation, Node
from placement.services import nodes
from placement.services.allocations import allocation_release
from placement.services.fragmentation import fragmentation_list
from placement.services.terms import terms_set
from tests.builders import OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant

states = st.sampled_from(["", "", "", "maintenance", "draining", "unhealthy"])


@st.composite
def hosts(draw: st.DrawFn) -> Hosts:
    """Some hosts of one to four slots, in any condition."""
    slots = draw(st.integers(1, 4))
    masks = st.integers(0, (1 << slots) - 1)
    held = draw(masks)
    out = draw(masks) & ~held
    return Hosts(
        hosts=draw(st.integers(1, 3)),
        slots=slots,
        free=((1 << slots) - 1) & ~held & ~out,
        idle=slots - held.bit_count(),
        layout="|".join(f"0.{k // 2}.{k // 2}.{k}" for k in range(slots)),
        exclusive=draw(masks),
        held=held,
        promised=draw(masks) & held,
        closed=draw(st.integers(0, 5)) == 0,
        domain_held=draw(st.integers(0, 5)) == 0,
        state=draw(states),
        drained=draw(st.integers(0, out.bit_count())),
        intended=draw(st.sampled_from(["any", "any", "slices", "baremetal"])),
        driver=draw(st.sampled_from([(), (535,), (550,)])),
        kept=draw(st.integers(0, 5)) == 0,
    )


products = st.builds(
    Sold,
    sku=st.just("x"),
    least=st.just(1),
    most=st.integers(0, 4),
    exclusive_nic=st.booleans(),
    terms=st.builds(
        Terms,
        alone=st.sampled_from(list(Alone)),
        driver_min=st.sampled_from([(), (550,)]),
    ),
)


@given(products, st.lists(hosts(), max_size=5))
def test_open_and_the_causes_add_up_to_what_is_idle(sold: Sold, fleet: list[Hosts]) -> None:
    found = stranding(sold, fleet)
    causes = sum(slots for cause, slots in found.causes.items() if cause != SCATTERED)
    assert found.open + causes == found.idle == sum(g.idle * g.hosts for g in fleet)
    assert all(slots > 0 for slots in found.causes.values())


def most_gathered(open_slots: int, rooms: Sequence[int], size: int) -> int:
    """Requests of a size that go into hosts of these sizes, tried one by one."""
    served, rooms = 0, list(rooms)
    while open_slots >= size:
        at = next((k for k, room in enumerate(rooms) if room >= size), None)
        if at is None:
            break
        rooms[at] -= size
        open_slots -= size
        served += 1
    return served


@given(products, st.lists(hosts(), max_size=5))
def test_what_fits_now_and_gathered_is_what_counting_one_by_one_finds(
    sold: Sold, fleet: list[Hosts]
) -> None:
    found = stranding(sold, fleet)
    each = [n for n, count in found.histogram.items() for _ in range(count)]
    rooms = [g.slots for g in fleet if not g.state for _ in range(g.hosts)]
    for fit in found.fits:
        assert fit.now == sum(n // fit.size for n in each)
        assert fit.ideal == most_gathered(sum(each), rooms, fit.size) >= fit.now
    if not sold.whole:
        assert found.largest == (min(max(each, default=0), sold.most) if found.fits else 0)


def account(sku: str = "h100.slice") -> Stranding:
    """The account of one product."""
    (found,) = fragmentation_list(sku)
    return found.found


class Three:
    """Three hosts of eight: five, six and seven slots of them are acme's."""

    def __init__(self) -> None:
        a_catalogue()
        self.acme: TenantWorld = a_tenant("acme")
        self.hosts = [a_host(f"host-{k}") for k in range(3)]
        for k, size in enumerate((5, 6, 7)):
            Node.objects.exclude(name=f"host-{k}").update(schedulable=False)
            self.acme.order(slots=size)
            Node.objects.update(schedulable=True)


@pytest.fixture
def three(db: None) -> Three:
    """The three hosts."""
    return Three()


def test_free_slots_are_told_beside_the_largest_request_that_fits(three: Three) -> None:
    found = account()
    assert (found.slots, found.idle, found.open, found.largest) == (24, 6, 6, 3)
    assert [(f.size, f.now, f.ideal) for f in found.fits] == [
        (1, 6, 6),
        (2, 2, 3),
        (4, 0, 1),
        (8, 0, 0),
    ]
    assert found.histogram == {1: 1, 2: 1, 3: 1}
    assert found.causes == {}
    whole = account("h100.node")
    assert (whole.largest, whole.fits[0].now, whole.fits[0].ideal) == (0, 0, 0)


def test_each_cause_takes_its_slots_once(three: Three) -> None:
    nodes.node_drain(node_id=three.hosts[0].node.pk, reason="work", actor=OPERATOR)
    free = three.hosts[1].fresh().free_mask.bit_length() - 1
    nodes.node_drain(node_id=three.hosts[1].node.pk, reason="work", actor=OPERATOR, slot_index=free)
    three.hosts[2].report("iommu_missing")
    found = account()
    assert found.causes == {"draining": 4, "unhealthy": 1}
    assert (found.open, found.largest, found.idle) == (1, 1, 6)
    nodes.node_maintain(node_id=three.hosts[2].node.pk, reason="fans", actor=OPERATOR)
    assert account().causes == {"draining": 4, "maintenance": 1}


def test_a_blocked_cleanup_is_idle_and_of_no_use(three: Three) -> None:
    row = Allocation.objects.get(node=three.hosts[0].node)
    three.hosts[0].work()
    allocation_release(allocation_id=row.pk, reason="", actor=three.acme.actor)
    three.hosts[0].work(skip=("gpu_scrubbed",))
    found = account()
    assert (found.idle, found.open, found.causes) == (11, 6, {"cleanup_blocked": 5})


def test_terms_and_intended_use_strand_for_one_product_and_not_for_another(three: Three) -> None:
    Node.objects.filter(name="host-0").update(intended="baremetal", takes="baremetal")
    assert account().causes == {"intended_use": 3}
    terms_set(noun="sku", name="h100.slice", driver_min="550", reason="test", actor=OPERATOR)
    assert account().causes == {"intended_use": 3, "versions": 3}
    assert account("h100.node").causes == {}


def test_wiring_that_was_promised_alone_is_closed_to_others(three: Three) -> None:
    terms_set(noun="sku", name="h100.slice", alone="node", reason="test", actor=OPERATOR)
    assert account().causes == {"wiring_isolation": 6}
    terms_set(noun="sku", name="h100.slice", reason="test", actor=OPERATOR)
    terms_set(noun="tier", name="standard", alone="node", reason="test", actor=OPERATOR)
    Node.objects.exclude(name="host-0").update(schedulable=False)
    three.acme.order(slots=1)
    Node.objects.update(schedulable=True)
    found = account()
    assert found.causes == {"wiring_isolation": 2}
    assert (found.open, found.idle, found.largest) == (3, 5, 2)


def test_a_node_that_is_kept_for_who_waits_is_not_open_to_others(
    three: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placement.services.queue.HOLD_AFTER_S", 0)
    three.acme.order(slots=8, wait=True)
    found = account()
    assert found.causes == {"kept_for_waiting": 3}
    assert (found.open, found.largest) == (3, 2)


def test_the_account_takes_as_many_statements_for_a_hundred_hosts_as_for_three(
    three: Three,
) -> None:
    with CaptureQueriesContext(
        connection,
    ) as few:
        fragmentation_list()
    template = Node.objects.get(name="host-0")
    for k in range(100):
        template.pk, template.num, template.name = None, 1000 + k, f"more-{k}"
        Node.objects.bulk_create([template])
    with CaptureQueriesContext(connection) as many:
        found = fragmentation_list("h100.slice")
    assert len(many) == len(few)
    assert found[0].found.hosts == 103


def test_a_product_that_is_not_sold_has_no_account(three: Three) -> None:
    with pytest.raises(NotFound):
        fragmentation_list("h100.tray")
