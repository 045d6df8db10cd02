"""Do operators see whom a set keeps apart, and who shares hosts still, before and after it is?"""

from __future__ import annotations

import pytest

from placement.models import Separation
from tenants.models import User
from tests.builders import a_tenant
from tests.console.conftest import Fleet
from tests.console.test_placing import seen_in
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db(transaction=True)

SETS = "/console/separations/"
RIVALS = f"{SETS}rivals/"
GIVEN = {"name": "rivals", "tenants": "acme, globex", "reason": "competitors"}


def kept(browser: Browser, path: str, given: dict[str, str]) -> None:
    """Sent, looked at, and sent again as it was seen."""
    look = browser.send(path, given)
    assert look.status_code == 200
    assert browser.send(path, {**given, "seen": seen_in(look.content.decode())}).status_code == 302


def test_a_set_is_made_only_as_it_was_looked_at(fleet: Fleet) -> None:
    browser = fleet.browser()
    html = browser.get(SETS).content.decode()
    assert "Nobody is kept apart" in html
    assert "gpuaas separation set rivals" in html
    a_tenant("globex").order(slots=1)
    look = browser.send(SETS, GIVEN).content.decode()
    assert "Become members: acme, globex." in look
    assert "1 host has several of them now" in look
    assert not Separation.objects.exists()
    stale = browser.send(SETS, {**GIVEN, "seen": "0" * 64}).content.decode()
    assert "What it touches has changed" in stale
    assert not Separation.objects.exists()
    done = browser.send(SETS, {**GIVEN, "seen": seen_in(look)})
    assert (done.status_code, done["Location"]) == (302, RIVALS)
    html = browser.get(SETS).content.decode()
    assert "acme, globex" in html
    assert "1 host" in html
    page = browser.get(RIVALS).content.decode()
    assert "Hosts that they share now" in page
    assert "/console/nodes/host-1/" in page
    assert "competitors" in page


def test_other_members_are_looked_at_and_both_versions_are_on_the_page(fleet: Fleet) -> None:
    browser = fleet.browser()
    a_tenant("globex")
    kept(browser, SETS, GIVEN)
    same = browser.send(RIVALS, {"tenants": "globex, acme", "reason": "again"})
    assert same.status_code == 400
    assert "These are its members already" in same.content.decode()
    other = {"tenants": "initech, acme", "reason": "globex was sold"}
    look = browser.send(RIVALS, other).content.decode()
    assert "Become members: initech." in look
    assert "Are members no more: globex." in look
    kept(browser, RIVALS, other)
    assert Separation.objects.get().version == 2
    page = browser.get(RIVALS).content.decode()
    assert "None: each host has one of them at most." in page
    assert "globex was sold" in page
    assert "competitors" in page


def test_a_set_is_removed_with_a_reason(fleet: Fleet) -> None:
    browser = fleet.browser()
    a_tenant("globex")
    kept(browser, SETS, GIVEN)
    refused = browser.send(f"{RIVALS}remove/", {"reason": " "})
    assert refused.status_code == 400
    assert 'id="remove-reason_error"' in refused.content.decode()
    assert browser.send(f"{RIVALS}remove/", {"reason": "merged"}).status_code == 302
    assert not Separation.objects.exists()
    assert browser.get(RIVALS).status_code == 404
    assert browser.send(f"{RIVALS}remove/", {"reason": "merged"}).status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Rivals!"),
        ("name", "x" * 61),
        ("name", "a\0b"),
        ("tenants", "acme"),
        ("tenants", "acme, nobody"),
        ("tenants", ""),
        ("reason", ""),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_kept(fleet: Fleet, field: str, value: str) -> None:
    a_tenant("globex")
    answer = fleet.browser().send(SETS, {**GIVEN, field: value})
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert not Separation.objects.exists()


def test_a_name_is_refused_beside_a_tenant_that_there_is_not(fleet: Fleet) -> None:
    answer = fleet.browser().send(SETS, {**GIVEN, "name": "\u0410cme"})
    assert answer.status_code == 400
    assert 'id="id_name_error"' in answer.content.decode()


def test_who_only_looks_sees_the_sets_and_no_forms(fleet: Fleet) -> None:
    a_tenant("globex")
    kept(fleet.browser(), SETS, GIVEN)
    looker = User.objects.create_user(
        "looker@platform.test", "correct horse battery", is_staff=True, operator_role="viewer"
    )
    browser = Browser.of(looker)
    for path in (SETS, RIVALS):
        html = browser.get(path).content.decode()
        assert "acme" in html
        assert 'name="tenants"' not in html
        assert 'name="reason"' not in html
    assert browser.send(SETS, GIVEN).status_code == 403
    assert browser.send(f"{RIVALS}remove/", {"reason": "x"}).status_code == 403
