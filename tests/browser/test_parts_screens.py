"""Are parts of a GPU seen to scale in both schemes, and is a slot cut from its node's page?"""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from placement.models import Node, Slot
from tenants.models import User
from tests.browser.conftest import PASSWORD, keep_shot, sign_in
from tests.builders import (
    BOTH_KINDS,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_report,
    a_tenant,
    cut_slots,
)


def test_a_node_shows_its_parts_and_cuts_a_slot(
    live_server: LiveServer, page: Page, settings: Settings
) -> None:
    settings.OPERATOR_FACTOR_GRACE = True
    a_catalogue()
    a_parts_catalogue()
    host = a_host(parts=BOTH_KINDS)
    Node.objects.filter(pk=host.node.pk).update(topology=a_report("host-1").to_json())
    acme, globex = a_tenant("acme"), a_tenant("globex")
    cut_slots(host, "mig", 0, 1)
    cut_slots(host, "share", 4)
    acme.order(slots=2)
    for world, sku in (
        *((acme, "h100.3g"), (globex, "h100.1g"), (acme, "h100.1g"), (globex, "h100.third")),
        (globex, "h100.third"),
    ):
        world.order(sku)
    host.work()
    operator = User.objects.create_user(
        "parts@platform.test", PASSWORD, is_staff=True, operator_role="administrator"
    )
    sign_in(page, live_server.url, operator.email)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{live_server.url}/console/nodes/host-1/")
        expect(page.locator("svg.picture .strip")).to_have_count(3)
        expect(page.locator("svg.picture .part")).to_have_count(5)
        expect(page.get_by_role("heading", name="Parts of GPUs")).to_be_visible()
        assert Axe().run(page).response["violations"] == []
        keep_shot(page, f"c-node-parts-{scheme}")
    page.get_by_text("Sell one slot whole, or in parts…").click()
    page.get_by_label("Slot", exact=True).last.select_option("7")
    page.get_by_label("Sell it").select_option("mig")
    page.locator("#cut-reason").fill("small jobs")
    keep_shot(page, "c-node-cut")
    page.get_by_role("button", name="Cut the slot").click()
    expect(page.get_by_text("host-1 slot 7: cut done.")).to_be_visible()
    assert Slot.objects.get(index=7).cut == "mig"
