"""Are tenants kept apart on a page: nothing there yet, looked at, set, and let go again?"""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from placement.models import Separation
from tenants.models import User
from tests.browser.conftest import PASSWORD, SETTLED, keep_shot, sign_in
from tests.builders import a_catalogue, a_host, a_tenant


def clean_in_both(page: Page, name: str) -> None:
    """The page as it stands has no fault for assistive technology, in light and dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(SETTLED)
        keep_shot(page, f"{name}-{scheme}")
        assert Axe().run(page).response["violations"] == []


def test_tenants_are_kept_apart_and_let_go_on_a_page(
    live_server: LiveServer, page: Page, settings: Settings
) -> None:
    settings.OPERATOR_FACTOR_GRACE = True
    a_catalogue()
    a_host()
    for slug in ("acme", "globex"):
        a_tenant(slug).order(slots=1)
    operator = User.objects.create_user(
        "apart@platform.test", PASSWORD, is_staff=True, operator_role="administrator"
    )
    sign_in(page, live_server.url, operator.email)
    page.goto(f"{live_server.url}/console/separations/")
    expect(page.get_by_role("heading", name="Nobody is kept apart")).to_be_visible()
    clean_in_both(page, "c-separations-empty")
    page.get_by_label("Name of the set").fill("rivals")
    page.get_by_label("Tenants", exact=True).fill("acme, globex")
    page.locator("#id_reason").fill("by contract")
    page.get_by_role("button", name="Show what it comes to").click()
    expect(page.get_by_text("1 host has several of them now.")).to_be_visible()
    clean_in_both(page, "c-separations-look")
    assert not Separation.objects.exists()
    page.get_by_role("button", name="Keep them apart").click()
    expect(page.get_by_role("heading", name="rivals")).to_be_visible()
    assert Separation.objects.get().reason == "by contract"
    page.get_by_text("Remove the set…").click()
    page.locator("#remove-reason").fill("one company now")
    clean_in_both(page, "c-separation-end")
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_role("heading", name="Nobody is kept apart")).to_be_visible()
    assert not Separation.objects.exists()
