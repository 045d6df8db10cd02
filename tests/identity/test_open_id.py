"""Do people come in through a provider of OpenID Connect, and only the right ones?"""

from __future__ import annotations

import hashlib
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.test import Client
from pytest_django import Settings

from gpuaas.config import Config, ConfigError
from gpuaas.kernel.models import Event
from tenants.models import User
from tests.builders import TenantWorld, a_tenant
from tests.identity.conftest import configure, consent
from tests.identity.factors import code_of, enrol

pytestmark = pytest.mark.django_db
HOME = "/t/acme/"


@pytest.fixture
def acme() -> TenantWorld:
    """A tenant whose owner the provider knows."""
    return a_tenant("acme")


def test_a_person_with_a_verified_address_comes_in(acme: TenantWorld, provider: str) -> None:
    browser = Client()
    back = consent(browser, "ada", begin="/sign-in/with/openid/?next=/t/acme/team/")
    answer = browser.get(back)
    assert answer.headers["Location"] == "/t/acme/team/"
    assert browser.get(HOME).status_code == 200
    event = Event.objects.get(kind="tenants.user.open_id_link")
    assert (event.subject_id, event.facts["issuer"]) == (acme.owner.pk, provider)
    assert not SocialToken.objects.exists()


def test_the_second_time_the_account_is_found_by_its_subject(
    acme: TenantWorld, provider: str
) -> None:
    first = Client()
    first.get(consent(first, "ada"))
    User.objects.filter(pk=acme.owner.pk).update(email="renamed@acme.test")
    again = Client()
    again.get(consent(again, "ada"))
    assert again.get(HOME).status_code == 200
    assert SocialAccount.objects.count() == 1


def test_the_request_carries_a_state_a_nonce_and_a_challenge(
    acme: TenantWorld, provider: str
) -> None:
    away = urlsplit(Client().get("/sign-in/with/openid/").headers["Location"])
    asked = parse_qs(away.query)
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["code_challenge"][0]) == len(hashlib.sha256().digest()) * 4 // 3 + 1
    assert asked["state"][0]
    assert asked["nonce"][0]
    assert asked["redirect_uri"] == ["http://testserver/sign-in/with/openid/back/"]


@pytest.mark.parametrize(
    ("sub", "told"),
    [("bob", "no account has it"), ("eve", "did not say that the address has been verified")],
)
def test_a_stranger_is_told_that_there_is_no_account(
    acme: TenantWorld, provider: str, sub: str, told: str
) -> None:
    browser = Client()
    people = User.objects.count()
    answer = browser.get(consent(browser, sub))
    assert answer.status_code == 403
    assert told in answer.content.decode()
    assert browser.get(HOME).status_code == 302
    assert (User.objects.count(), SocialAccount.objects.count()) == (people, 0)


def test_a_closed_account_stays_closed(acme: TenantWorld, provider: str) -> None:
    User.objects.filter(pk=acme.owner.pk).update(is_active=False)
    browser = Client()
    answer = browser.get(consent(browser, "ada"))
    assert (answer.status_code, browser.get(HOME).status_code) == (403, 302)


def test_an_id_token_with_a_wrong_signature_lets_nobody_in(
    acme: TenantWorld, forging_provider: str, settings: Settings
) -> None:
    configure(settings, forging_provider)
    browser = Client()
    answer = browser.get(consent(browser, "ada"))
    assert answer.status_code == 400
    assert "You were not signed in" in answer.content.decode()
    assert browser.get(HOME).status_code == 302


def test_an_answer_is_good_in_the_browser_that_asked_and_once(
    acme: TenantWorld, provider: str
) -> None:
    asker, thief = Client(), Client()
    back = consent(asker, "ada")
    assert thief.get(back).status_code == 400
    assert asker.get(back).status_code == 302
    asker.logout()
    assert asker.get(back).status_code == 400
    assert asker.get(HOME).status_code == 302


def test_a_code_that_was_given_for_another_challenge_is_refused(
    acme: TenantWorld, provider: str
) -> None:
    victim, attacker = Client(), Client()
    stolen = parse_qs(urlsplit(consent(victim, "ada")).query)["code"][0]
    own = parse_qs(urlsplit(consent(attacker, "bob")).query)["state"][0]
    forged = urlencode({"code": stolen, "state": own})
    answer = attacker.get(f"/sign-in/with/openid/back/?{forged}")
    assert answer.status_code == 400
    assert attacker.get(HOME).status_code == 302


def test_a_nonce_of_another_sign_in_is_refused(acme: TenantWorld, provider: str) -> None:
    browser = Client()
    back = consent(browser, "ada")
    session = browser.session
    session["openid_nonce"] = "another"
    session.save()
    assert browser.get(back).status_code == 400


def test_going_back_at_the_provider_is_told_as_that(acme: TenantWorld, provider: str) -> None:
    browser = Client()
    state = parse_qs(urlsplit(browser.get("/sign-in/with/openid/").headers["Location"]).query)
    asked = urlencode({"error": "access_denied", "state": state["state"][0]})
    answer = browser.get(f"/sign-in/with/openid/back/?{asked}")
    assert "You went back before it was done." in answer.content.decode()


def test_signing_in_never_leads_to_another_site(acme: TenantWorld, provider: str) -> None:
    browser = Client()
    back = consent(browser, "ada", begin="/sign-in/with/openid/?next=https://evil.example/")
    assert browser.get(back).headers["Location"] == "/"


def test_an_operator_still_gives_the_second_factor(acme: TenantWorld, provider: str) -> None:
    operator = User.objects.create_user(
        "op@platform.test", None, is_staff=True, operator_role="administrator"
    )
    secret, _ = enrol(operator)
    browser = Client()
    browser.get(consent(browser, "op"))
    assert browser.get("/console/").status_code == 302
    browser.post("/second-factor/", {"code": code_of(secret)})
    assert browser.get("/console/").status_code == 200


def test_a_provider_that_is_down_is_told_and_the_password_still_works(
    acme: TenantWorld, settings: Settings
) -> None:
    configure(settings, "http://127.0.0.1:9")
    browser = Client()
    assert browser.get("/sign-in/with/openid/").status_code == 503
    browser.post("/sign-in/", {"username": acme.owner.email, "password": "correct horse battery"})
    assert browser.get(HOME).status_code == 200


def test_the_button_is_there_when_a_provider_is_configured(
    provider: str, settings: Settings
) -> None:
    assert "Sign in with Example ID" in Client().get("/sign-in/").content.decode()
    settings.SOCIALACCOUNT_PROVIDERS = {}
    assert "/sign-in/with/" not in Client().get("/sign-in/").content.decode()
    assert Client().get("/sign-in/with/openid/").status_code == 404
    assert Client().get("/sign-in/with/openid/back/?code=x&state=y").status_code == 404


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"GPUAAS_OIDC_ISSUER": "https://id.example"}, "go together"),
        ({"GPUAAS_OIDC_ISSUER": "http://id.example", "GPUAAS_OIDC_CLIENT_ID": "x"}, "https://"),
    ],
)
def test_a_half_configured_provider_stops_the_start(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Config.from_env(given)


def test_the_clients_secret_comes_from_a_file_and_stays_out_of_print(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    secret = tmp_path_factory.mktemp("oidc") / "secret"
    secret.write_text("s3cr3t\n", encoding="utf-8")
    found = Config.from_env(
        {
            "GPUAAS_OIDC_ISSUER": "https://id.example/",
            "GPUAAS_OIDC_CLIENT_ID": "gpuaas",
            "GPUAAS_OIDC_CLIENT_SECRET_FILE": str(secret),
        }
    ).open_id
    assert found is not None
    assert (found.issuer, found.client_secret) == ("https://id.example", "s3cr3t")
    assert "s3cr3t" not in repr(found)
