"""Does an invitation bring in the invited person, once, and nobody else?"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.test import Client, TestCase

from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import tenant_scope
from tenants.errors import InvitationExists, InvitationInvalid, RoleAboveOwn
from tenants.models import Invitation, Member, User
from tenants.services import invitations
from tenants.services.access import user_actor
from tests.builders import TenantWorld, a_member, a_tenant

pytestmark = pytest.mark.django_db
EMAIL = "grace@example.test"


@pytest.fixture
def acme() -> TenantWorld:
    """A tenant."""
    return a_tenant("acme")


def invite(
    world: TenantWorld, email: str = EMAIL, role: str = "member", actor: Actor | None = None
) -> str:
    """Invite, and read the secret in the mail."""
    with TestCase.captureOnCommitCallbacks(execute=True), tenant_scope(world.tenant.pk):
        invitations.invitation_create(
            tenant_id=world.tenant.pk,
            email=email,
            role=role,
            link=lambda secret: f"https://gpu.example/invitation/{secret}/",
            actor=actor or world.actor,
        )
    found = re.search(r"/invitation/([^/]+)/", str(mail.outbox[-1].body))
    assert found is not None
    return found[1]


def a_person(email: str = EMAIL) -> User:
    return User.objects.create_user(email, "correct horse battery")


def accept(secret: str, user: User) -> Member:
    actor = user_actor(user=user, tenant_id=None)
    return invitations.invitation_accept(secret=secret, user=user, actor=actor)


def test_the_secret_is_in_the_mail_and_nowhere_else(acme: TenantWorld) -> None:
    secret = invite(acme)
    assert mail.outbox[-1].to == [EMAIL]
    assert "owner@acme.test invites you to acme as member" in str(mail.outbox[-1].body)
    stored = Invitation.objects.values_list()[0]
    assert secret not in str(stored)
    assert secret not in str(list(Event.objects.values_list("after", "facts", "reason")))


def test_somebody_with_an_account_becomes_a_member_once(acme: TenantWorld) -> None:
    secret, person = invite(acme), a_person("GRACE@example.test")
    member = accept(secret, person)
    assert (member.role, member.tenant_id) == ("member", acme.tenant.pk)
    with pytest.raises(InvitationInvalid):
        accept(secret, person)
    event = Event.objects.get(kind="tenants.invitation.accept")
    assert event.tenant_id == acme.tenant.pk
    assert event.facts == {"invited_by": "owner@acme.test"}


def test_somebody_new_gets_an_account_of_the_invited_address(acme: TenantWorld) -> None:
    secret = invite(acme, role="viewer")
    user, member = invitations.invitation_sign_up(
        secret=secret, full_name="Grace", password="correct horse battery"
    )
    assert (user.email, member.role) == (EMAIL, "viewer")
    with pytest.raises(InvitationInvalid):
        invitations.invitation_sign_up(secret=secret, full_name="", password="x" * 12)


def test_another_persons_invitation_is_answered_like_one_that_is_not_there(
    acme: TenantWorld,
) -> None:
    secret, other = invite(acme), a_person("other@example.test")
    with pytest.raises(InvitationInvalid) as theirs:
        accept(secret, other)
    with pytest.raises(InvitationInvalid) as nothing:
        accept("no-such-secret", other)
    assert (str(theirs.value), theirs.value.facts) == (str(nothing.value), nothing.value.facts)
    assert not Member.objects.filter(user=other).exists()


def test_a_revoked_or_expired_invitation_opens_nothing(acme: TenantWorld) -> None:
    secret, person = invite(acme), a_person()
    invitation = Invitation.objects.get()
    with tenant_scope(acme.tenant.pk):
        for _ in range(2):
            invitations.invitation_revoke(
                tenant_id=acme.tenant.pk, invitation_id=invitation.pk, actor=acme.actor
            )
    with pytest.raises(InvitationInvalid):
        accept(secret, person)
    assert Event.objects.filter(kind="tenants.invitation.revoke").count() == 1
    late = invite(acme)
    Invitation.objects.filter(revoked_at=None).update(expires_at=clock.now() - timedelta(seconds=1))
    with pytest.raises(InvitationInvalid):
        accept(late, person)
    assert accept(invite(acme), person).role == "member"


def test_an_address_is_invited_once_at_a_time_and_no_member_is(acme: TenantWorld) -> None:
    invite(acme)
    with pytest.raises(InvitationExists):
        invite(acme, "GRACE@Example.test")
    with pytest.raises(InvitationExists):
        invite(acme, "Owner@acme.test")
    assert len(mail.outbox) == 1


def test_nobody_invites_above_their_own_role(acme: TenantWorld) -> None:
    admin = user_actor(user=a_member(acme, "admin"), tenant_id=acme.tenant.pk)
    with pytest.raises(RoleAboveOwn):
        invite(acme, role="owner", actor=admin)
    assert invite(acme, role="admin", actor=admin)


def test_a_member_by_now_keeps_the_role_they_have(acme: TenantWorld) -> None:
    secret, person = invite(acme, role="viewer"), a_person()
    Member.objects.create(tenant=acme.tenant, user=person, role="admin")
    assert accept(secret, person).role == "admin"


def test_the_link_leads_somebody_new_into_the_tenant(acme: TenantWorld) -> None:
    address = f"/invitation/{invite(acme)}/"
    browser = Client()
    page = browser.get(address)
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "same-origin"
    assert "acme" in page.content.decode()
    weak = browser.post(address, {"password": "short"})
    assert (weak.status_code, Member.objects.filter(user__email=EMAIL).count()) == (400, 0)
    done = browser.post(address, {"full_name": "Grace", "password": "correct horse battery"})
    assert done.headers["Location"] == "/t/acme/"
    assert browser.get("/t/acme/").status_code == 200
    assert Client().get(address).status_code == 404


def test_the_link_asks_somebody_with_an_account_to_sign_in_first(acme: TenantWorld) -> None:
    address, person = f"/invitation/{invite(acme)}/", a_person()
    browser = Client()
    assert f"/sign-in/?next={address}" in browser.get(address).content.decode()
    assert browser.post(address, {"password": "correct horse battery"}).status_code == 400
    other = Client()
    other.force_login(a_person("other@example.test"))
    assert "another address" in other.get(address).content.decode()
    assert other.post(address).status_code == 404
    browser.force_login(person)
    assert browser.post(address).headers["Location"] == "/t/acme/"
    assert Member.objects.get(user=person).role == "member"
