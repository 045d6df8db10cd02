"""Do operators have roles, and does each surface hold them to what the role carries?"""

from __future__ import annotations

import importlib
from uuid import UUID

import pytest
from django.apps import apps

from gpuaas.kernel.models import Event
from placement.models import Allocation, CleanupOverride
from placement.services import overrides
from tenants.models import User
from tenants.services import break_glass
from tests.api.client import Caller, an_operator, operator_caller, token_of
from tests.builders import OPERATOR, a_tenant
from tests.identity.test_two_people import as_person, ask, blocked  # noqa: F401  # a fixture
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db
WHY = {"reason": "a test"}


def of(role: str) -> User:
    return an_operator(f"{role}@platform.test", role)


def test_who_looks_reads_everything_and_changes_nothing() -> None:
    a_tenant("acme")
    viewer = operator_caller(role="viewer")
    assert viewer.get("/tenants/acme").status_code == 200
    refused = viewer.post("/tenants/acme/actions/suspend", WHY)
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    assert (
        "Your role viewer among the operators does not carry tenants:write"
        in refused.json()["detail"]
    )
    assert viewer.get("/me").json()["operator_role"] == "viewer"


def test_a_page_says_that_the_role_only_reads_and_refuses_what_is_sent() -> None:
    a_tenant("acme")
    browser = Browser.of(of("viewer"))
    assert (
        "does not carry <code>tenants:write</code>"
        in browser.get("/console/tenants/acme/").content.decode()
    )
    assert browser.send("/console/tenants/acme/suspend/", WHY).status_code == 403


def test_the_admin_offers_and_does_only_what_the_role_carries(blocked: Allocation) -> None:  # noqa: F811
    ask(blocked, as_person(of("administrator")))
    address = f"/admin/placement/allocation/{blocked.pk}/"
    hands = Browser.of(of("operator"))
    page = hands.get(f"{address}change/").content.decode()
    assert "retry-cleanup" in page
    assert "approve-override" not in page
    assert hands.send(f"{address}approve-override/", WHY).status_code == 403
    authority = Browser.of(of("approver"))
    assert "approve-override" in authority.get(f"{address}change/").content.decode()
    authority.send(f"{address}approve-override/", WHY)
    blocked.refresh_from_db()
    assert blocked.state == "released"


def test_an_operator_without_a_role_may_not_even_look() -> None:
    nobody = User.objects.create_user("nobody@platform.test", None, is_staff=True)
    assert Browser.of(nobody).get("/console/").status_code == 403
    assert Caller(token_of(nobody)).get("/tenants").status_code == 403


def test_one_administrator_makes_another_and_it_is_recorded() -> None:
    boss, hands = of("administrator"), of("operator")
    caller = Caller(token_of(boss))
    path = f"/operators/{hands.pk}/role"
    shown = caller.call("PUT", path, {"role": "approver", "reason": "grew into it"})
    assert (shown.status_code, shown.json()["role"]) == (200, "approver")
    assert "overrides:write" in shown.json()["may"]
    event = Event.objects.get(kind="tenants.operator.role_set")
    assert (event.before, event.after, event.reason) == (
        {"role": "operator"},
        {"role": "approver"},
        "grew into it",
    )
    assert [one["email"] for one in caller.get("/operators").json()["items"]] == [
        boss.email,
        hands.email,
    ]


def test_only_an_administrator_changes_roles() -> None:
    boss = of("administrator")
    for role in ("viewer", "operator", "approver"):
        refused = Caller(token_of(of(role))).call(
            "PUT", f"/operators/{boss.pk}/role", {"role": "viewer", "reason": "mine now"}
        )
        assert refused.status_code == 403
    boss.refresh_from_db()
    assert boss.operator_role == "administrator"


def test_the_only_administrator_stays_one_on_every_surface() -> None:
    boss = of("administrator")
    of("approver")
    refused = Caller(token_of(boss)).call(
        "PUT", f"/operators/{boss.pk}/role", {"role": "viewer", "reason": "tired"}
    )
    assert (refused.status_code, refused.json()["code"]) == (409, "last_administrator")
    page = Browser.of(boss).send(
        f"/console/operators/{boss.pk}/role/", {"role": "viewer", "reason": "tired"}
    )
    assert page.status_code == 400
    assert "last_administrator" in page.content.decode()
    boss.refresh_from_db()
    assert boss.operator_role == "administrator"


def test_the_page_of_operators_sets_a_role() -> None:
    boss, hands = of("administrator"), of("operator")
    browser = Browser.of(boss)
    assert "overrides:write" in browser.get("/console/operators/").content.decode()
    sent = {"role": "viewer", "reason": "on leave"}
    assert browser.send(f"/console/operators/{hands.pk}/role/", sent).status_code == 302
    hands.refresh_from_db()
    assert hands.operator_role == "viewer"
    assert "Set the role" not in Browser.of(hands).get("/console/operators/").content.decode()


def test_a_window_closes_with_the_role_that_opened_it() -> None:
    acme = a_tenant("acme")
    person = of("approver")
    break_glass.break_glass_open(
        tenant_id=acme.tenant.pk, user=person, reason="a ticket asks", minutes=5, actor=OPERATOR
    )
    assert break_glass.window_of(person.pk, acme.tenant.pk) is not None
    User.objects.filter(pk=person.pk).update(operator_role="operator")
    assert break_glass.window_of(person.pk, acme.tenant.pk) is None


def test_those_who_only_look_make_no_second_person(blocked: Allocation) -> None:  # noqa: F811
    only = of("administrator")
    of("viewer")
    assert overrides.single_operator()
    of("operator")
    assert not overrides.single_operator()
    ask(blocked, as_person(only))
    assert CleanupOverride.objects.count() == 1


def test_operators_from_before_keep_every_right() -> None:
    old = User.objects.create_user("old@platform.test", None, is_staff=True)
    tenants_own = User.objects.create_user("customer@acme.test", None)
    migration = importlib.import_module("tenants.migrations.0010_operator_roles")
    migration.keep_all_rights(apps, None)
    roles = dict(User.objects.values_list("pk", "operator_role"))
    expected: dict[UUID, str] = {old.pk: "administrator", tenants_own.pk: ""}
    assert roles == expected
