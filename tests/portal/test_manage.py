"""Can people, projects, tokens and keys be managed by those who may, and only by them?"""

from __future__ import annotations

import re

import pytest

from tenants.models import ApiToken, Invitation, Member, Project, SshKey, User
from tenants.services.access import token_authenticate
from tests.portal.conftest import World

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop"


def test_a_token_is_shown_once_works_and_stops_when_revoked(world: World) -> None:
    browser = world.browser("member")
    made = browser.send(
        world.url("tokens/"),
        {"name": "ci", "expires_in_days": "30", "scopes": ["allocations:read"]},
    )
    shown = re.search(r"gpuaas_pat_\w+", made.content.decode())
    assert shown is not None
    assert made.headers["Cache-Control"] == "no-store"
    actor = token_authenticate(shown.group())
    assert actor is not None
    assert actor.scopes == {"allocations:read"}
    again = browser.get(world.url("tokens/")).content.decode()
    assert shown.group() not in again
    token = ApiToken.objects.get(name="ci")
    browser.send(world.url(f"tokens/{token.pk}/revoke/"))
    assert token_authenticate(shown.group()) is None


def test_nobody_makes_a_token_with_more_than_their_role(world: World) -> None:
    answer = world.browser("viewer").send(
        world.url("tokens/"),
        {"name": "more", "expires_in_days": "7", "scopes": ["allocations:write"]},
    )
    assert answer.status_code == 400
    assert not ApiToken.objects.filter(name="more").exists()


def test_a_colleagues_token_is_not_there_for_a_member_but_is_for_an_owner(world: World) -> None:
    world.browser("admin").send(world.url("tokens/"), {"name": "theirs", "expires_in_days": "7"})
    token = ApiToken.objects.get(name="theirs")
    address = world.url(f"tokens/{token.pk}/revoke/")
    assert world.browser("member").send(address).status_code == 404
    assert world.browser("owner").send(address).status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_a_key_is_kept_shown_and_forgotten(world: World) -> None:
    browser = world.browser("member")
    browser.send(world.url("ssh-keys/"), {"name": "", "public_key": KEY})
    key = SshKey.objects.get()
    assert key.name == "me@laptop"
    assert key.fingerprint in browser.get(world.url("ssh-keys/")).content.decode()
    twice = browser.send(world.url("ssh-keys/"), {"name": "", "public_key": KEY})
    assert twice.status_code == 400
    assert "has this key" in twice.content.decode()
    browser.send(world.url(f"ssh-keys/{key.pk}/delete/"))
    assert not SshKey.objects.exists()


def test_a_private_key_is_refused_and_not_shown_again(world: World) -> None:
    secret = "-----BEGIN OPENSSH PRIVATE KEY-----\nc2VjcmV0\n-----END OPENSSH PRIVATE KEY-----"
    answer = world.browser().send(world.url("ssh-keys/"), {"name": "x", "public_key": secret})
    assert answer.status_code == 400
    assert not SshKey.objects.exists()


@pytest.mark.parametrize(("role", "status"), [("admin", 302), ("member", 403), ("viewer", 403)])
def test_only_those_who_run_the_tenant_make_projects(world: World, role: str, status: int) -> None:
    answer = world.browser(role).send(world.url("team/projects/"), {"name": "Vision"})
    assert answer.status_code == status
    assert Project.objects.filter(slug="vision").exists() == (status == 302)


def test_a_person_is_invited_to_a_role_but_to_none_above_the_givers(world: World) -> None:
    User.objects.create_user("new@example.test", "correct horse battery")
    address = world.url("team/members/")
    admin = world.browser("admin")
    person = {"email": "new@example.test"}
    refused = admin.send(address, {**person, "role": "owner"})
    assert refused.status_code == 400
    assert "Only an owner" in refused.content.decode()
    assert world.browser("member").send(address, {**person, "role": "viewer"}).status_code == 403
    for email in ("new@example.test", "nobody@example.test"):
        assert admin.send(address, {"email": email, "role": "member"}).status_code == 302
    assert set(Invitation.objects.values_list("email", "role")) == {
        ("new@example.test", "member"),
        ("nobody@example.test", "member"),
    }
    assert not Member.objects.filter(user__email="new@example.test").exists()
