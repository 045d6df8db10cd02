"""Does the admin's own theme show our actions, and does one run from there?"""

from __future__ import annotations

from playwright.sync_api import Page, expect

from placement.models import NodeDrain
from tests.browser.conftest import PASSWORD, Scene, keep_shot


def test_an_operator_drains_a_node_from_its_record(scene: Scene, page: Page) -> None:
    page.goto(f"{scene.url}/admin/")
    page.fill("[name=username]", scene.operator.email)
    page.fill("[name=password]", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{scene.url}/admin/")
    keep_shot(page, "admin-index")
    page.goto(f"{scene.url}/admin/placement/node/?q=plain-1")
    keep_shot(page, "admin-nodes")
    page.click("a:has-text('plain-1')")
    expect(page.get_by_text("Drain", exact=True).first).to_be_visible()
    keep_shot(page, "admin-node")
    page.goto(f"{scene.url}/admin/placement/node/{scene.host.node.pk}/drain/")
    page.fill("[name=reason]", "new firmware")
    keep_shot(page, "admin-reason")
    page.click("button:has-text('Drain')")
    expect(page.get_by_text("done for plain-1")).to_be_visible()
    assert NodeDrain.objects.get(node=scene.host.node, ended_at__isnull=True).reason
