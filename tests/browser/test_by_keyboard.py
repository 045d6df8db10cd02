"""Can everything that matters be done with the keyboard alone, and live, and without scripts?"""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from placement.models import NodeDrain
from tenants.models import Tenant
from tests.browser.conftest import Scene, keep_shot, sign_in

MOST_TABS = 80


def focus(page: Page, words: str, *, within: str = "") -> None:
    """Press Tab until the focused element has these words, as a person would."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => {
                const e = document.activeElement;
                const label = e.labels && e.labels.length ? e.labels[0].innerText : "";
                const place = e.closest("section, form, details, nav, header");
                return [e.innerText || "", label, e.getAttribute("aria-label") || "",
                        e.value || "", place ? place.innerText : ""];
            }"""
        )
        *names, place = seen
        if any(words.lower() in name.lower() for name in names) and within in place:
            outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"the focus on {words!r} cannot be seen"
            return
    raise AssertionError(f"{words!r} cannot be reached with the Tab key on {page.url}")


def test_a_person_launches_and_releases_with_the_keyboard_alone(scene: Scene, page: Page) -> None:
    sign_in(page, scene.url, scene.acme.owner.email)
    page.goto(f"{scene.url}/t/acme/launch/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to the content")
    page.keyboard.press("Enter")
    focus(page, "A100")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(page.locator("input[name=sku]:checked")).to_have_value("h100.slice")
    focus(page, "Slots")
    page.keyboard.type("2")
    focus(page, "Name")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Tab")
    expect(page.locator("#plan")).to_contain_text("by-keyboard")
    expect(page.locator("#send-plan")).to_have_text("Lease 2 slots for $4.00 an hour")
    focus(page, "Lease 2 slots")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/allocations/[0-9a-f-]{36}/"))
    expect(page.locator("h1")).to_have_text("by-keyboard")
    expect(page.locator("[data-live-lamp]")).to_have_text("live")
    scene.host.work()
    expect(page.locator(".head .state")).to_contain_text("active", timeout=15_000)
    expect(page.get_by_text("ssh -p 2222 ubuntu@127.0.0.1").first).to_be_visible()
    focus(page, "Release this allocation")
    page.keyboard.press("Enter")
    keep_shot(page, "release-open")
    focus(page, "Release it")
    page.keyboard.press("Enter")
    expect(page.get_by_text("is being given back")).to_be_visible()
    assert scene.acme.tenant.allocations.get(name="by-keyboard").state == "releasing"


def test_an_operator_approves_and_drains_with_the_keyboard_alone(scene: Scene, page: Page) -> None:
    sign_in(page, scene.url, scene.operator.email)
    page.goto(f"{scene.url}/console/tenants/initech/")
    focus(page, "Approve")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("known customer")
    page.keyboard.press("Tab")
    keep_shot(page, "approve-open")
    page.keyboard.press("Enter")
    expect(page.get_by_text("approve done")).to_be_visible()
    assert Tenant.objects.get(slug="initech").state == "active"
    page.goto(f"{scene.url}/console/nodes/plain-1/")
    focus(page, "Drain…")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("new firmware")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The node takes no new work")).to_be_visible()
    assert NodeDrain.objects.filter(node=scene.host.node, ended_at__isnull=True).exists()


def test_search_opens_with_its_keys_and_menus_close_with_escape(scene: Scene, page: Page) -> None:
    sign_in(page, scene.url, scene.acme.owner.email)
    page.goto(f"{scene.url}/t/acme/")
    page.keyboard.press("Control+k")
    page.keyboard.type("train-1")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(str(scene.running.pk)))
    focus(page, "Your menu")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Dark")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Dark")).to_be_hidden()


def test_the_chosen_colours_win_over_the_systems(scene: Scene, page: Page) -> None:
    sign_in(page, scene.url, scene.acme.owner.email)
    page.emulate_media(color_scheme="light")
    page.goto(f"{scene.url}/t/acme/")
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    focus(page, "Your menu")
    page.keyboard.press("Enter")
    focus(page, "Dark")
    page.keyboard.press("Enter")
    page.wait_for_load_state()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate(background) != light


def test_everything_is_read_and_sent_without_scripts(scene: Scene, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{scene.url}/sign-in/")
    page.fill("[name=username]", scene.acme.owner.email)
    page.fill("[name=password]", "correct horse battery")
    page.click("button")
    page.goto(f"{scene.url}/t/acme/launch/")
    page.check("input[value='h100.slice']")
    page.fill("[name=slots]", "1")
    page.click("text=Show the plan")
    page.click("#send-plan")
    expect(page.locator("h1")).to_contain_text("h100.slice")
    expect(page.locator("time").first).to_have_attribute("title", re.compile("UTC"))
    page.click("summary:has-text('Cancel this allocation')")
    page.click("text=Cancel it")
    expect(page.get_by_text("is being given back")).to_be_visible()
    context.close()
