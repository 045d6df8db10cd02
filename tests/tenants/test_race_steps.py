"""Do authority's changes hold in every order of their steps?  Stepped on real PostgreSQL.

Each act is cut between its writes and its commit, where another could come between, and played
in all orders with another act, each on its own connection. A step that has to wait for the
other's lock is left waiting. ``RACE_ROUNDS`` repeats all of it for a campaign.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction

from gpuaas.kernel.errors import ProductError
from placement.models import Claim
from tenants.models import Envelope, QuotaCounter, QuotaIncrease, Tenant
from tenants.services import deletion, envelopes, increases, tenancy
from tests.builders import CLASS, OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.test_interleavings import Line, Step, interleavings, played
from tests.tenants.worlds import findings

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]
ROUNDS = int(os.environ.get("RACE_ROUNDS", "1"))


class Act:
    """One change as two steps: its writes in an open transaction, and the commit."""

    def __init__(self, change: Callable[[], object]) -> None:
        self.change = change
        self.code = "not run"
        self.open: Any = None

    def write(self) -> None:
        """All its writes; a refusal is kept by its code."""
        self.open = transaction.atomic()
        self.open.__enter__()
        try:
            with transaction.atomic():
                self.change()
            self.code = ""
        except ProductError as refused:
            self.code = refused.code

    def commit(self) -> None:
        """Let the others see it."""
        self.open.__exit__(None, None, None)

    @property
    def steps(self) -> list[Step]:
        """Both, in order."""
        return [self.write, self.commit]


def tried(
    lines: list[Line], acts: Callable[[TenantWorld], tuple[Act, Act]], envelope_slots: int = 64
) -> Iterator[tuple[TenantWorld, str, str]]:
    """Every order of two acts' steps, each in a tenant of its own: the tenant and both codes."""
    for turn in range(ROUNDS):
        for n, order in enumerate(interleavings(2, 2)):
            world = a_tenant(f"t-{turn}-{n}", envelope_slots=envelope_slots)
            one, other = acts(world)
            played((one.steps, other.steps), order, lines)
            yield world, one.code, other.code
            assert findings() == [], order


@pytest.fixture
def lines() -> Iterator[list[Line]]:
    """Two connections."""
    a_catalogue()
    for n in range(3):
        a_host(f"host-{n}")
    made = [Line(), Line()]
    yield made
    for line in made:
        line.close()


def held(world: TenantWorld) -> int:
    """How many claims the tenant has."""
    live = Claim.objects.filter(tenant=world.tenant, holder="tenant").exclude(state="released")
    return live.count()


def test_suspend_and_create_in_any_order(lines: list[Line]) -> None:
    def acts(world: TenantWorld) -> tuple[Act, Act]:
        pk = world.tenant.pk
        return Act(lambda: world.order(slots=1)), Act(
            lambda: tenancy.tenant_suspend(tenant_id=pk, reason="race", actor=OPERATOR)
        )

    seen = set()
    for world, ordered, suspended in tried(lines, acts):
        seen.add(ordered)
        assert suspended == ""
        assert held(world) == (1 if ordered == "" else 0)
        assert Tenant.objects.get(pk=world.tenant.pk).state == "suspended"
    assert "" in seen
    assert seen - {""} <= {"tenant_suspended", "tenant_not_admitting", "concurrent_update"}
    assert len(seen) > 1


def test_delete_and_create_in_any_order(lines: list[Line]) -> None:
    def acts(world: TenantWorld) -> tuple[Act, Act]:
        pk = world.tenant.pk
        return Act(lambda: world.order(slots=1)), Act(
            lambda: deletion.tenant_delete(tenant_id=pk, reason="race", actor=OPERATOR)
        )

    seen = set()
    for world, ordered, deleted in tried(lines, acts):
        seen.add(ordered)
        assert deleted == ""
        assert held(world) == (1 if ordered == "" else 0)
        assert Tenant.objects.get(pk=world.tenant.pk).state == "deleting"
    assert "" in seen
    assert seen - {""} <= {"tenant_not_active", "tenant_not_admitting", "concurrent_update"}
    assert len(seen) > 1


def test_lowering_an_envelope_and_an_admission_in_any_order(lines: list[Line]) -> None:
    def acts(world: TenantWorld) -> tuple[Act, Act]:
        pk = world.tenant.pk
        return Act(lambda: world.order(slots=2)), Act(
            lambda: envelopes.envelope_set(
                tenant_id=pk,
                resource_class=CLASS,
                nominal_milli=1000,
                reason="race",
                actor=OPERATOR,
                on_excess="grandfather",
            )
        )

    seen = set()
    for world, ordered, lowered in tried(lines, acts, envelope_slots=2):
        seen.add(ordered)
        assert lowered == ""
        counter = QuotaCounter.objects.get(tenant=world.tenant)
        expected = (2000, 1000) if ordered == "" else (0, 0)
        assert (counter.used_milli, counter.grandfathered_milli) == expected
    assert seen - {"concurrent_update"} == {"", "envelope_exceeded"}


def test_approving_and_withdrawing_a_wish_in_any_order(lines: list[Line]) -> None:
    def acts(world: TenantWorld) -> tuple[Act, Act]:
        wish = increases.increase_ask(
            tenant_id=world.tenant.pk,
            resource_class=CLASS,
            nominal_asked_milli=8000,
            justification="a larger model",
            actor=world.actor,
        )
        return (
            Act(
                lambda: increases.increase_approve(
                    increase_id=wish.pk, reason="race", actor=OPERATOR
                )
            ),
            Act(lambda: increases.increase_withdraw(increase_id=wish.pk, actor=world.actor)),
        )

    won = set()
    for world, approved, withdrawn in tried(lines, acts, envelope_slots=2):
        assert sorted((approved, withdrawn)) == ["", "transition_refused"]
        nominal = Envelope.objects.get(tenant=world.tenant).nominal_milli
        state = QuotaIncrease.objects.get(tenant=world.tenant).state
        assert (state, nominal) in {("approved", 8000), ("withdrawn", 2000)}
        won.add(state)
    assert won == {"approved", "withdrawn"}
