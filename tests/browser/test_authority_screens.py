"""Are the pages of quota, decisions and rules clean in both schemes, with something on them?"""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from admission.services import policies
from tenants.models import Envelope
from tenants.services import cohorts, envelopes, increases
from tests.browser.conftest import Scene, keep_shot, sign_in
from tests.builders import OPERATOR

RULE = {
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
    increases.increase_ask(
        tenant_id=acme.pk,
        resource_class=kind.name,
        nominal_asked_milli=640_000,
        justification="The next training run needs the whole hall for two weeks.",
        actor=scene.acme.actor,
    )
    rule = policies.policy_save(actor=OPERATOR, **RULE)  # type: ignore[arg-type]  # one literal
    policies.policy_try_out(rule_id=rule.pk, actor=OPERATOR)
    request = acme.requests.filter(state="denied").first()
    assert request is not None
    return [
        ("home", "/t/acme/"),
        ("quota", "/t/acme/quota/"),
        ("decisions", "/t/acme/decisions/"),
        ("trace", f"/t/acme/requests/{request.pk}/"),
        ("quota-lent", "/console/tenants/globex/authority/"),
        ("c-authority", "/console/tenants/acme/authority/?tier=standard"),
        ("c-approvals", "/console/approvals/"),
        ("c-policies", "/console/policies/"),
        ("c-policy", f"/console/policies/{rule.pk}/"),
        ("c-tiers", "/console/tiers/"),
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
            wide = page.evaluate("document.documentElement.scrollWidth")
            complaints += [f"{name}: {wide} px wide on a phone"] if wide > 320 else []
            page.set_viewport_size({"width": 1280, "height": 900})
    assert complaints == []
