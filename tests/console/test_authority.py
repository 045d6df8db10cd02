"""Do operators decide about quota, tiers and rules on pages that say what will happen?"""

from __future__ import annotations

import pytest

from admission.models import PolicyRule
from tenants.models import Envelope, EnvelopeVersion, ResourceClass, Tenant
from tenants.services.increases import increase_ask
from tenants.services.tiers import tier_create
from tests.builders import OPERATOR
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

AUTHORITY = "/console/tenants/acme/authority/"
RULE = {
    "name": "no-large-jobs",
    "expression": "request.slots > 1",
    "message": "At most one slot.",
    "tests": '[{"name": "two", "facts": {"request": {"slots": 2}}, "forbids": true}]',
}


def terms(**other: str) -> dict[str, str]:
    """A filled form of an envelope."""
    kind = ResourceClass.objects.get(name="h100-slot")
    return {"resource_class": str(kind.pk), "nominal_milli": "32", "reason": "agreed", **other}


def test_a_wish_is_granted_beside_what_can_be_delivered(fleet: Fleet) -> None:
    wish = increase_ask(
        tenant_id=fleet.acme.tenant.pk,
        resource_class="h100-slot",
        nominal_asked_milli=96_000,
        justification="a larger run",
        actor=fleet.acme.actor,
    )
    browser = fleet.browser()
    page = browser.get("/console/approvals/").content.decode()
    assert "more promised than there is" in page
    assert "<dt>Can be delivered</dt><dd>8 " in page
    path = f"/console/approvals/{wish.pk}/approve/"
    assert browser.send(path, {"granted": "70"}).status_code == 400
    for edge in ("-1", str(2**63), "NaN", "1e3", "0", "1.0001"):
        assert browser.send(path, {"granted": edge, "reason": "x"}).status_code == 400
    wish.refresh_from_db()
    assert wish.state == "asked"
    browser.send(path, {"granted": "70.5", "reason": "half of it"})
    assert Envelope.objects.get(tenant=fleet.acme.tenant).nominal_milli == 70_500


def test_an_envelope_is_scheduled_and_shown_as_to_come(fleet: Fleet) -> None:
    browser = fleet.browser()
    answer = browser.send(AUTHORITY, terms(effective_from="2099-01-01 00:00"))
    assert answer.headers["Location"] == AUTHORITY
    later = EnvelopeVersion.objects.get(applied_at=None)
    assert later.nominal_milli == 32_000
    assert "to come" in browser.get(AUTHORITY).content.decode()


@pytest.mark.parametrize("amount", ["-1", str(2**63), "NaN", "1e3", "1.0001"])
@pytest.mark.parametrize("field", ["nominal_milli", "borrow_milli", "lend_milli"])
def test_an_amount_at_the_edge_is_refused_beside_its_field(
    fleet: Fleet, field: str, amount: str
) -> None:
    before = EnvelopeVersion.objects.count()
    answer = fleet.browser().send(AUTHORITY, terms(**{field: amount}))
    assert answer.status_code == 400
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert EnvelopeVersion.objects.count() == before


def test_less_than_is_held_needs_a_policy(fleet: Fleet) -> None:
    browser = fleet.browser()
    refused = browser.send(AUTHORITY, terms(nominal_milli="1"))
    assert refused.status_code == 400
    assert "envelope_below_use" in refused.content.decode()
    browser.send(AUTHORITY, terms(nominal_milli="1", on_excess="grandfather"))
    assert "held from before the limit fell" in browser.get(AUTHORITY).content.decode()


def test_a_tier_is_given_only_as_it_was_looked_at(fleet: Fleet) -> None:
    tier_create(
        name="gold", title="Gold", terms={"isolation": "node"}, reason="sold", actor=OPERATOR
    )
    browser = fleet.browser()
    page = browser.get(f"{AUTHORITY}?tier=gold").content.decode()
    assert "too little isolation" in page
    body = {"tier": "gold", "seen": "0" * 64, "reason": "bought"}
    stale = browser.send(f"{AUTHORITY}tier/", body)
    assert stale.headers["Location"] == f"{AUTHORITY}?tier=gold"
    assert Tenant.objects.get(slug="acme").tier.name != "gold"
    digest = page.split('name="seen" value="')[1].split('"')[0]
    browser.send(f"{AUTHORITY}tier/", {**body, "seen": digest})
    assert Tenant.objects.get(slug="acme").tier.name == "gold"


def test_a_rule_is_written_tried_out_and_switched_on(fleet: Fleet) -> None:
    browser = fleet.browser()
    wrong = browser.send("/console/policies/", {**RULE, "expression": "request.slots >"})
    assert wrong.status_code == 400
    assert 'id="id_expression_error"' in wrong.content.decode()
    assert not PolicyRule.objects.exists()
    answer = browser.send("/console/policies/", RULE)
    rule = PolicyRule.objects.get()
    path = f"/console/policies/{rule.pk}/"
    assert answer.headers["Location"] == path
    assert "cannot be switched on" in browser.get(path).content.decode()
    browser.send(f"{path}dry-run/", {"reason": "look"})
    assert "were not refused before" in browser.get(path).content.decode()
    assert browser.send(f"{path}activate/", {}).status_code == 400
    browser.send(f"{path}activate/", {"reason": "agreed"})
    rule.refresh_from_db()
    assert rule.state == "active"
    browser.send(f"{path}retire/", {"reason": "over"})
    rule.refresh_from_db()
    assert rule.state == "retired"


def test_suspension_and_deletion_are_chosen_with_a_reason(fleet: Fleet) -> None:
    browser = fleet.browser()
    path = f"{AUTHORITY}suspension/"
    assert browser.send(path, {"suspension": "release"}).status_code == 400
    browser.send(path, {"suspension": "release", "reason": "contract"})
    assert Tenant.objects.get(slug="acme").suspension == "release"
    browser.send(f"{AUTHORITY}delete/", {"reason": "closed"})
    assert Tenant.objects.get(slug="acme").state == "deleting"


def test_a_tenant_decides_nothing_of_this(fleet: Fleet) -> None:
    browser = Browser.of(fleet.acme.owner)
    for path in (AUTHORITY, f"{AUTHORITY}delete/", "/console/policies/"):
        assert browser.send(path, {"reason": "x"}).status_code == 404
    assert Tenant.objects.get(slug="acme").state == "active"
