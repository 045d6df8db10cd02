"""Does every page stay clean for assistive technology, in both schemes, and fit a phone?"""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Request

from placement.services.separations import separation_set
from tenants.models import Tenant
from tests.browser.conftest import Scene, keep_shot, sign_in
from tests.builders import OPERATOR


def pages_of(scene: Scene) -> dict[str, list[tuple[str, str]]]:
    """Every page by who looks at it: (name, address)."""
    tenant = f"/t/{scene.acme.tenant.slug}"
    request = scene.acme.tenant.requests.filter(state="denied").first()
    queued = scene.acme.tenant.requests.filter(state="queued").first()
    assert request is not None
    assert queued is not None
    return {
        scene.acme.owner.email: [
            ("home", f"{tenant}/"),
            ("catalogue", f"{tenant}/catalogue/"),
            ("launch", f"{tenant}/launch/?sku=h100.slice&slots=3"),
            ("launch-refused", f"{tenant}/launch/?sku=v100.slice&slots=8"),
            ("allocations", f"{tenant}/allocations/"),
            ("allocation", f"{tenant}/allocations/{scene.running.pk}/"),
            ("requests", f"{tenant}/requests/"),
            ("request-denied", f"{tenant}/requests/{request.pk}/"),
            ("request-queued", f"{tenant}/requests/{queued.pk}/"),
            ("notices", f"{tenant}/notices/?only=all"),
            ("team", f"{tenant}/team/"),
            ("tokens", f"{tenant}/tokens/"),
            ("ssh-keys", f"{tenant}/ssh-keys/"),
            ("search", f"{tenant}/search/?q=a"),
            ("reasons", "/docs/reasons/"),
            ("reason", "/docs/reasons/sku_unavailable"),
            ("missing", f"{tenant}/nothing/"),
        ],
        scene.operator.email: [
            ("c-home", "/console/"),
            ("c-fleet", "/console/fleet/"),
            ("c-fleet-tenant", "/console/fleet/?by=tenant"),
            ("c-fleet-health", "/console/fleet/?by=health&tenant=~none"),
            ("c-fleet-age", "/console/fleet/?by=age"),
            ("c-fleet-list", "/console/fleet/?by=tenant&view=list"),
            ("c-nodes", "/console/nodes/"),
            ("c-node-dgx2", "/console/nodes/dgx2-a/"),
            ("c-node-p4d", "/console/nodes/p4d-a/"),
            ("c-node-nc", "/console/nodes/nc-a/"),
            ("c-node-h100", "/console/nodes/h100-a/"),
            ("c-maintenance", "/console/maintenance/"),
            ("c-drain-plan", "/console/nodes/dgx2-a/drain-plan/"),
            ("c-tasks", "/console/tasks/"),
            ("c-drift", "/console/drift/?state=all"),
            ("c-fragmentation", "/console/fragmentation/"),
            ("c-defrag", "/console/defrag/?sku=h100.slice"),
            ("c-fitness-terms", "/console/readiness-terms/"),
            ("c-fitness-terms-one", "/console/readiness-terms/h100x8/"),
            ("c-terms", "/console/placement-terms/"),
            ("c-terms-one", "/console/placement-terms/sku/h100.slice/"),
            ("c-scoring", "/console/scoring/"),
            ("c-separations", "/console/separations/"),
            ("c-separation", "/console/separations/rivals/"),
            ("c-retention", "/console/retention/"),
            ("c-control-keys", "/console/control-keys/"),
            ("c-decisions", "/console/decisions/"),
            ("c-request", f"/console/requests/{scene.running.request_id}/"),
            ("c-stock", "/console/stock/"),
            ("c-stock-item", "/console/stock/pool/default/"),
            ("c-tenants", "/console/tenants/"),
            ("c-tenant", "/console/tenants/acme/"),
            ("c-allocations", "/console/allocations/"),
            ("c-allocation", f"/console/allocations/{scene.blocked.pk}/"),
        ],
    }


def test_every_page_is_clean_in_light_and_dark_and_fits_a_phone(scene: Scene, page: Page) -> None:
    """One world and one browser for all pages, since making them takes most of the time."""
    rivals = list(Tenant.objects.filter(slug__in=("acme", "globex")).values_list("pk", flat=True))
    separation_set(name="rivals", tenants=rivals, reason="by contract", actor=OPERATOR)
    foreign: list[str] = []
    complaints: list[str] = []

    def watch(request: Request) -> None:
        if not request.url.startswith((scene.url, "data:")):
            foreign.append(request.url)

    page.on("request", watch)
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    axe = Axe()
    found: list[str] = []
    page.goto(f"{scene.url}/sign-in/")
    keep_shot(page, "sign-in-light")
    page.goto(f"{scene.url}/sign-up/")
    keep_shot(page, "sign-up-light")
    for email, pages in pages_of(scene).items():
        page.context.clear_cookies()
        sign_in(page, scene.url, email)
        for name, path in pages:
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size({"width": 1280, "height": 900})
                page.goto(scene.url + path)
                keep_shot(page, f"{name}-{scheme}")
                result = axe.run(page)
                for violation in result.response["violations"]:
                    where = [n["html"][:160] for n in violation["nodes"][:3]]
                    found.append(f"{name} {scheme}: {violation['id']}: {where}")
            page.set_viewport_size({"width": 320, "height": 640})
            page.goto(scene.url + path)
            width = page.evaluate("document.documentElement.scrollWidth")
            keep_shot(page, f"{name}-phone")
            if width > 320:
                found.append(f"{name}: {width} px wide on a phone")
    complaints = [c for c in complaints if "404" not in c]
    assert (found, foreign, complaints) == ([], [], [])
