"""Does a new password end what the old one opened?"""

from __future__ import annotations

import re

import pytest
from django.core import mail

from gpuaas.kernel.models import Event
from tenants.services.access import token_authenticate
from tests.api.client import token_of
from tests.builders import TenantWorld, a_tenant
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db
OLD, NEW = "correct horse battery", "an even longer staple"


@pytest.fixture
def acme() -> TenantWorld:
    """A tenant."""
    return a_tenant("acme")


def signed_in(world: TenantWorld, password: str = OLD) -> Browser:
    browser = Browser()
    browser.send("/sign-in/", {"username": world.owner.email, "password": password})
    return browser


def change(browser: Browser, **more: str) -> int:
    given = {"old_password": OLD, "new_password1": NEW, "new_password2": NEW, **more}
    return browser.send("/password/", given).status_code


def test_signing_in_gives_the_session_a_new_key(acme: TenantWorld) -> None:
    browser = Browser()
    browser.get("/sign-in/with/openid/")
    session = browser.session
    session["planted"] = "by somebody else"
    session.save()
    planted = session.session_key
    browser.cookies["gpuaas_session"] = str(planted)
    browser.send("/sign-in/", {"username": acme.owner.email, "password": OLD})
    assert browser.session.session_key != planted
    assert browser.get("/t/acme/").status_code == 200


def test_a_new_password_ends_the_other_sessions_and_keeps_this_one(acme: TenantWorld) -> None:
    here, there = signed_in(acme), signed_in(acme)
    token = token_of(acme.owner, acme)
    assert change(here) == 302
    assert here.get("/t/acme/").status_code == 200
    assert there.get("/t/acme/").status_code == 302
    assert token_authenticate(token) is not None
    assert signed_in(acme).get("/t/acme/").status_code == 302
    assert signed_in(acme, NEW).get("/t/acme/").status_code == 200
    event = Event.objects.get(kind="tenants.user.password_set")
    assert (event.subject_id, event.facts) == (acme.owner.pk, {"tokens_ended": 0})


def test_it_ends_the_tokens_too_where_asked(acme: TenantWorld) -> None:
    tokens = [token_of(acme.owner, acme) for _ in range(2)]
    assert change(signed_in(acme), tokens="on") == 302
    assert [token_authenticate(token) for token in tokens] == [None, None]
    assert Event.objects.get(kind="tenants.user.password_set").facts == {"tokens_ended": 2}


def test_a_reset_by_mail_ends_every_session_and_works_once(acme: TenantWorld) -> None:
    there, token = signed_in(acme), token_of(acme.owner, acme)
    Browser().send("/password/reset/", {"email": acme.owner.email})
    link = re.search(r"/password/reset/\S+", str(mail.outbox[-1].body))
    assert link is not None
    browser = Browser()
    form = browser.get(link.group()).headers["Location"]
    given = {"new_password1": NEW, "new_password2": NEW, "tokens": "on"}
    assert browser.send(form, given).status_code == 302
    assert there.get("/t/acme/").status_code == 302
    assert token_authenticate(token) is None
    assert "The link is spent" in Browser().get(link.group()).content.decode()


@pytest.mark.parametrize("weak", ["short", "password1234", "owner@acme.test"])
def test_a_weak_password_is_refused(acme: TenantWorld, weak: str) -> None:
    browser = signed_in(acme)
    assert change(browser, new_password1=weak, new_password2=weak) == 200
    assert signed_in(acme).get("/t/acme/").status_code == 200
