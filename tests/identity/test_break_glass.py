"""Is an operator's look into a tenant's view short, read-only, and seen by the tenant?"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gpuaas.kernel import clock, errors
from gpuaas.kernel.models import Event
from tenants.errors import BreakGlassOpen
from tenants.models import BreakGlass, User
from tenants.services import break_glass
from tenants.services.access import user_actor
from tests.builders import TenantWorld, a_member, a_tenant
from tests.identity.factors import pass_factor
from tests.portal.conftest import Browser

pytestmark = pytest.mark.django_db
WHY = "ticket 4711: the lease page is empty"


@pytest.fixture
def acme() -> TenantWorld:
    """The tenant that is looked at."""
    return a_tenant("acme")


@pytest.fixture
def operator() -> User:
    """The operator who looks."""
    return User.objects.create_user(
        "op@platform.test", "correct horse battery", is_staff=True, operator_role="administrator"
    )


def opened(acme: TenantWorld, operator: User, **more: object) -> BreakGlass:
    given = {"reason": WHY, "minutes": 30, **more}
    return break_glass.break_glass_open(
        tenant_id=acme.tenant.pk,
        user=operator,
        actor=replace(user_actor(user=operator, tenant_id=None), factor_at=clock.now()),
        **given,  # type: ignore[arg-type]  # free wishes
    )


def test_without_a_window_the_tenants_pages_are_not_there(
    acme: TenantWorld, operator: User
) -> None:
    assert Browser.of(operator).get("/t/acme/").status_code == 404


def test_with_one_the_operator_reads_and_every_request_is_the_tenants_event(
    acme: TenantWorld, operator: User
) -> None:
    window = opened(acme, operator)
    browser = Browser.of(operator)
    page = browser.get("/t/acme/", headers={"X-Request-ID": "look-1"})
    assert page.status_code == 200
    assert WHY in page.content.decode()
    browser.get("/t/acme/allocations/?state=active", headers={"X-Request-ID": "look-2"})
    looks = Event.objects.filter(kind="tenants.breakglass.look").order_by("id")
    assert [(e.correlation, e.facts["path"]) for e in looks] == [
        ("look-1", "/t/acme/"),
        ("look-2", "/t/acme/allocations/?state=active"),
    ]
    assert {(e.tenant_id, e.subject_id, e.reason) for e in looks} == {
        (acme.tenant.pk, window.pk, WHY)
    }
    assert {e.actor["name"] for e in looks} == {"op@platform.test"}


def test_nothing_is_changed_through_it(acme: TenantWorld, operator: User) -> None:
    opened(acme, operator)
    browser = Browser.of(operator)
    changes = Event.objects.exclude(kind="tenants.breakglass.look")
    before = changes.count()
    for path, data in (
        ("team/projects/", {"name": "mine"}),
        ("team/members/", {"email": operator.email, "role": "owner"}),
        ("tokens/", {"name": "mine", "expires_in_days": "7"}),
        ("launch/", {"sku": "h100.slice"}),
    ):
        answer = browser.send(f"/t/acme/{path}", data)
        assert answer.status_code == 403, path
        assert "break_glass_read_only" in answer.content.decode(), path
    assert changes.count() == before


def test_it_is_over_when_its_time_is(acme: TenantWorld, operator: User) -> None:
    window = opened(acme, operator)
    BreakGlass.objects.filter(pk=window.pk).update(
        created_at=clock.now() - timedelta(hours=1), until=clock.now() - timedelta(seconds=1)
    )
    assert Browser.of(operator).get("/t/acme/").status_code == 404
    assert opened(acme, operator).pk != window.pk


def test_it_is_over_when_it_is_ended_or_the_operator_is_none_any_more(
    acme: TenantWorld, operator: User
) -> None:
    window = opened(acme, operator)
    browser = Browser.of(operator)
    for _ in range(2):
        break_glass.break_glass_end(
            window_id=window.pk, actor=user_actor(user=operator, tenant_id=None)
        )
    assert browser.get("/t/acme/").status_code == 404
    assert Event.objects.filter(kind="tenants.breakglass.end").count() == 1
    opened(acme, operator)
    User.objects.filter(pk=operator.pk).update(is_staff=False)
    assert browser.get("/t/acme/").status_code == 404


def test_it_opens_one_tenant_for_one_operator(acme: TenantWorld, operator: User) -> None:
    a_tenant("globex")
    other = User.objects.create_user(
        "two@platform.test", "x" * 12, is_staff=True, operator_role="administrator"
    )
    opened(acme, operator)
    assert Browser.of(operator).get("/t/globex/").status_code == 404
    assert Browser.of(other).get("/t/acme/").status_code == 404
    with pytest.raises(BreakGlassOpen):
        opened(acme, operator)
    assert opened(acme, other).operator_id == other.pk


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"reason": "  "}, "/reason"),
        ({"reason": "because"}, "/reason"),
        ({"minutes": 0}, "/minutes"),
        ({"minutes": 61}, "/minutes"),
        ({"minutes": -5}, "/minutes"),
    ],
)
def test_a_window_needs_a_reason_and_an_end(
    acme: TenantWorld, operator: User, given: dict[str, object], field: str
) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        opened(acme, operator, **given)
    assert refused.value.errors[0].pointer == field
    assert not BreakGlass.objects.exists()


def test_only_operators_open_one(acme: TenantWorld) -> None:
    with pytest.raises(errors.PermissionDenied):
        opened(acme, a_member(acme, "admin"))


def test_the_tenant_sees_who_looked_on_its_access_page(acme: TenantWorld, operator: User) -> None:
    opened(acme, operator)
    Browser.of(operator).get("/t/acme/")
    page = Browser.of(acme.owner).get("/t/acme/access/").content.decode()
    assert "op@platform.test" in page
    assert WHY in page


def test_the_console_opens_and_ends_one_with_a_fresh_factor(
    acme: TenantWorld, operator: User
) -> None:
    browser = Browser.of(operator)
    address = "/console/tenants/acme/break-glass/"
    opened_there = browser.send(address, {"reason": WHY, "minutes": "15"})
    assert opened_there.headers["Location"] == "/t/acme/"
    window = BreakGlass.objects.get()
    browser.send(f"/console/break-glass/{window.pk}/end/")
    assert browser.get("/t/acme/").status_code == 404


def test_a_factor_given_long_ago_does_not_open_one(acme: TenantWorld, operator: User) -> None:
    browser = Browser.of(operator)
    pass_factor(browser, operator, age_s=3600)
    answer = browser.send("/console/tenants/acme/break-glass/", {"reason": WHY, "minutes": "15"})
    assert answer.headers["Location"] == "/second-factor/?next=%2Fconsole%2Ftenants%2Facme%2F"
    assert not BreakGlass.objects.exists()


def test_who_may_not_look_in_is_told_so_on_a_page(acme: TenantWorld) -> None:
    reader = User.objects.create_user(
        "reads@platform.test", None, is_staff=True, operator_role="viewer"
    )
    browser = Browser.of(reader)
    for answer in (
        browser.get("/console/tenants/acme/break-glass/"),
        browser.send("/console/tenants/acme/break-glass/", {"reason": WHY, "minutes": "5"}),
    ):
        assert answer.status_code == 403
        assert "permission_denied" in answer.content.decode()
    assert not BreakGlass.objects.exists()
