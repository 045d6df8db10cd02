"""Does reuse without proof take two people, told by their accounts and not by their names?"""

from __future__ import annotations

import html
from dataclasses import replace

import pytest

from gpuaas.kernel import clock
from gpuaas.kernel.actor import SYSTEM, Actor
from gpuaas.kernel.errors import NotFound
from gpuaas.kernel.models import Event
from placement.errors import NotTheAsker, SecondPersonNeeded
from placement.models import Allocation, CleanupOverride
from placement.services import overrides
from placement.services.allocations import allocation_release
from tenants.errors import PersonNeeded, SecondFactorNeeded
from tenants.models import ApiToken, User
from tenants.services.access import token_authenticate, user_actor
from tenants.services.operators import operator_role_set
from tests.api.client import Caller, token_of
from tests.builders import a_catalogue, a_host, a_tenant
from tests.identity.factors import enrol, pass_factor
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db
WHY = "the host is scrapped"


@pytest.fixture
def blocked() -> Allocation:
    """An allocation whose cleanup was not proven."""
    a_catalogue()
    acme, host = a_tenant("acme"), a_host()
    row = acme.order(slots=1, name="infer-1").allocation
    assert row is not None
    host.work()
    allocation_release(allocation_id=row.pk, reason="done", actor=acme.actor)
    host.work(skip=("gpu_scrubbed",))
    row.refresh_from_db()
    assert row.state == "cleanup_blocked"
    return row


def an_operator(name: str) -> User:
    return User.objects.create_user(
        f"{name}@platform.test", "x" * 12, is_staff=True, operator_role="administrator"
    )


def as_person(user: User) -> Actor:
    return replace(user_actor(user=user, tenant_id=None), factor_at=clock.now())


def by_token(user: User) -> Actor:
    found = token_authenticate(token_of(user))
    assert found is not None
    return found


def ask(row: Allocation, actor: Actor) -> None:
    overrides.override_request(allocation_id=row.pk, reason=WHY, actor=actor)


def approve(row: Allocation, actor: Actor) -> None:
    overrides.override_approve(allocation_id=row.pk, reason="seen it", actor=actor)


def test_a_persons_tokens_are_that_person(blocked: Allocation) -> None:
    one, _ = an_operator("one"), an_operator("two")
    ask(blocked, by_token(one))
    for same in (as_person(one), by_token(one)):
        with pytest.raises(SecondPersonNeeded):
            approve(blocked, same)
    blocked.refresh_from_db()
    assert blocked.state == "cleanup_blocked"


def test_another_name_makes_no_second_person(blocked: Allocation) -> None:
    one, _ = an_operator("one"), an_operator("two")
    ask(blocked, as_person(one))
    User.objects.filter(pk=one.pk).update(email="renamed@platform.test")
    with pytest.raises(SecondPersonNeeded):
        approve(blocked, as_person(User.objects.get(pk=one.pk)))


def test_the_name_of_another_makes_no_same_person(blocked: Allocation) -> None:
    one, two = an_operator("one"), an_operator("two")
    ask(blocked, as_person(one))
    approve(blocked, replace(as_person(two), name=one.email))
    override = CleanupOverride.objects.get()
    assert override.approved_by is not None
    assert (override.asked_by["person"], override.approved_by["person"]) == (
        str(one.pk),
        str(two.pk),
    )
    assert override.approved_by["alone"] is False


def test_no_program_is_a_person(blocked: Allocation) -> None:
    with pytest.raises(PersonNeeded):
        ask(blocked, SYSTEM)
    ask(blocked, as_person(an_operator("one")))
    token = by_token(an_operator("two"))
    ApiToken.objects.filter(pk=token.id).delete()
    for program in (SYSTEM, token):
        with pytest.raises(PersonNeeded):
            approve(blocked, program)


def test_a_single_operator_may_do_both_and_is_told_and_marked(blocked: Allocation) -> None:
    only = an_operator("only")
    browser = Browser.of(only)
    address = f"/console/allocations/{blocked.pk}/"
    page = html.unescape(browser.get(address).content.decode())
    assert "You are the platform's only operator" in page
    browser.send(f"{address}request-override/", {"reason": WHY})
    browser.send(f"{address}approve-override/", {"reason": "nobody else is there"})
    override = CleanupOverride.objects.get()
    assert override.approved_by is not None
    assert override.approved_by["alone"] is True
    event = Event.objects.get(kind="placement.allocation.override_approve")
    assert event.facts["alone"] is True
    page = html.unescape(browser.get(address).content.decode())
    assert "(the platform's only operator)" in page


def test_nobody_comes_to_be_alone_by_taking_the_other_operators_roles(
    blocked: Allocation,
) -> None:
    ada, grace = as_person(an_operator("ada")), an_operator("grace")
    ask(blocked, ada)
    operator_role_set(user_id=grace.pk, role="viewer", reason="tidying up", actor=ada)
    with pytest.raises(SecondPersonNeeded):
        approve(blocked, ada)


def test_the_exception_ends_with_the_second_operator(blocked: Allocation) -> None:
    only = an_operator("only")
    ask(blocked, as_person(only))
    an_operator("colleague")
    page = Browser.of(only).get(f"/console/allocations/{blocked.pk}/").content.decode()
    assert "Another operator than the one who asked has to approve it." in page
    with pytest.raises(SecondPersonNeeded):
        approve(blocked, as_person(only))


def test_a_factor_given_long_ago_approves_nothing_anywhere(blocked: Allocation) -> None:
    one, two = an_operator("one"), an_operator("two")
    ask(blocked, as_person(one))
    enrol(two)
    browser = Browser.of(two)
    pass_factor(browser, two, age_s=3600)
    address = f"/console/allocations/{blocked.pk}/"
    asked = browser.send(f"{address}approve-override/", {"reason": "ok"})
    assert asked.headers["Location"].startswith("/second-factor/?next=%2Fconsole%2Fallocations")
    admin = browser.send(
        f"/admin/placement/allocation/{blocked.pk}/approve-override/", {"reason": "ok"}
    )
    assert "second_factor_needed" in admin.content.decode()
    with pytest.raises(SecondFactorNeeded):
        approve(blocked, by_token(two))
    blocked.refresh_from_db()
    assert blocked.state == "cleanup_blocked"
    pass_factor(browser, two)
    browser.send(f"{address}approve-override/", {"reason": "ok"})
    blocked.refresh_from_db()
    assert blocked.state == "released"


def test_another_person_refuses_and_the_asker_may_ask_anew(blocked: Allocation) -> None:
    one, two = an_operator("one"), an_operator("two")
    ask(blocked, as_person(one))
    with pytest.raises(SecondPersonNeeded):
        overrides.override_refuse(allocation_id=blocked.pk, reason="no", actor=as_person(one))
    overrides.override_refuse(
        allocation_id=blocked.pk, reason="wipe it instead", actor=as_person(two)
    )
    event = Event.objects.get(kind="placement.allocation.override_refuse")
    assert (event.reason, event.actor["name"]) == ("wipe it instead", two.email)
    assert (event.facts["asked_by"]["name"], event.facts["asked_because"]) == (one.email, WHY)
    assert CleanupOverride.objects.count() == 0
    with pytest.raises(NotFound):
        approve(blocked, as_person(two))
    ask(blocked, as_person(one))
    approve(blocked, as_person(two))
    blocked.refresh_from_db()
    assert blocked.state == "released"


def test_the_asker_withdraws_and_nobody_else(blocked: Allocation) -> None:
    one, two = an_operator("one"), an_operator("two")
    ask(blocked, as_person(one))
    with pytest.raises(NotTheAsker):
        overrides.override_withdraw(allocation_id=blocked.pk, reason="no", actor=as_person(two))
    overrides.override_withdraw(allocation_id=blocked.pk, reason="found it", actor=by_token(one))
    assert CleanupOverride.objects.count() == 0
    assert Event.objects.get(kind="placement.allocation.override_withdraw").reason == "found it"
    blocked.refresh_from_db()
    assert blocked.state == "cleanup_blocked"


@pytest.mark.parametrize("action", ["refuse", "withdraw"])
def test_both_answers_are_given_over_rest_for_an_allocation_and_for_a_slot(
    blocked: Allocation, action: str
) -> None:
    one, two = an_operator("one"), an_operator("two")
    asker = Caller(token_of(one))
    caller = asker if action == "withdraw" else Caller(token_of(two))
    slot = blocked.claims.get().slot_id
    for path in (f"/allocations/{blocked.pk}", f"/slots/{slot}"):
        assert asker.post(f"{path}/actions/override", {"reason": WHY}).status_code == 202
        wrong = Caller(token_of(two if action == "withdraw" else one))
        refused = wrong.post(f"{path}/actions/{action}-override", {"reason": "no"}).json()["code"]
        assert refused == {"withdraw": "not_the_asker", "refuse": "second_person_needed"}[action]
        done = caller.post(f"{path}/actions/{action}-override", {"reason": "no"})
        assert (done.status_code, done.json()["items"]) == (200, [])
        again = caller.post(f"{path}/actions/{action}-override", {"reason": "no"})
        assert again.status_code == 404


def test_the_inbox_lets_another_refuse_and_the_asker_withdraw(blocked: Allocation) -> None:
    one, two = an_operator("one"), an_operator("two")
    ask(blocked, as_person(one))
    mine = Browser.of(one).get("/console/approvals/").content.decode()
    assert "Withdraw it" in mine
    assert "Refuse the override" not in mine
    theirs = Browser.of(two)
    assert "Refuse the override" in theirs.get("/console/approvals/").content.decode()
    sent = theirs.send(
        f"/console/approvals/refuse-override:{blocked.pk}/", {"reason": "wipe it instead"}
    )
    assert sent.status_code == 302
    assert CleanupOverride.objects.count() == 0
    page = Browser.of(one).get(f"/console/allocations/{blocked.pk}/").content.decode()
    assert "wipe it instead" in page
