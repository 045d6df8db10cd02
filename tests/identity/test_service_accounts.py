"""Do programs act with their own identity, and with no more than it has?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpuaas.kernel import clock, errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import tenant_scope
from tenants.errors import NameTaken, RoleAboveOwn, ScopeUnknown, ServiceAccountDisabled
from tenants.models import ApiToken, ServiceAccount
from tenants.services import service_accounts
from tenants.services.access import token_authenticate, user_actor
from tests.builders import TenantWorld, a_member, a_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> TenantWorld:
    """A tenant."""
    return a_tenant("acme")


def an_account(world: TenantWorld, role: str = "member", name: str = "ci") -> ServiceAccount:
    with tenant_scope(world.tenant.pk):
        return service_accounts.service_account_create(
            tenant_id=world.tenant.pk, name=name, role=role, actor=world.actor
        )


def a_token(world: TenantWorld, account: ServiceAccount, *scopes: str) -> tuple[ApiToken, str]:
    with tenant_scope(world.tenant.pk):
        return service_accounts.service_account_token(
            tenant_id=world.tenant.pk,
            account_id=account.pk,
            name="runner",
            scopes=list(scopes),
            expires_in_days=30,
            actor=world.actor,
        )


def test_a_token_acts_as_the_account_with_its_role(acme: TenantWorld) -> None:
    account = an_account(acme)
    _, text = a_token(acme, account, "allocations:write")
    actor = token_authenticate(text)
    assert text.startswith("gpuaas_svc_")
    assert isinstance(actor, Actor)
    assert (actor.kind, actor.name, actor.role) == ("token", "ci (runner)", "member")
    assert actor.scopes == {"allocations:write"}
    assert not actor.operator
    kinds = list(Event.objects.filter(tenant_id=acme.tenant.pk).values_list("kind", flat=True))
    assert "tenants.serviceaccount.create" in kinds
    assert "tenants.apitoken.create" in kinds


def test_disabling_ends_every_token_at_once_and_for_good(acme: TenantWorld) -> None:
    account = an_account(acme)
    texts = [a_token(acme, account)[1] for _ in range(2)]
    with tenant_scope(acme.tenant.pk):
        for _ in range(2):
            service_accounts.service_account_disable(
                tenant_id=acme.tenant.pk, account_id=account.pk, reason="old", actor=acme.actor
            )
    assert [token_authenticate(text) for text in texts] == [None, None]
    with pytest.raises(ServiceAccountDisabled):
        a_token(acme, account)
    (event,) = Event.objects.filter(kind="tenants.serviceaccount.disable")
    assert event.facts == {"tokens_ended": 2}


def test_a_disabled_account_is_refused_even_with_a_token_that_was_left(acme: TenantWorld) -> None:
    account = an_account(acme)
    _, text = a_token(acme, account)
    ServiceAccount.objects.filter(pk=account.pk).update(disabled_at=clock.now())
    assert token_authenticate(text) is None


def test_one_token_ends_and_the_others_go_on(acme: TenantWorld) -> None:
    account = an_account(acme)
    gone, gone_text = a_token(acme, account)
    _, kept_text = a_token(acme, account)
    service_accounts.service_account_token_revoke(
        tenant_id=acme.tenant.pk, account_id=account.pk, token_id=gone.pk, actor=acme.actor
    )
    assert token_authenticate(gone_text) is None
    assert token_authenticate(kept_text) is not None


def test_a_token_past_its_time_is_nobodys(acme: TenantWorld) -> None:
    token, text = a_token(acme, an_account(acme))
    ApiToken.objects.filter(pk=token.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    assert token_authenticate(text) is None


def test_a_token_has_no_scope_that_the_accounts_role_lacks(acme: TenantWorld) -> None:
    account = an_account(acme, "viewer")
    with pytest.raises(ScopeUnknown):
        a_token(acme, account, "allocations:write")
    with pytest.raises(ScopeUnknown):
        a_token(acme, account, "operator:read")
    assert not ApiToken.objects.exists()


@pytest.mark.parametrize("role", ["owner", "operator", ""])
def test_an_account_has_a_role_that_programs_may_have(acme: TenantWorld, role: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        an_account(acme, role)
    assert refused.value.errors[0].pointer == "/role"


def test_nobody_gives_a_program_a_role_above_their_own(acme: TenantWorld) -> None:
    account = an_account(acme, "admin")
    member = user_actor(user=a_member(acme, "member"), tenant_id=acme.tenant.pk)
    with pytest.raises(RoleAboveOwn):
        service_accounts.service_account_create(
            tenant_id=acme.tenant.pk, name="mine", role="admin", actor=member
        )
    with pytest.raises(RoleAboveOwn):
        service_accounts.service_account_token(
            tenant_id=acme.tenant.pk,
            account_id=account.pk,
            name="mine",
            scopes=[],
            expires_in_days=1,
            actor=member,
        )


def test_a_name_is_taken_once_in_a_tenant(acme: TenantWorld) -> None:
    an_account(acme)
    with pytest.raises(NameTaken):
        an_account(acme)
    globex = a_tenant("globex")
    assert an_account(globex).tenant_id == globex.tenant.pk


def test_another_tenants_account_is_not_there(acme: TenantWorld) -> None:
    account = an_account(acme)
    globex = a_tenant("globex")
    for act in (
        lambda: service_accounts.service_account_disable(
            tenant_id=globex.tenant.pk, account_id=account.pk, reason="", actor=globex.actor
        ),
        lambda: a_token(globex, account),
    ):
        with pytest.raises(errors.NotFound):
            act()
    with tenant_scope(globex.tenant.pk):
        assert not ServiceAccount.objects.exists()
