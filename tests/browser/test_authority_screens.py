"""Are the pages of quota, decisions and rules clean in both schemes, with something on them?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from admission.services import policies, tenancies, wishes
from gpuaas.kernel import clock
from placement.services import overrides
from tenants.models import Envelope, Tenant, User
from tenants.services import bursts, caps, cohorts, entitlements, envelopes, tiers
from tenants.services.access import user_actor
from tests.browser.conftest import PASSWORD, SETTLED, Scene, keep_shot, sign_in
from tests.builders import OPERATOR, a_tenant

LADDER = [{"below_ppm": 999_000, "credit_permille": 100}]

RULE: dict[str, Any] = {
    "name": "no-large-requests",
    "actions": [],
    "expression": "request.slots > 3 && time.weekday <= 7",
    "message": "At most three slots at a time this week.",
    "unblock": "Ask for fewer slots.",
    "tests": [
        {"name": "four slots", "facts": {"request": {"slots": 4}}, "forbids": True},
        {"name": "one slot", "facts": {"request": {"slots": 1}}, "forbids": False},
    ],
}


@pytest.fixture
def authority(scene: Scene) -> list[tuple[str, str]]:
    """A tenant that borrows and has asked for more, and a rule that was tried out."""
    acme = scene.acme.tenant
    cohorts.cohort_create(name="lab", title="Lab", actor=OPERATOR)
    kind = Envelope.objects.select_related("resource_class").get(tenant=acme).resource_class
    for slug in ("acme", "globex"):
        tenant = type(acme).objects.get(slug=slug)
        cohorts.tenant_cohort_set(
            tenant_id=tenant.pk, cohort="lab", reason="they share", actor=OPERATOR
        )
    envelopes.envelope_set(
        tenant_id=acme.pk,
        resource_class=kind.name,
        nominal_milli=6000,
        borrow_milli=8000,
        reason="less of its own, more at times",
        actor=OPERATOR,
    )
    wishes.increase_ask(
        tenant_id=acme.pk,
        resource_class=kind.name,
        nominal_asked_milli=640_000,
        justification="The next training run needs the whole hall for two weeks.",
        actor=scene.acme.actor,
    )
    cohorts.cohort_create(name="annex", title="Annex", parent="lab", actor=OPERATOR)
    tiers.tier_create(
        name="gold",
        title="Gold",
        terms={"isolation": "node", "credit_ladder": LADDER, "availability_ppm": 999_500},
        reason="sold",
        actor=OPERATOR,
    )
    caps.caps_set(
        tenant_id=acme.pk,
        changes={"allocations": 20, "spend_hard_micro": 25_000_500_000},
        reason="contract",
        actor=OPERATOR,
    )
    now = clock.db_now()
    bursts.burst_create(
        tenant_id=acme.pk,
        resource_class=kind.name,
        name="Quarter end",
        extra_milli=4000,
        opens_at=now - timedelta(hours=1),
        closes_at=now + timedelta(hours=1),
        every_s=86_400,
        actor=OPERATOR,
    )
    envelopes.envelope_schedule(
        tenant_id=acme.pk,
        resource_class=kind.name,
        nominal_milli=12_000,
        effective_from=now + timedelta(days=30),
        on_excess="drain",
        reason="the next contract",
        actor=OPERATOR,
    )
    entitlements.entitlement_grant(
        tenant_id=acme.pk, sku="h100.slice", reason="trial", actor=OPERATOR
    )
    asker = User.objects.create_user(
        "asks@example.test", PASSWORD, is_staff=True, operator_role="administrator"
    )
    overrides.override_request(
        allocation_id=scene.blocked.pk,
        reason="the host is scrapped",
        actor=user_actor(user=asker, tenant_id=None, request_id=""),
    )
    closing = a_tenant("umbrella", envelope_slots=2)
    tenancies.tenant_delete(tenant_id=closing.tenant.pk, reason="closed", actor=OPERATOR)
    rule = policies.policy_save(actor=OPERATOR, **RULE)
    policies.policy_try_out(rule_id=rule.pk, actor=OPERATOR)
    follows = policies.policy_save(actor=OPERATOR, **{**RULE, "expression": "request.slots > 4"})
    request = acme.requests.filter(state="denied").first()
    assert request is not None
    return [
        ("home", "/t/acme/"),
        ("quota", "/t/acme/quota/"),
        ("decisions", "/t/acme/decisions/"),
        ("trace", f"/t/acme/requests/{request.pk}/"),
        ("quota-lent", "/console/tenants/globex/authority/"),
        ("c-authority", "/console/tenants/acme/authority/?class=h100-slot"),
        ("c-caps", "/console/tenants/acme/caps/"),
        ("c-bursts", "/console/tenants/acme/bursts/"),
        ("c-standing", "/console/tenants/acme/standing/?tier=gold&cohort=annex"),
        ("c-catalogue", "/console/tenants/acme/catalogue/"),
        ("c-members", "/console/tenants/acme/members/"),
        ("c-end", "/console/tenants/acme/end/"),
        ("c-ending", "/console/tenants/umbrella/end/"),
        ("c-approvals", "/console/approvals/"),
        ("c-policies", "/console/policies/?from=no-large-requests"),
        ("c-policy", f"/console/policies/{rule.pk}/"),
        ("c-policy-follows", f"/console/policies/{follows.pk}/"),
        ("c-decisions", "/console/decisions/?outcome=no_capacity"),
        ("c-trace", f"/console/requests/{request.pk}/"),
        ("c-tiers", "/console/tiers/"),
        ("c-tier", "/console/tiers/of/standard/"),
        ("c-tier-new", "/console/tiers/new/"),
        ("c-cohorts", "/console/cohorts/"),
        ("c-cohort", "/console/cohorts/lab/"),
        ("c-cohort-limits", "/console/cohorts/annex/"),
    ]


def test_the_pages_of_authority_are_clean_in_light_and_dark(
    scene: Scene, authority: list[tuple[str, str]], page: Page
) -> None:
    complaints: list[str] = []
    for who, place in ((scene.acme.owner.email, "/t/"), (scene.operator.email, "/console/")):
        page.context.clear_cookies()
        sign_in(page, scene.url, who)
        for name, path in authority:
            if not path.startswith(place):
                continue
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                answer = page.goto(scene.url + path)
                assert answer is not None
                assert answer.status == 200, path
                found = Axe().run(page).response["violations"]
                complaints += [f"{name} {scheme}: {v['id']} {v['nodes'][:1]}" for v in found]
                keep_shot(page, f"{name}-{scheme}")
            page.set_viewport_size({"width": 320, "height": 800})
            keep_shot(page, f"{name}-phone")
            wide = page.evaluate("document.documentElement.scrollWidth")
            complaints += [f"{name}: {wide} px wide on a phone"] if wide > 320 else []
            page.set_viewport_size({"width": 1280, "height": 900})
    assert complaints == []


def by_keys(page: Page, words: str) -> None:
    """Tab on until the focus is on something with these words."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if words in page.evaluate("document.activeElement.textContent"):
            return
    raise AssertionError(f"the focus never came to {words!r}")


def test_the_inbox_is_answered_by_keyboard_and_tells_what_is_missing(
    scene: Scene, authority: list[tuple[str, str]], page: Page
) -> None:
    sign_in(page, scene.url, scene.operator.email)
    page.goto(f"{scene.url}/console/approvals/")
    by_keys(page, "initech")
    by_keys(page, "Approve…")
    page.keyboard.press("Enter")
    by_keys(page, "Approve: initech")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Say why: it is kept in the record.")).to_be_visible()
    keep_shot(page, "c-approvals-refused")
    page.locator("[id^=approve-tenant]").first.focus()
    page.keyboard.type("known customer")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Approved: it may lease what its envelopes allow.")).to_be_visible()
    assert Tenant.objects.get(slug="initech").state == "active"
    by_keys(page, "Approve the override…")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("I looked at the host")
    page.keyboard.press("Enter")
    expect(page.get_by_text("marked as not proved")).to_be_visible()
    scene.blocked.refresh_from_db()
    assert scene.blocked.state == "released"


def test_an_envelope_is_looked_at_in_the_browser_before_it_is_kept(
    scene: Scene, authority: list[tuple[str, str]], page: Page
) -> None:
    sign_in(page, scene.url, scene.operator.email)
    page.goto(f"{scene.url}/console/tenants/acme/authority/?class=h100-slot")
    page.fill("#id_nominal_milli", "1")
    page.fill("#id_borrow_milli", "0")
    page.fill("#id_reason", "a smaller contract")
    page.get_by_role("button", name="See what it touches").click()
    expect(page.locator("#id_on_excess_error")).to_contain_text("envelope_below_use")
    page.select_option("#id_on_excess", "drain")
    page.get_by_role("button", name="See what it touches").click()
    expect(page.get_by_text("Nothing is kept yet.")).to_be_visible()
    keep_shot(page, "c-authority-preview")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.evaluate(SETTLED)
        assert Axe().run(page).response["violations"] == []
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_text("The envelope is kept.")).to_be_visible()
    assert Envelope.objects.get(tenant=scene.acme.tenant).nominal_milli == 1000
