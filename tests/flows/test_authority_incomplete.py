"""Is nothing admitted where authority is incomplete, each gap named, until it is filled?"""

from __future__ import annotations

import html
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from placement.models import Allocation, Claim, Pool
from placement.services.queue import cycle_sweep
from tenants.models import Sku, SlaTier
from tenants.services.tenancy import envelope_set
from tests.api.client import order_body
from tests.builders import CLASS, OPERATOR, TenantWorld, a_catalogue, a_host, a_tenant
from tests.flows.everywhere import Reader, an_owner, code_on, decided, standing

pytestmark = pytest.mark.django_db(transaction=True)
CODE = "authority_incomplete"
LEASES = "/projects/default/allocations"


@pytest.fixture
def acme(db: None) -> TenantWorld:
    """A tenant that came before its class was sold: nobody has given it an envelope."""
    SlaTier.objects.get_or_create(
        name="standard", defaults={"title": "Standard", "priority_band": 1, "preemptible": False}
    )
    bare = a_tenant("acme")
    a_catalogue()
    a_host()
    return bare


@pytest.fixture
def owner(acme: TenantWorld, live_server: LiveServer, tmp_path: Path) -> Reader:
    return an_owner(acme, live_server.url, tmp_path)


def given(acme: TenantWorld) -> None:
    """The envelope that was missing."""
    envelope_set(
        tenant_id=acme.tenant.pk,
        resource_class=CLASS,
        nominal_milli=4000,
        reason="agreed",
        actor=OPERATOR,
    )


def tier(**terms: str) -> Callable[[TenantWorld], None]:
    """An act that says something of the tenant's tier."""

    def act(acme: TenantWorld) -> None:
        SlaTier.objects.filter(name="standard").update(**terms)

    return act


GAPS: dict[str, tuple[Callable[[TenantWorld], None] | None, Callable[[TenantWorld], None], str]] = {
    "envelope": (None, given, "has no envelope for h100-slot"),
    "isolation": (tier(isolation=""), tier(isolation="vm"), "has no isolation level"),
    "preemption_policy": (tier(preemption=""), tier(preemption="never"), "has no preemption"),
}


@pytest.mark.parametrize("missing", sorted(GAPS))
def test_a_gap_is_named_everywhere_and_filling_it_admits_who_waits(
    acme: TenantWorld, owner: Reader, missing: str
) -> None:
    breaks, mends, words = GAPS[missing]
    if breaks is not None:
        given(acme)
        breaks(acme)
    refused = owner.rest.post(LEASES, order_body())
    problem = refused.json()
    assert (refused.status_code, problem["code"]) == (403, CODE)
    assert problem["facts"]["missing"] == [missing]
    assert words in problem["detail"]
    said = owner.line("allocation", "create", "--sku", "h100.slice")
    assert f"error: {CODE}: " in said
    assert words in said
    assert f"missing {missing}" in said
    page = html.unescape(owner.page(f"/t/acme/requests/{problem['facts']['request']}/"))
    assert CODE in code_on(page)
    assert words in page
    plan = html.unescape(owner.page("/t/acme/launch/?sku=h100.slice&slots=1"))
    assert words in plan
    assert (Claim.objects.count(), Allocation.objects.count()) == (0, 0)
    assert decided(code=CODE, outcome="denied") == 2
    assert owner.rest.post(LEASES, order_body(wait=True)).status_code == 202
    cycle_sweep()
    assert (standing(CODE), Claim.objects.count()) == (1, 0)
    assert decided(code=CODE, outcome="waiting_for_authority") >= 1
    mends(acme)
    cycle_sweep()
    assert (standing(CODE), Claim.objects.count()) == (0, 1)


def test_all_gaps_are_named_at_once(acme: TenantWorld, owner: Reader) -> None:
    tier(isolation="", preemption="")(acme)
    problem = owner.rest.post(LEASES, order_body()).json()
    assert problem["facts"]["missing"] == ["envelope", "isolation", "preemption_policy"]


def test_a_pool_that_nobody_made_admits_nothing(acme: TenantWorld, owner: Reader) -> None:
    given(acme)
    Sku.objects.filter(name="h100.slice").update(pool="spare")
    for wait in (False, True):
        problem = owner.rest.post(LEASES, order_body(wait=wait)).json()
        assert (problem["code"], problem["facts"]["missing"]) == (CODE, ["pool"])
    assert "There is no pool 'spare'." in owner.line("allocation", "create", "--sku", "h100.slice")
    assert not Pool.objects.filter(name="spare").exists()
    assert Claim.objects.count() == 0
