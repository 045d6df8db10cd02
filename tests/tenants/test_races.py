"""Do authority's changes and placements beside them keep the invariants, in any interleaving?

Each race runs on two connections of a real Postgres, released together by a barrier.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.db import connections

from gpuaas.kernel import outbox
from gpuaas.kernel.errors import ProductError
from placement.models import Allocation, Claim
from placement.services.endings import deletions_sweep
from tenants.models import CohortCounter, Envelope, QuotaCounter, QuotaIncrease, SshKey, Tenant
from tenants.services import access, cohorts, deletion, envelopes, increases, tenancy
from tests.builders import CLASS, OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = int(os.environ.get("RACE_ROUNDS", "6"))
"""More for a campaign: ``RACE_ROUNDS=500 pytest tests/tenants/test_races.py``."""


def race(*runners: Callable[[], object]) -> list[str]:
    """Run all at once: each one's refusal code, or an empty string."""
    barrier = threading.Barrier(len(runners))

    def go(runner: Callable[[], object]) -> str:
        try:
            barrier.wait(10)
            runner()
        except ProductError as refused:
            return refused.code
        finally:
            connections.close_all()
        return ""

    with ThreadPoolExecutor(len(runners)) as pool:
        return list(pool.map(go, runners))


def live_claims(world: TenantWorld) -> int:
    """How many the tenant holds."""
    return (
        Claim.objects.filter(tenant=world.tenant, holder="tenant").exclude(state="released").count()
    )


def test_a_suspension_comes_wholly_before_or_after_a_create() -> None:
    a_catalogue()
    for n in range(2):
        a_host(f"host-{n}")
    for n in range(ROUNDS):
        acme = a_tenant(f"acme-{n}")
        codes = race(
            partial(acme.order, slots=1),
            partial(
                tenancy.tenant_suspend, tenant_id=acme.tenant.pk, reason="race", actor=OPERATOR
            ),
        )
        assert codes[1] == ""
        assert codes[0] in ("", "tenant_suspended", "tenant_not_admitting")
        assert live_claims(acme) == (1 if codes[0] == "" else 0)
        with pytest.raises(ProductError) as refused:
            acme.order(slots=1)
        assert refused.value.code == "tenant_suspended"
        assert findings() == []


def a_key() -> str:
    """A public key that nobody has."""
    public = Ed25519PrivateKey.generate().public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def test_of_two_keys_of_one_name_in_one_moment_one_is_kept() -> None:
    a_catalogue()
    for n in range(ROUNDS):
        acme = a_tenant(f"acme-{n}")

        def add(name: str, line: str, world: TenantWorld = acme) -> SshKey:
            return access.ssh_key_add(
                tenant_id=world.tenant.pk,
                user_id=world.owner.pk,
                name=name,
                public_key=line,
                actor=world.actor,
            )

        codes = race(partial(add, "laptop", a_key()), partial(add, "laptop", a_key()))
        assert sorted(codes) == ["", "name_taken"]
        same = a_key()
        codes = race(partial(add, "one", same), partial(add, "two", same))
        assert sorted(codes) == ["", "name_taken"]
        codes = race(partial(add, "", a_key()), partial(add, "", a_key()))
        assert codes == ["", ""], "a name that nobody gave is nobody's conflict"
        names = list(SshKey.objects.filter(tenant=acme.tenant).values_list("name", flat=True))
        assert len(set(names)) == len(names) == 4


def test_a_deletion_ends_at_no_claim_whatever_it_raced_with() -> None:
    a_catalogue()
    host = a_host()
    for n in range(ROUNDS):
        acme = a_tenant(f"acme-{n}")
        acme.order(slots=1)
        codes = race(
            partial(acme.order, slots=1),
            partial(
                deletion.tenant_delete, tenant_id=acme.tenant.pk, reason="race", actor=OPERATOR
            ),
        )
        assert codes[1] == ""
        assert codes[0] in ("", "tenant_not_active", "tenant_not_admitting")
        assert deletions_sweep() == 0
        assert Tenant.objects.get(pk=acme.tenant.pk).state == "deleting"
        host.work()
        assert live_claims(acme) == 0
        assert deletions_sweep() == 1
        assert Tenant.objects.get(pk=acme.tenant.pk).state == "deleted"
        assert set(acme.tenant.allocations.values_list("state", flat=True)) == {"released"}
        assert findings() == []


def test_a_lowered_envelope_and_an_admission_beside_it_leave_no_hidden_excess() -> None:
    a_catalogue()
    for n in range(2):
        a_host(f"host-{n}")
    for n in range(ROUNDS):
        acme = a_tenant(f"acme-{n}", envelope_slots=2)
        codes = race(
            partial(acme.order, slots=2),
            partial(
                envelopes.envelope_set,
                tenant_id=acme.tenant.pk,
                resource_class=CLASS,
                nominal_milli=1000,
                reason="race",
                actor=OPERATOR,
                on_excess="grandfather",
            ),
        )
        assert codes[1] == ""
        counter = QuotaCounter.objects.get(tenant=acme.tenant)
        if codes[0]:
            assert codes[0] == "envelope_exceeded"
            assert (counter.used_milli, counter.grandfathered_milli) == (0, 0)
        else:
            assert (counter.used_milli, counter.grandfathered_milli) == (2000, 1000)
        assert findings() == []


def test_a_wish_is_approved_or_withdrawn_and_never_both() -> None:
    a_catalogue()
    for n in range(ROUNDS):
        acme = a_tenant(f"acme-{n}", envelope_slots=2)
        wish = increases.increase_ask(
            tenant_id=acme.tenant.pk,
            resource_class=CLASS,
            nominal_asked_milli=8000,
            justification="a larger model",
            actor=acme.actor,
        )
        codes = race(
            partial(increases.increase_approve, increase_id=wish.pk, reason="race", actor=OPERATOR),
            partial(increases.increase_withdraw, increase_id=wish.pk, actor=acme.actor),
        )
        assert sorted(codes) == ["", "transition_refused"]
        nominal = Envelope.objects.get(tenant=acme.tenant).nominal_milli
        state = QuotaIncrease.objects.get(pk=wish.pk).state
        assert (state, nominal) in {("approved", 8000), ("withdrawn", 2000)}
        assert findings() == []


def test_members_of_a_cohort_never_hold_more_than_they_bring_together() -> None:
    a_catalogue()
    for n in range(3):
        a_host(f"host-{n}")
    cohorts.cohort_create(name="all", actor=OPERATOR)
    cohorts.cohort_create(name="part", parent="all", actor=OPERATOR)
    worlds = [a_tenant(f"t-{n}", envelope_slots=4) for n in range(4)]
    for n, world in enumerate(worlds):
        envelopes.envelope_set(
            tenant_id=world.tenant.pk,
            resource_class=CLASS,
            nominal_milli=2000,
            borrow_milli=4000,
            reason="test",
            actor=OPERATOR,
        )
        cohorts.tenant_cohort_set(
            tenant_id=world.tenant.pk,
            cohort=("all", "part")[n % 2],
            reason="test",
            actor=OPERATOR,
        )

    def take(world: TenantWorld) -> Callable[[], object]:
        def run() -> None:
            for _ in range(4):
                world.order(slots=1)

        return run

    def wander() -> None:
        for cohort in ("part", None, "all"):
            cohorts.tenant_cohort_set(
                tenant_id=worlds[0].tenant.pk, cohort=cohort, reason="race", actor=OPERATOR
            )

    codes = race(*(take(world) for world in worlds), wander)
    assert set(codes) <= {"", "envelope_exceeded", "cohort_exhausted", "sku_unavailable"}
    # Who borrowed, left and came back holds beyond what it brings; that is told, and nothing else.
    root = CohortCounter.objects.get(cohort__name="all", resource_class__name=CLASS)
    assert root.grandfathered_milli <= 4000
    assert sum(live_claims(world) for world in worlds) * 1000 <= 8000 + root.grandfathered_milli
    assert findings() == []


def test_who_borrowed_leaves_and_returns_is_told_to_hold_beyond_what_the_cohort_has() -> None:
    a_catalogue()
    for n in range(2):
        a_host(f"host-{n}")
    cohorts.cohort_create(name="all", actor=OPERATOR)
    worlds = [a_tenant(f"t-{n}", envelope_slots=4) for n in range(3)]

    def move(world: TenantWorld, cohort: str | None) -> None:
        cohorts.tenant_cohort_set(
            tenant_id=world.tenant.pk, cohort=cohort, reason="test", actor=OPERATOR
        )

    for world in worlds:
        envelopes.envelope_set(
            tenant_id=world.tenant.pk,
            resource_class=CLASS,
            nominal_milli=2000,
            borrow_milli=4000,
            reason="test",
            actor=OPERATOR,
        )
        move(world, "all")
    for _ in range(3):
        worlds[0].order(slots=1)
    move(worlds[0], None)
    for world in (worlds[1], worlds[1], worlds[1], worlds[2]):
        world.order(slots=1)
    move(worlds[0], "all")
    root = CohortCounter.objects.get(cohort__name="all", resource_class__name=CLASS)
    assert (root.quota_milli, root.used_milli, root.grandfathered_milli) == (6000, 7000, 1000)
    assert findings() == []
    with pytest.raises(ProductError):
        worlds[2].order(slots=1)


def test_a_project_is_deleted_or_used_and_never_both() -> None:
    a_catalogue()
    a_host()
    a_host("host-2")
    for n in range(ROUNDS):
        acme = a_tenant(f"acme-{n}")
        codes = race(
            partial(acme.order, slots=1),
            partial(deletion.project_delete, project_id=acme.project.pk, actor=OPERATOR),
        )
        acme.project.refresh_from_db()
        assert (codes[1] == "") == (acme.project.deleted_at is not None)
        assert live_claims(acme) == (0 if acme.project.deleted_at else 1)
        assert codes[1] in ("", "project_not_empty")
        assert findings() == []


def test_a_suspension_with_release_lets_go_of_everything_by_proof() -> None:
    a_catalogue()
    host = a_host()
    acme = a_tenant()
    acme.order(slots=2)
    host.work()
    tenancy.tenant_suspend(
        tenant_id=acme.tenant.pk, reason="unpaid", suspension="release", actor=OPERATOR
    )
    outbox.sweep()
    row = Allocation.objects.get()
    assert (row.state, row.outcome, row.outcome_code) == (
        "releasing",
        "evicted",
        "tenant_suspended",
    )
    host.work()
    row.refresh_from_db()
    assert row.state == "released"
    assert findings() == []
