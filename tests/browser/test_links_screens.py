"""Are direct links between GPUs seen on a node's page, drawn and as a table, in both schemes?"""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from placement.models import Node
from placement.services.slots import links_take
from tenants.models import User
from tests.browser.conftest import PASSWORD, keep_shot, sign_in
from tests.builders import a_catalogue
from tests.placement.meshes import CUBE, mesh_report
from tests.placement.test_odd_topologies import approved

NONE = "\N{EN DASH}"


def test_a_hybrid_mesh_is_drawn_and_told_as_a_table(
    live_server: LiveServer, page: Page, settings: Settings
) -> None:
    settings.OPERATOR_FACTOR_GRACE = True
    a_catalogue()
    report = mesh_report(8, CUBE)
    node = Node.objects.get(pk=approved(report, 1).node.pk)
    node.topology, node.topology_at = report.to_json(), node.state_since
    links_take(node)
    node.save()
    operator = User.objects.create_user(
        "links@platform.test", PASSWORD, is_staff=True, operator_role="administrator"
    )
    sign_in(page, live_server.url, operator.email)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{live_server.url}/console/nodes/{node.name}/")
        expect(page.locator("svg.picture path.nvlink")).to_have_count(16)
        rows = page.get_by_role("group", name="Direct links between slots").locator("tbody tr")
        expect(rows).to_have_count(8)
        expect(rows.nth(0)).to_have_text(f"0·1122{NONE * 3}")
        assert Axe().run(page).response["violations"] == []
        keep_shot(page, f"c-node-links-{scheme}")
