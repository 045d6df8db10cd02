"""Do people and operators get from an intent to its end through pages alone?"""

from __future__ import annotations

from datetime import timedelta

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from admission.models import AdmissionRequest, Decision
from gpuaas.kernel import clock
from gpuaas.kernel.models import Event
from placement.models import Claim, Node
from placement.services.endings import deletions_sweep
from placement.states import LIVE
from tenants.models import BurstRule, Envelope, QuotaCounter, SlaTier, Tenant
from tenants.services import bursts, cohorts
from tests.browser.conftest import SETTLED, Scene, keep_shot, sign_in
from tests.builders import OPERATOR, Host

SCHEMES = ("light", "dark")


def look(page: Page, name: str) -> None:
    """Keep the page in both schemes and on a phone, each clean and no wider than it is."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.evaluate(SETTLED)
        found = Axe().run(page).response["violations"]
        assert [f"{name} {scheme}: {v['id']} {v['nodes'][:1]}" for v in found] == []
        keep_shot(page, f"walk-{name}-{scheme}")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 800})
    keep_shot(page, f"walk-{name}-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    page.set_viewport_size({"width": 1280, "height": 900})


def as_person(page: Page, scene: Scene, email: str) -> None:
    """Somebody else sits down at the browser."""
    page.context.clear_cookies()
    sign_in(page, scene.url, email)


def test_a_tier_is_made_changed_as_it_was_looked_at_and_its_versions_stay(
    scene: Scene, page: Page
) -> None:
    sign_in(page, scene.url, scene.operator.email)
    page.goto(f"{scene.url}/console/tiers/")
    page.get_by_role("link", name="New tier").click()
    page.fill("#id_name", "gold")
    page.fill("#id_title", "Gold")
    page.fill("#id_reason", "sold to two customers")
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_text("The tier is kept. Nobody has it yet.")).to_be_visible()
    page.goto(f"{scene.url}/console/tiers/of/standard/")
    page.fill("#id_priority_band", "3")
    page.fill("#id_reason", "after gold")
    page.get_by_role("button", name="See whom it touches").click()
    expect(page.get_by_text("Nothing is kept yet. Whom it touches:")).to_be_visible()
    expect(page.locator("main")).to_contain_text("acme")
    look(page, "tier-preview")
    page.get_by_role("button", name="Keep this version").click()
    expect(page.get_by_text("The next version is in force.")).to_be_visible()
    assert SlaTier.objects.get(name="standard").priority_band == 3
    assert SlaTier.objects.get(name="standard").version == 2
    look(page, "tier-versions")


def test_a_burst_opens_is_used_and_closes_with_what_was_said(scene: Scene, page: Page) -> None:
    cohorts.cohort_create(name="lab", title="Lab", actor=OPERATOR)
    for slug in ("acme", "globex"):
        tenant = Tenant.objects.get(slug=slug)
        cohorts.tenant_cohort_set(
            tenant_id=tenant.pk, cohort="lab", reason="they share", actor=OPERATOR
        )
    sign_in(page, scene.url, scene.operator.email)
    page.goto(f"{scene.url}/console/tenants/acme/bursts/")
    now = clock.db_now()
    page.fill("#id_name", "Quarter end")
    page.fill("#id_extra_milli", "8")
    page.fill("#id_opens_at", (now - timedelta(minutes=1)).strftime("%Y-%m-%d %H:%M:%S"))
    page.fill("#id_closes_at", (now + timedelta(hours=2)).strftime("%Y-%m-%d %H:%M:%S"))
    page.select_option("#id_on_close", "drain")
    page.fill("#id_reason", "the books are closed")
    look(page, "burst-form")
    page.get_by_role("button", name="Keep the window").click()
    expect(page.get_by_text("The window is kept.")).to_be_visible()
    bursts.bursts_turn()
    assert BurstRule.objects.get().state == "open"
    page.reload()
    look(page, "burst-open")
    as_person(page, scene, scene.acme.owner.email)
    page.goto(f"{scene.url}/t/acme/quota/")
    expect(page.locator("main")).to_contain_text("23 free, 8 of them to borrow")
    look(page, "burst-quota")
    as_person(page, scene, scene.operator.email)
    page.goto(f"{scene.url}/console/tenants/acme/bursts/")
    page.locator("summary", has_text="End").click()
    expect(page.get_by_text("the excess drains.")).to_be_visible()
    page.locator("form[action$='/end/'] input[name=reason]").fill("closed early")
    page.get_by_role("button", name="End it").click()
    expect(page.get_by_text("Quarter end has ended.")).to_be_visible()
    assert BurstRule.objects.get().state == "ended"
    look(page, "burst-ended")


def test_a_wish_for_quota_goes_from_the_tenant_to_the_inbox_and_moves_the_bar(
    scene: Scene, page: Page
) -> None:
    sign_in(page, scene.url, scene.acme.owner.email)
    page.goto(f"{scene.url}/t/acme/quota/")
    expect(page.locator("main")).to_contain_text("of 24")
    page.fill("#id_nominal_asked_milli", "32")
    page.fill("#id_justification", "The next run needs four more nodes for two weeks.")
    page.get_by_role("button", name="Ask the operators").click()
    expect(page.get_by_text("The operators have your request.")).to_be_visible()
    look(page, "wish-asked")
    as_person(page, scene, scene.operator.email)
    page.goto(f"{scene.url}/console/approvals/")
    expect(page.get_by_text("Can be delivered")).to_be_visible()
    expect(page.get_by_text("With this granted")).to_be_visible()
    page.locator("summary", has_text="Grant").click()
    look(page, "wish-inbox")
    page.locator("[id^=grant-wish][id$=reason]").fill("within the contract")
    page.locator("form[action*=grant-wish] button").click()
    expect(page.get_by_text("Granted; the envelope is set.")).to_be_visible()
    assert Envelope.objects.get(tenant=scene.acme.tenant).nominal_milli == 32_000
    as_person(page, scene, scene.acme.owner.email)
    page.goto(f"{scene.url}/t/acme/quota/")
    expect(page.locator("main")).to_contain_text("of 32")
    expect(page.locator("main")).to_contain_text("within the contract")
    look(page, "wish-granted")


def test_a_suspended_tenant_is_refused_with_its_code_and_goes_on_after_it(
    scene: Scene, page: Page
) -> None:
    sign_in(page, scene.url, scene.operator.email)
    page.goto(f"{scene.url}/console/tenants/acme/end/")
    page.get_by_text("Suspend it now…").click()
    page.locator("#suspend-reason").fill("unpaid")
    look(page, "suspend-form")
    page.get_by_role("button", name="Suspend", exact=True).click()
    expect(page.get_by_text("It is suspended.")).to_be_visible()
    look(page, "suspended")
    plan = f"{scene.url}/t/acme/launch/?sku=v100.slice&slots=1&name=refused"
    as_person(page, scene, scene.acme.owner.email)
    page.goto(plan)
    expect(page.locator("#plan")).to_contain_text("tenant_suspended")
    assert page.locator("#send-plan").count() == 0
    look(page, "suspended-plan")
    as_person(page, scene, scene.operator.email)
    page.goto(f"{scene.url}/console/tenants/acme/end/")
    page.locator("summary", has_text="Resume").click()
    page.locator("form[action$='/resume/'] input[name=reason]").fill("paid")
    page.locator("form[action$='/resume/'] button").click()
    expect(page.get_by_text("active").first).to_be_visible()
    assert Tenant.objects.get(slug="acme").state == "active"
    as_person(page, scene, scene.acme.owner.email)
    page.goto(plan)
    page.locator("#send-plan").click()
    page.wait_for_url("**/allocations/*/")
    expect(page.get_by_role("heading", name="refused")).to_be_visible()


def test_a_tenant_ends_with_its_last_proof_and_its_records_stay(scene: Scene, page: Page) -> None:
    acme = Tenant.objects.get(slug="acme")
    kept = Decision.objects.filter(tenant=acme).count()
    sign_in(page, scene.url, scene.operator.email)
    page.goto(f"{scene.url}/console/tenants/acme/end/")
    page.get_by_text("Delete the tenant…").click()
    page.locator("#delete-confirm").fill("acme")
    page.locator("#delete-reason").fill("the contract has ended")
    look(page, "delete-form")
    page.get_by_role("button", name="Delete it").click()
    expect(page.get_by_text("Its deletion has begun")).to_be_visible()
    own = Claim.objects.filter(allocation__tenant=acme, state__in=LIVE, holder="tenant").count()
    assert own > 0
    expect(page.locator("main")).to_contain_text("waited for")
    expect(page.locator("dd", has_text=str(own)).first).to_be_visible()
    look(page, "deleting")
    deletions_sweep()
    page.reload()
    expect(page.locator("main")).to_contain_text("waited for")
    for node in Node.objects.filter(name__in=("plain-1", "dgx2-a", "p4d-a")):
        Host(node).work()
    deletions_sweep()
    assert Tenant.objects.get(slug="acme").state == "deleted"
    assert QuotaCounter.objects.filter(tenant=acme, used_milli__gt=0).count() == 0
    page.reload()
    expect(page.get_by_text("It has ended.")).to_be_visible()
    look(page, "deleted")
    assert Decision.objects.filter(tenant=acme).count() >= kept
    assert Event.objects.filter(subject_id=acme.pk).exists()
    assert AdmissionRequest.objects.filter(tenant=acme).exists()
    page.goto(f"{scene.url}/console/decisions/?tenant=acme&days=30")
    expect(page.get_by_role("table").locator("tbody tr").first).to_be_visible()
