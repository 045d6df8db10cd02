"""Are the tenant's own pages clean in both schemes and on a phone, and do their forms live?"""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from admission.services import policies
from gpuaas.kernel.errors import ProductError
from placement.models import GpuDevice
from placement.services.workloads import WorkloadOrder, workload_create
from tenants.models import Project
from tenants.services import datasets, entitlements, storage
from tests.browser.conftest import Scene, keep_shot, sign_in
from tests.builders import OPERATOR

OPEN_ALL = "document.querySelectorAll('details.act').forEach(d => { d.open = true })"
FIGURES = {
    "parameters": 8_000_000_000,
    "milli_bytes_per_parameter": 2000,
    "layers": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "kv_bytes": 2,
    "context_tokens": 8192,
}


@pytest.fixture
def places(scene: Scene) -> list[tuple[str, str]]:
    """A tenant with workloads of each fate, data that has moved, and a listed catalogue."""
    acme, project = scene.acme, Project.objects.get(tenant=scene.acme.tenant)
    GpuDevice.objects.filter(node__name="dgx2-a").update(memory_bytes=32 * 2**30)
    storage.storage_declare(name="nvme-pool-a", kind="nvme", actor=OPERATOR)
    for zones in (["z1"], ["z1", "z2"]):
        datasets.dataset_declare(
            tenant_id=acme.tenant.pk,
            name="imagenet",
            zones=zones,
            storage=["nvme-pool-a"],
            required=len(zones) == 1,
            actor=acme.actor,
        )

    def submit(**order: object) -> object:
        return workload_create(
            tenant_id=acme.tenant.pk,
            project_id=project.pk,
            order=WorkloadOrder(sku="v100.slice", **order),  # type: ignore[arg-type]  # one literal each
            actor=acme.actor,
        )

    chat = submit(
        kind="model", name="chat", slots=1, replicas=2, batch_size=1, spec={"model": FIGURES}
    )
    submit(kind="job", name="waits-for-room", slots=8, replicas=3, wait=True)
    with pytest.raises(ProductError):
        submit(kind="service", name="too-large", slots=8, replicas=40)
    entitlements.catalogue_choose(
        tenant_id=acme.tenant.pk, catalogue="listed", reason="contract 17", actor=OPERATOR
    )
    entitlements.entitlement_grant(
        tenant_id=acme.tenant.pk, sku="v100.slice", reason="contract 17", actor=OPERATOR
    )
    here = chat.workload_id  # type: ignore[attr-defined]  # a ticket
    plan = "kind=model&name=assistant&sku=v100.slice&slots=1&replicas=2&dataset=imagenet"
    return [
        ("workloads", "/t/acme/workloads/"),
        ("workload", f"/t/acme/workloads/{here}/"),
        ("workload-new", "/t/acme/workloads/new/"),
        ("workload-plan", f"/t/acme/workloads/new/?{plan}"),
        ("workload-scale", f"/t/acme/workloads/{here}/scale/?replicas=4"),
        ("workload-fewer", f"/t/acme/workloads/{here}/scale/?replicas=1"),
        ("workload-move", f"/t/acme/workloads/{here}/placement/?zones=eu-1&datasets=imagenet"),
        ("workload-band", f"/t/acme/workloads/{here}/priority/?band=1"),
        ("workload-batch", f"/t/acme/workloads/{here}/batch-size/?batch_size=4"),
        ("workload-share", f"/t/acme/workloads/{here}/sharing/"),
        ("datasets", "/t/acme/datasets/"),
        ("dataset", "/t/acme/datasets/imagenet/"),
        ("decisions", "/t/acme/decisions/"),
        ("decisions-none", "/t/acme/decisions/?outcome=waiting_for_authority"),
        ("team", "/t/acme/team/"),
        ("project", "/t/acme/team/projects/default/"),
        ("tenant", "/t/acme/tenant/"),
        ("quota", "/t/acme/quota/"),
        ("requests", "/t/acme/requests/"),
        ("allocations", "/t/acme/allocations/"),
    ]


def test_the_tenants_pages_are_clean_in_light_and_dark_and_on_a_phone(
    scene: Scene, places: list[tuple[str, str]], page: Page
) -> None:
    sign_in(page, scene.url, scene.acme.owner.email)
    complaints: list[str] = []
    for name, path in places:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            answer = page.goto(scene.url + path)
            assert answer is not None
            assert answer.status == 200, path
            # Folded forms are looked at too.
            page.evaluate(
                "document.querySelectorAll('details.act').forEach(d => { d.open = true })"
            )
            found = Axe().run(page).response["violations"]
            complaints += [f"{name} {scheme}: {v['id']} {v['nodes'][:1]}" for v in found]
            keep_shot(page, f"{name}-{scheme}")
        page.set_viewport_size({"width": 390, "height": 800})
        keep_shot(page, f"{name}-phone")
        page.set_viewport_size({"width": 320, "height": 800})
        wide = page.evaluate("document.documentElement.scrollWidth")
        complaints += [f"{name}: {wide} px wide on a phone"] if wide > 320 else []
        page.set_viewport_size({"width": 1280, "height": 900})
    assert complaints == []


def test_the_plan_follows_the_form_and_is_sent_by_keyboard(
    scene: Scene, places: list[tuple[str, str]], page: Page
) -> None:
    sign_in(page, scene.url, scene.acme.owner.email)
    page.goto(f"{scene.url}/t/acme/workloads/new/")
    page.get_by_label("Name", exact=True).fill("by-hand")
    page.get_by_label("SKU").select_option("v100.slice")
    page.locator("#slots").fill("1")
    page.locator("#slots").press("Tab")
    page.wait_for_url("**slots=1**")
    page.get_by_role("button", name="Run it for").wait_for()
    page.get_by_role("button", name="Run it for").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/workloads/*-*/")
    assert page.get_by_role("heading", name="by-hand").is_visible()
    assert page.get_by_role("heading", name="The last decision, gate by gate").is_visible()
    page.get_by_role("link", name="Scale…").click()
    page.get_by_label("Replicas").fill("2")
    page.get_by_label("Replicas").press("Tab")
    page.wait_for_url("**replicas=2**")
    page.get_by_role("button", name="Scale for").click()
    page.get_by_text("Admitted. The decision is below.").wait_for()


def test_the_consoles_lists_of_decisions_and_rules_are_arranged_too(
    scene: Scene, places: list[tuple[str, str]], page: Page
) -> None:
    sign_in(page, scene.url, scene.operator.email)
    policies.policy_save(
        name="small",
        actions=[],
        expression="request.slots > 7",
        message="no",
        unblock="",
        tests=[{"name": "eight", "facts": {"request": {"slots": 8}}, "forbids": True}],
        actor=OPERATOR,
    )
    for name, address, column in (
        ("decisions", "decisions/?outcome=denied&days=30", "Facts"),
        ("policies", "policies/?state=draft", "Dry-run"),
    ):
        page.goto(f"{scene.url}/console/{address}")
        page.get_by_text("Columns").click()
        page.get_by_label(column, exact=True).uncheck()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Dense rows").click()
        page.get_by_text("Saved filters").click()
        page.get_by_label("Save these filters as").fill("mine")
        page.keyboard.press("Enter")
        keep_shot(page, f"c-{name}-tools")
        page.goto(f"{scene.url}/console/{name}/")
        assert page.get_by_role("columnheader", name=column).count() == 0
        dense = page.get_by_role("button", name="Dense rows")
        assert dense.get_attribute("aria-pressed") == "true"
        page.get_by_text("Saved filters").click()
        page.get_by_role("link", name="mine").click()
        page.wait_for_url(f"**/console/{address}")


def test_a_list_is_arranged_and_stays_so(
    scene: Scene, places: list[tuple[str, str]], page: Page
) -> None:
    sign_in(page, scene.url, scene.acme.owner.email)
    page.goto(f"{scene.url}/t/acme/decisions/?outcome=admitted")
    page.get_by_text("Columns").click()
    page.get_by_label("Facts").uncheck()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Dense rows").click()
    page.get_by_text("Saved filters").click()
    page.get_by_label("Save these filters as").fill("what went well")
    page.keyboard.press("Enter")
    page.goto(f"{scene.url}/t/acme/decisions/")
    assert page.get_by_role("columnheader", name="Facts").count() == 0
    assert page.get_by_role("columnheader", name="Why").count() == 1
    assert page.get_by_role("button", name="Dense rows").get_attribute("aria-pressed") == "true"
    page.get_by_text("Saved filters").click()
    keep_shot(page, "list-tools")
    page.get_by_role("link", name="what went well").click()
    page.wait_for_url("**/decisions/?outcome=admitted")
