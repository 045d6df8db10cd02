"""Can people come in, get back in, and choose their colours, and can others not?"""

from __future__ import annotations

import re

import pytest
from django.core import mail

from tenants.models import Member, Tenant, User
from tests.portal.conftest import Browser, World

PASSWORD = "correct horse battery"


def test_a_person_signs_in_and_is_sent_where_they_wanted_to_go(world: World) -> None:
    browser = Browser()
    answer = browser.send(
        "/sign-in/",
        {"username": "OWNER@acme.test", "password": PASSWORD, "next": "/t/acme/team/"},
    )
    assert answer.headers["Location"] == "/t/acme/team/"
    assert browser.get("/").headers["Location"] == "/t/acme/"


@pytest.mark.parametrize("email", ["owner@acme.test", "nobody@acme.test"])
def test_a_wrong_password_and_an_unknown_address_get_the_same_answer(
    world: World, email: str
) -> None:
    answer = Browser().send("/sign-in/", {"username": email, "password": "wrong"})
    assert "No account has this address and password." in answer.content.decode()


def test_signing_in_never_leads_to_another_site(world: World) -> None:
    answer = Browser().send(
        "/sign-in/",
        {"username": "owner@acme.test", "password": PASSWORD, "next": "https://evil.example/"},
    )
    assert answer.headers["Location"] == "/"


def test_signing_out_takes_a_form_and_ends_the_session(world: World) -> None:
    browser = world.browser()
    assert browser.get("/sign-out/").status_code == 405
    assert browser.send("/sign-out/").status_code == 302
    assert browser.get("/t/acme/").status_code == 302


def test_an_operator_without_a_tenant_goes_to_the_console(world: World) -> None:
    operator = User.objects.create_user(
        "op@example.test", PASSWORD, is_staff=True, operator_role="administrator"
    )
    assert Browser.of(operator).get("/").headers["Location"] == "/console/"
    nobody = User.objects.create_user("new@example.test", PASSWORD)
    assert Browser.of(nobody).get("/").status_code == 403


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "short"}, "at least 12 characters"),
        ({"password": "password1234"}, "too common"),
        ({"email": "owner@acme.test"}, "has this address"),
        ({"email": "nonsense"}, "valid email"),
        ({"tenant_name": ""}, "required"),
    ],
)
def test_a_sign_up_that_cannot_be_is_told_beside_its_field(
    world: World, change: dict[str, str], said: str
) -> None:
    form = {
        "tenant_name": "Initech",
        "email": "boss@initech.test",
        "full_name": "",
        "password": "a long sentence helps",
    }
    answer = Browser().send("/sign-up/", {**form, **change})
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert not Tenant.objects.filter(name="Initech").exists()


def test_a_forgotten_password_is_reset_by_mail_once(world: World) -> None:
    browser = Browser()
    browser.send("/password/reset/", {"email": "owner@acme.test"})
    [letter] = mail.outbox
    assert letter.subject == "Set a new password"
    link = re.search(r"http://testserver(/password/reset/\S+)", str(letter.body))
    assert link is not None
    form = browser.get(link.group(1)).headers["Location"]
    new = "another long sentence"
    done = browser.send(form, {"new_password1": new, "new_password2": new})
    assert done.headers["Location"] == "/sign-in/"
    assert User.objects.get(email="owner@acme.test").check_password(new)
    assert "The link is spent" in Browser().get(link.group(1)).content.decode()


def test_asking_for_an_unknown_address_tells_nothing(world: World) -> None:
    known = Browser().send("/password/reset/", {"email": "owner@acme.test"}, follow=True)
    unknown = Browser().send("/password/reset/", {"email": "nobody@acme.test"}, follow=True)
    assert known.content == unknown.content
    assert len(mail.outbox) == 1


@pytest.mark.parametrize("theme", ["light", "dark", "auto"])
def test_the_choice_of_colours_is_remembered_and_leads_back(world: World, theme: str) -> None:
    browser = world.browser()
    answer = browser.send("/theme/", {"theme": theme, "next": "/t/acme/team/"})
    assert answer.headers["Location"] == "/t/acme/team/"
    assert f'data-theme="{theme}"' in browser.get("/t/acme/").content.decode()


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:x"])
def test_the_theme_form_does_not_lead_elsewhere(world: World, target: str) -> None:
    answer = world.browser().send("/theme/", {"theme": "dark", "next": target})
    assert answer.headers["Location"] == "/"


def test_somebody_who_left_the_tenant_sees_nothing_of_it(world: World) -> None:
    browser = world.browser("member")
    assert browser.get("/t/acme/").status_code == 200
    Member.objects.filter(user=world.people["member"]).delete()
    assert browser.get("/t/acme/").status_code == 404


def test_the_admin_sends_strangers_to_the_one_door_and_is_not_there_for_tenants(
    world: World,
) -> None:
    stranger = Browser()
    assert stranger.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    answer = stranger.get("/admin/login/?next=/admin/")
    assert answer.headers["Location"] == "/sign-in/?next=/admin/"
    assert world.browser().get("/admin/", follow=True).status_code == 404
