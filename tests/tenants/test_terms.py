"""Do tiers, entitlements, data sets, members and a tenant's ends keep their rules?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuaas.kernel import errors, outbox
from gpuaas.kernel.errors import ProductError
from placement.selectors import deliverable_milli, leases_of_tenant, leases_of_tier
from tenants.domain.tiers import Lease
from tenants.models import (
    ApiToken,
    Entitlement,
    Envelope,
    Member,
    QuotaCounter,
    Tenant,
)
from tenants.selectors import dataset_list
from tenants.services import (
    access,
    datasets,
    deletion,
    entitlements,
    envelopes,
    members,
    tenancy,
    tiers,
)
from tests.builders import (
    CLASS,
    OPERATOR,
    TenantWorld,
    a_catalogue,
    a_host,
    a_member,
    a_tenant,
    state_of,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant(envelope_slots=4)


def limit(world: TenantWorld, slots: int, **more: object) -> Envelope:
    """Set the envelope."""
    return envelopes.envelope_set(
        tenant_id=world.tenant.pk,
        resource_class=CLASS,
        nominal_milli=slots * 1000,
        reason="test",
        actor=OPERATOR,
        **more,  # type: ignore[arg-type]  # free terms
    )


def counter(world: TenantWorld) -> QuotaCounter:
    """What is in force."""
    return QuotaCounter.objects.get(tenant=world.tenant)


def refusal(call: Callable[[], object]) -> str:
    """The code with which it is refused."""
    with pytest.raises(ProductError) as refused:
        call()
    return refused.value.code


def pointers(call: Callable[[], object]) -> list[str]:
    """The fields that are named in the refusal of an invalid request."""
    with pytest.raises(errors.InvalidRequest) as refused:
        call()
    return [error.pointer for error in refused.value.errors]


def test_a_tier_is_given_only_as_it_was_shown(acme: TenantWorld) -> None:
    tiers.tier_create(
        name="gold",
        title="Gold",
        terms={"isolation": "node", "availability_ppm": 999_000, "priority_band": 0},
        reason="new",
        actor=OPERATOR,
    )
    running = [Lease("1", "web", "h100.slice", "vm")]
    shown = tiers.tier_preview(tenant_id=acme.tenant.pk, tier="gold", running=running)
    assert shown.tenants == ("acme",)
    assert shown.broken == ("1",)
    assert not any(change.worse for change in shown.changes)

    def give(leases: list[Lease]) -> object:
        return tiers.tier_assign(
            tenant_id=acme.tenant.pk,
            tier="gold",
            running=leases,
            seen=shown.digest,
            reason="contract",
            actor=OPERATOR,
        )

    assert refusal(lambda: give([*running, Lease("2", "api", "h100.slice", "vm")])) == (
        "preview_stale"
    )
    give(running)
    assert Tenant.objects.get(pk=acme.tenant.pk).tier.name == "gold"
    change = {"availability_ppm": 990_000}
    seen = tiers.tier_change_preview(name="gold", terms=change, running=running)
    assert [(c.term, c.worse) for c in seen.changes] == [("availability_ppm", True)]
    changed = tiers.tier_change(
        name="gold",
        terms=change,
        running=running,
        seen=seen.digest,
        reason="cheaper",
        actor=OPERATOR,
    )
    assert (changed.version, changed.versions.count()) == (2, 2)
    wrong = pointers(
        lambda: tiers.tier_change_preview(
            name="gold", terms={"priority_band": -1, "colour": "red"}, running=[]
        )
    )
    assert wrong == ["/priority_band", "/colour"]


def test_a_data_set_has_versions_and_lies_somewhere(acme: TenantWorld) -> None:
    who = {"tenant_id": acme.tenant.pk, "name": "corpus", "actor": acme.actor}
    assert pointers(lambda: datasets.dataset_declare(**who)) == ["/zones"]  # type: ignore[arg-type]  # the same three
    for zones in (["a"], ["b", "a", "a"]):
        datasets.dataset_declare(**who, zones=zones)  # type: ignore[arg-type]  # the same three
    [row] = dataset_list(acme.tenant.pk)
    assert (row.version, row.zones) == (2, ["a", "b"])
    assert datasets.dataset_retire(**who) == 2  # type: ignore[arg-type]  # the same three
    assert list(dataset_list(acme.tenant.pk)) == []


def test_entitlements_come_and_go(acme: TenantWorld) -> None:
    who = {"tenant_id": acme.tenant.pk, "sku": "h100.slice", "reason": "", "actor": OPERATOR}
    entitlements.entitlement_grant(**who)  # type: ignore[arg-type]  # the same four
    chosen = entitlements.catalogue_choose(
        tenant_id=acme.tenant.pk, catalogue="listed", reason="", actor=OPERATOR
    )
    assert chosen.catalogue == "listed"
    assert Entitlement.objects.count() == 1
    entitlements.entitlement_revoke(**who)  # type: ignore[arg-type]  # the same four
    assert Entitlement.objects.count() == 0


def test_the_last_owner_stays_and_only_owners_touch_owners(acme: TenantWorld) -> None:
    admin = a_member(acme, "admin")
    access.token_create(
        user=admin,
        tenant_id=acme.tenant.pk,
        name="ci",
        scopes=[],
        expires_in_days=1,
        actor=acme.actor,
    )
    as_admin = access.user_actor(user=admin, tenant_id=acme.tenant.pk)
    owner = Member.objects.get(tenant=acme.tenant, role="owner")
    mine = Member.objects.get(tenant=acme.tenant, user=admin)
    assert refusal(lambda: members.member_remove(member_id=owner.pk, actor=acme.actor)) == (
        "last_owner"
    )
    assert (
        refusal(
            lambda: members.member_role_set(member_id=owner.pk, role="viewer", actor=acme.actor)
        )
        == "last_owner"
    )
    assert (
        refusal(lambda: members.member_role_set(member_id=mine.pk, role="owner", actor=as_admin))
        == "permission_denied"
    )
    members.member_role_set(member_id=mine.pk, role="owner", actor=acme.actor)
    members.member_role_set(member_id=owner.pk, role="member", actor=acme.actor)
    members.member_role_set(member_id=owner.pk, role="owner", actor=OPERATOR)
    members.member_remove(member_id=mine.pk, actor=acme.actor)
    assert ApiToken.objects.get().revoked_at is not None
    assert Member.objects.get(tenant=acme.tenant).pk == owner.pk


def test_a_tenant_that_holds_something_is_not_deleted(acme: TenantWorld) -> None:
    a_host()
    acme.order(slots=1)
    member = a_member(acme, "member")
    stranger = access.user_actor(user=member, tenant_id=acme.tenant.pk)
    assert (
        refusal(lambda: deletion.tenant_delete(tenant_id=acme.tenant.pk, reason="", actor=stranger))
        == "permission_denied"
    )
    deletion.tenant_delete(tenant_id=acme.tenant.pk, reason="closing", actor=acme.actor)
    assert (
        refusal(lambda: deletion.tenant_delete_finish(tenant_id=acme.tenant.pk, actor=OPERATOR))
        == "tenant_holds_claims"
    )
    assert refusal(lambda: limit(acme, 9)) == "tenant_not_active"


def test_a_suspended_tenant_may_be_kept_running(acme: TenantWorld) -> None:
    host = a_host()
    ticket = acme.order(slots=1)
    host.work()
    tenancy.tenant_suspend(tenant_id=acme.tenant.pk, reason="unpaid", actor=OPERATOR)
    outbox.sweep()
    assert ticket.allocation_id is not None
    assert state_of(ticket.allocation_id) == "active"
    assert not counter(acme).admitting


def test_what_the_fleet_can_deliver_is_counted_beside_what_runs(acme: TenantWorld) -> None:
    kind = QuotaCounter.objects.get(tenant=acme.tenant).resource_class_id
    assert deliverable_milli(kind) == 0
    a_host()
    acme.order(slots=2)
    assert deliverable_milli(kind) == 8000
    [lease] = leases_of_tenant(acme.tenant.pk)
    assert (lease.sku, lease.isolation) == ("h100.slice", "vm")
    assert leases_of_tier("standard") == [lease]
    assert leases_of_tier("gold") == []
