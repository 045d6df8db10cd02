"""Which browser do the tests drive, and on what world?

Where there is no chromium they are skipped, and say so. Screenshots go to the folder in
``SCREENSHOTS_TO``, when it is set, for a person to look at.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from gpuaas.kernel import clock
from gpuaas.kernel.measuring import measures_sweep
from gpuaas.kernel.transitions import advance
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.slots import topology_report
from placement.errors import SkuUnavailable
from placement.models import Allocation, Node, NodeFamily
from placement.node_tasks import TopologyReport
from placement.services import approvals, maintenance, nodes, slots
from placement.services.allocations import allocation_release
from placement.services.projections import projections_refresh
from tenants.models import User
from tenants.services import catalogue
from tests.builders import (
    BOOT,
    CLASS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_member,
    a_tenant,
)
from tests.kernel.factories import all_sealed

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PASSWORD = "correct horse battery"
SETTLED = """
for (const one of document.getAnimations()) {
    try { one.finish(); } catch { one.cancel(); }
}
"""
"""Has colours that are changing stand where they will. Nothing is waited for: a browser that draws
no frame would never end an animation by itself."""
TOPOLOGIES = Path(__file__).parents[2] / "deploy" / "demo" / "topology"
HOSTS = {
    "h100-a": "azure-ndv5-topo.xml",
    "a100-a": "azure-ndv4-topo.xml",
    "nc-a": "azure-ncv4-topo.xml",
    "p4d-a": "aws-p4d-24xl-topo.xml",
    "dgx2-a": "hwloc-nvidiaDGX2.xml",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here is a browser test, and is skipped loudly without a browser."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.browser)
            if not Path(CHROMIUM).exists():
                item.add_marker(pytest.mark.skip(reason=f"NO BROWSER at {CHROMIUM}: not tested"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the run."""
    # Playwright's loop lives in this thread; Django would take it for an async context.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@dataclass
class Scene:
    """A small fleet with tenants in every interesting state, behind a running server."""

    url: str
    acme: TenantWorld
    operator: User
    host: Host
    running: Allocation
    blocked: Allocation


def imported_report(name: str) -> TopologyReport:
    """A real topology with UUIDs given to GPUs whose file has none, as simulated hosts do."""
    raw = topology_report(load_topology_file(TOPOLOGIES / HOSTS[name]), name).to_json()
    for gpu in raw["gpus"]:
        if gpu["uuid"] is None:
            gpu["uuid"] = f"GPU-{abs(hash((name, gpu['index']))) % 16**8:08x}-0000-{name}"
            gpu["uuid_source"] = "simulated"
    uuids = {gpu["index"]: gpu["uuid"] for gpu in raw["gpus"]}
    for slot in raw["slots"]:
        slot["gpu_uuid"] = uuids[slot["gpu_index"]]
    return TopologyReport.from_json(raw)


def real_host(name: str, *, approve: bool = True) -> Host:
    """A host of a topology file: discovered, and approved unless told otherwise."""
    report = imported_report(name)
    node = nodes.node_create(name=name, actor=OPERATOR, zone="eu-1", rack=f"r{len(name)}")
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    slots.slots_take(node, report, actor=OPERATOR)
    Node.objects.filter(pk=node.pk).update(
        boot_id=BOOT, topology=report.to_json(), topology_at=node.state_since, agent_version="0.1.0"
    )
    if approve:
        family, _ = NodeFamily.objects.get_or_create(
            name=name, defaults={"title": name.upper(), "slots": len(report.slots)}
        )
        approvals.node_approve(node_id=node.pk, actor=OPERATOR, reason="test", family=family.name)
        host = Host(Node.objects.get(pk=node.pk))
        host.report()
        return host
    return Host(Node.objects.get(pk=node.pk))


@pytest.fixture
def scene(live_server: LiveServer, settings: Settings) -> Scene:
    """The scene, in which operators need no second factor, as in the demo."""
    settings.OPERATOR_FACTOR_GRACE = True
    a_catalogue()
    operator = User.objects.create_user(
        "op@example.test", PASSWORD, is_staff=True, operator_role="administrator"
    )
    acme = a_tenant("acme", envelope_slots=24)
    globex = a_tenant("globex", envelope_slots=24)
    a_tenant("initech", approve=False)
    a_member(acme, "viewer")
    plain = a_host("plain-1")
    dgx, p4d = real_host("dgx2-a"), real_host("p4d-a")
    for sku, family in (("v100.slice", "dgx2-a"), ("a100.slice", "p4d-a")):
        catalogue.sku_create(
            name=sku,
            title=sku.upper(),
            shape="gpu_slice",
            family=family,
            resource_class=CLASS,
            hour_micro=1_250_000,
            actor=OPERATOR,
            slots_max=8,
        )
        catalogue.sku_publish(sku=sku, actor=OPERATOR)
    real_host("h100-a")
    real_host("a100-a")
    real_host("nc-a", approve=False)
    running = acme.order(slots=2, name="train-1").allocation
    blocked = globex.order("v100.slice", slots=2, name="infer-7").allocation
    acme.order("v100.slice", slots=4, name="batch-2")
    globex.order("a100.slice", slots=1, name="notebook")
    for host in (plain, dgx, p4d):
        host.work()
    assert running is not None
    assert blocked is not None
    allocation_release(allocation_id=blocked.pk, reason="done", actor=globex.actor)
    dgx.work(skip=("gpu_scrubbed",))
    acme.order("v100.slice", slots=3, name="second")
    nodes.node_drain(node_id=p4d.node.pk, reason="firmware update", actor=OPERATOR)
    nodes.node_drain(node_id=dgx.node.pk, reason="fan is loud", actor=OPERATOR, slot_index=12)
    for host, days in ((plain, 5), (dgx, 9)):
        starts = clock.db_now() + timedelta(days=days)
        maintenance.window_plan(
            selector=maintenance.Selector(nodes=(host.node.name,)),
            starts_at=starts,
            ends_at=starts + timedelta(hours=30),
            reason="new firmware",
            actor=OPERATOR,
            announce=host is plain,
        )
    for host in (plain, dgx, p4d):
        host.report()
    Host(Node.objects.get(name="a100-a"), seq=5).report("iommu_missing")
    with pytest.raises(SkuUnavailable):
        acme.order(slots=8)
    acme.order(slots=8, wait=True)
    projections_refresh()
    all_sealed()
    measures_sweep()
    return Scene(live_server.url, acme, operator, plain, running, blocked)


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """A fresh browser profile, in which every request must stay at home."""
    made = chromium.new_context(viewport={"width": 1280, "height": 900})
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page."""
    return context.new_page()


def sign_in(page: Page, url: str, email: str) -> None:
    """Sign in as a person does, by keyboard."""
    page.goto(f"{url}/sign-in/")
    # The first field takes the focus by itself, a moment after the page is there.
    expect(page.locator("input:focus")).to_have_count(1)
    page.keyboard.type(email)
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda where: "sign-in" not in where)


def keep_shot(page: Page, name: str) -> None:
    """Keep a screenshot where somebody asked for it."""
    folder = os.environ.get("SCREENSHOTS_TO", "")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
