"""Is an operator's sign-in two steps, and is the second one hard to guess and quick to age?"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings

from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import Event
from tenants.errors import (
    SecondFactorExists,
    SecondFactorLocked,
    SecondFactorNeeded,
    SecondFactorWrong,
)
from tenants.models import User
from tenants.services import second_factor
from tests.builders import a_tenant
from tests.identity.factors import code_of, enrol, pass_factor
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
EMAIL = "op@platform.test"


@pytest.fixture
def operator() -> User:
    """An operator without a second factor yet."""
    return User.objects.create_user(EMAIL, PASSWORD, is_staff=True, operator_role="administrator")


def sign_in(browser: Browser, email: str = EMAIL, wanted: str = "/console/") -> str:
    """Give the password; where it leads."""
    answer = browser.send("/sign-in/", {"username": email, "password": PASSWORD, "next": wanted})
    return answer.headers["Location"]


def actor_of(user: User) -> Actor:
    return Actor(kind="user", id=str(user.pk), name=user.email)


def codes_on(page: str) -> list[str]:
    """The recovery codes that a page shows."""
    return re.findall(r"\d{8}", page.partition("<pre")[2].partition("</pre>")[0])


def give(user: User, code: str) -> None:
    second_factor.factor_verify(user=user, code=code, actor=actor_of(user))


def test_an_operator_sets_one_up_before_anything_else(operator: User) -> None:
    browser = Browser()
    assert sign_in(browser) == "/second-factor/?next=%2Fconsole%2F"
    for address in ("/console/", "/admin/", "/security/", "/t/acme/"):
        assert browser.get(address).status_code == 302, address
    assert browser.get("/api/v1/me").status_code == 401
    assert browser.get("/second-factor/").headers["Location"] == "/second-factor/set-up/"
    page = browser.get("/second-factor/set-up/?next=/console/").content.decode()
    assert "Operators work with a second factor." in page
    assert "data:image/svg+xml;base64," in page
    secret = browser.session["second_factor_secret"]
    wrong = browser.send("/second-factor/set-up/", {"code": "000000", "next": "/console/"})
    assert wrong.status_code == 400
    done = browser.send("/second-factor/set-up/", {"code": code_of(secret), "next": "/console/"})
    codes = codes_on(done.content.decode())
    assert len(codes) == 10
    assert browser.get("/console/").status_code == 200
    assert Event.objects.filter(kind="tenants.user.second_factor_add").count() == 1
    assert secret not in str(Authenticator.objects.values_list("data", flat=True))


def test_the_next_sign_in_asks_for_a_code_and_rotates_the_session(operator: User) -> None:
    secret, _ = enrol(operator)
    browser = Browser()
    assert sign_in(browser) == "/second-factor/?next=%2Fconsole%2F"
    halfway = browser.session.session_key
    assert browser.get("/console/").status_code == 302
    assert browser.send("/second-factor/", {"code": "123456"}).status_code == 400
    assert browser.get("/console/").status_code == 302
    answer = browser.send("/second-factor/", {"code": code_of(secret), "next": "/console/nodes/"})
    assert answer.headers["Location"] == "/console/nodes/"
    assert browser.get("/console/nodes/").status_code == 200
    assert browser.session.session_key != halfway
    assert not Client().session.exists(str(halfway))


def test_another_browser_with_the_password_only_stays_outside(operator: User) -> None:
    enrol(operator)
    Browser.of(operator)
    other = Browser()
    sign_in(other)
    assert other.get("/admin/").status_code == 302
    assert other.get("/api/v1/nodes").status_code == 401


def test_a_person_of_a_tenant_may_have_one_and_then_needs_it() -> None:
    acme = a_tenant("acme")
    browser = Browser()
    assert sign_in(browser, acme.owner.email, "/t/acme/") == "/t/acme/"
    secret, _ = enrol(acme.owner)
    again = Browser()
    assert sign_in(again, acme.owner.email, "/t/acme/").startswith("/second-factor/")
    assert again.get("/t/acme/").status_code == 302
    assert browser.get("/t/acme/").status_code == 302, "the session from before counts no more"
    again.send("/second-factor/", {"code": code_of(secret)})
    assert again.get("/t/acme/").status_code == 200


def test_the_demo_lets_operators_in_without_one_and_says_so(
    operator: User, settings: Settings
) -> None:
    settings.OPERATOR_FACTOR_GRACE = True
    browser = Browser()
    assert sign_in(browser) == "/console/"
    page = browser.get("/console/")
    assert page.status_code == 200
    assert "This is a demo: operators may work without a second factor" in page.content.decode()
    assert "This is a demo" in browser.get("/security/").content.decode()


def test_in_the_demo_too_a_factor_that_is_set_up_is_asked_for(
    operator: User, settings: Settings
) -> None:
    settings.OPERATOR_FACTOR_GRACE = True
    enrol(operator)
    assert sign_in(Browser()).startswith("/second-factor/")


def test_a_code_is_taken_once_in_every_process(operator: User) -> None:
    secret, _ = enrol(operator)
    code = code_of(secret)
    give(operator, code)
    cache.clear()  # as in another process, whose memory does not know the code
    with pytest.raises(SecondFactorWrong):
        give(operator, code)


def test_a_recovery_code_works_once_and_is_recorded(operator: User) -> None:
    _, codes = enrol(operator)
    give(operator, f"{codes[3][:4]}-{codes[3][4:]}")
    with pytest.raises(SecondFactorWrong):
        give(operator, codes[3])
    assert second_factor.recovery_left(operator.pk) == 9
    assert Event.objects.filter(kind="tenants.user.recovery_code_use").count() == 1


def test_guessing_is_over_after_five_tries_even_for_the_right_code(operator: User) -> None:
    secret, codes = enrol(operator)
    for _ in range(second_factor.TRIES):
        with pytest.raises(SecondFactorWrong):
            give(operator, "000000")
    with pytest.raises(SecondFactorLocked):
        give(operator, code_of(secret))
    with pytest.raises(SecondFactorLocked):
        give(operator, codes[0])
    assert Event.objects.filter(kind="tenants.user.second_factor_lock").count() == 1
    row = Authenticator.objects.get(user=operator, type="totp")
    row.data["failed_at"] = (clock.now() - second_factor.LOCK - timedelta(minutes=1)).isoformat()
    row.save()
    give(operator, code_of(secret))


def test_a_right_password_does_not_reset_the_tries(operator: User) -> None:
    enrol(operator)
    browser = Browser()
    for _ in range(second_factor.TRIES):
        sign_in(browser)
        browser.send("/second-factor/", {"code": "000000"})
    told = browser.send("/second-factor/", {"code": "000000"}).content.decode()
    assert "second_factor_locked" in told


@pytest.mark.parametrize(
    "code", ["", " ", "12345", "1234567", "abcdef", "١٢٣٤٥٦", "1" * 500, "\x00", "-1", "1e5"]
)
def test_what_is_no_code_is_wrong_and_breaks_nothing(operator: User, code: str) -> None:
    enrol(operator)
    with pytest.raises(SecondFactorWrong):
        give(operator, code)


def test_codes_of_other_times_are_not_taken(operator: User) -> None:
    secret, _ = enrol(operator)
    for steps in (-10, -3, 3, 10):
        with pytest.raises(SecondFactorWrong):
            give(operator, code_of(secret, steps=steps))


def test_there_is_one_factor_and_without_one_nothing_to_give(operator: User) -> None:
    with pytest.raises(SecondFactorNeeded):
        give(operator, "123456")
    enrol(operator)
    with pytest.raises(SecondFactorExists):
        enrol(operator)


def test_a_session_that_is_open_sets_one_up_with_the_password_only() -> None:
    acme = a_tenant("acme")
    browser = Browser.of(acme.owner)
    browser.get("/second-factor/set-up/")
    secret = browser.session["second_factor_secret"]
    for password, status in (("", 400), ("wrong", 400), (PASSWORD, 200)):
        answer = browser.send(
            "/second-factor/set-up/", {"code": code_of(secret), "password": password}
        )
        assert answer.status_code == status
    assert second_factor.factor_of(acme.owner.pk) is not None


def test_new_recovery_codes_need_a_fresh_code_and_end_the_old(operator: User) -> None:
    _, old = enrol(operator)
    browser = Browser.of(operator)
    pass_factor(browser, operator, age_s=3600)
    stale = browser.send("/security/codes/")
    assert stale.headers["Location"] == "/second-factor/?next=%2Fsecurity%2F"
    pass_factor(browser, operator)
    fresh = codes_on(browser.send("/security/codes/").content.decode())
    assert len(fresh) == 10
    with pytest.raises(SecondFactorWrong):
        give(operator, old[0])
    give(operator, fresh[0])


def test_an_operator_who_removes_it_sets_up_another_at_once(operator: User) -> None:
    browser = Browser.of(operator)
    browser.send("/security/remove/")
    assert second_factor.factor_of(operator.pk) is None
    assert browser.get("/console/").status_code == 302
    assert browser.get("/second-factor/").headers["Location"] == "/second-factor/set-up/"


def test_a_lost_factor_is_reset_on_the_machine_and_recorded(operator: User) -> None:
    enrol(operator)
    call_command("second_factor_reset", "OP@platform.test", "--reason", "phone lost")
    assert second_factor.factor_of(operator.pk) is None
    event = Event.objects.get(kind="tenants.user.second_factor_remove")
    assert (event.reason, event.actor["kind"]) == ("phone lost", "system")
    with pytest.raises(CommandError, match="no account"):
        call_command("second_factor_reset", "nobody@platform.test", "--reason", "x")


def test_nobody_else_opens_the_pages_of_the_second_factor() -> None:
    for address in ("/second-factor/", "/second-factor/set-up/", "/security/"):
        answer = Client().get(address)
        assert answer.headers["Location"].startswith("/sign-in/?next="), address
