"""Does every page of the console answer operators, and nobody else?"""

from __future__ import annotations

import re

import pytest
from django.test import Client

from admission.models import Decision
from placement.models import NodeTask
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser

PAGES = (
    "",
    "fleet/",
    "fleet/?posture=cleanup_blocked",
    "fleet/?by=tenant&view=list",
    "nodes/",
    "nodes/host-1/",
    "nodes/host-2/",
    "tasks/",
    "tasks/{task}/",
    "decisions/",
    "decisions/?outcome=admitted&days=30",
    "requests/{request}/",
    "approvals/",
    "policies/",
    "tiers/",
    "tiers/new/",
    "tiers/of/standard/",
    "cohorts/",
    "stock/",
    "storage/",
    "operators/",
    "tenants/acme/authority/",
    "tenants/acme/caps/",
    "tenants/acme/bursts/",
    "tenants/acme/standing/?tier=standard&cohort=-",
    "tenants/acme/catalogue/",
    "tenants/acme/members/",
    "tenants/acme/end/",
    "tenants/",
    "tenants/?name=nobody&tier=standard&state=active",
    "tenants/acme/",
    "allocations/",
    "allocations/{running}/",
    "allocations/{blocked}/",
    "search/?q=zzz",
)


def filled(fleet: Fleet, path: str) -> str:
    """The address with its ids filled in."""
    task = NodeTask.objects.filter(kind="slice.vm_release").first()
    assert task is not None
    return "/console/" + path.format(
        task=task.pk,
        request=fleet.running.request_id,
        running=fleet.running.pk,
        blocked=fleet.blocked.pk,
    )


@pytest.mark.parametrize("path", PAGES)
def test_an_operator_sees_the_page_and_a_tenant_does_not(fleet: Fleet, path: str) -> None:
    address = filled(fleet, path)
    assert fleet.browser().get(address).status_code == 200
    assert Browser.of(fleet.acme.owner).get(address).status_code == 404
    assert Client().get(address).status_code == 302


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_no_inline_script_no_style_and_no_foreign_address(
    fleet: Fleet, path: str
) -> None:
    answer = fleet.browser().get(filled(fleet, path))
    html = answer.content.decode()
    assert not re.search(r"<script(?![^>]*\ssrc=)", html)
    assert not re.search(r"\sstyle\s*=|<style|\son[a-z]+\s*=|javascript:", html)
    assert re.findall(r'(?:src|href|action)="((?:https?:)?//[^"]*)"', html) == []
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["nodes/nothing/", "tenants/nothing/", "allocations/01a21f7e-ef41-78cc-a2e4-5d5bb854a9c4/"],
)
def test_what_does_not_exist_is_told_with_its_code(fleet: Fleet, path: str) -> None:
    answer = fleet.browser().get(f"/console/{path}")
    assert answer.status_code == 404
    assert "not_found" in answer.content.decode()


def test_the_overview_counts_postures_and_names_the_work_that_waits(fleet: Fleet) -> None:
    html = fleet.browser().get("/console/").content.decode()
    for expected in ("host-2", "initech", "infer-1"):
        assert expected in html
    assert re.search(r'<div class="figure">1</div><span class="state s-blocked">.*cleanup', html)
    assert re.search(r'<div class="figure">0<span class="muted small"> of 16</span>', html) is None
    assert re.search(r'<div class="figure">5<span class="muted small"> of 16</span>', html)


def test_the_node_page_draws_the_host_and_tells_the_same_in_a_table(fleet: Fleet) -> None:
    html = fleet.browser().get("/console/nodes/host-2/").content.decode()
    assert 'role="img"' in html
    assert "2 NUMA nodes with 8 GPUs" in html
    table = html[html.index('id="h-slots"') : html.index("</table>", html.index('id="h-slots"'))]
    assert table.count('<th scope="row">') == 8
    for part in ("Desired", "Observed", "Executing", "Shown"):
        assert f"<h3>{part}</h3>" in html


def test_a_proof_tells_which_step_is_missing(fleet: Fleet) -> None:
    html = fleet.browser().get(f"/console/allocations/{fleet.blocked.pk}/").content.decode()
    assert "gpu scrubbed: not reported" in html
    assert "host-1" in html


def test_the_decision_shows_the_places_that_were_compared(fleet: Fleet) -> None:
    html = fleet.browser().get(f"/console/requests/{fleet.running.request_id}/").content.decode()
    assert "Places compared" in html
    digest = Decision.objects.get(request_id=fleet.running.request_id).digest
    assert digest[:16] in html


@pytest.mark.parametrize(
    ("words", "leads_to"),
    [
        ("host-2", "/console/nodes/host-2/"),
        ("GPU-host-1-5", "/console/nodes/host-1/"),
        ("initech", "/console/tenants/initech/"),
        ("Standard", "/console/tiers/of/standard/"),
        ("lease_lost", "/docs/reasons/lease_lost"),
    ],
)
def test_search_goes_to_the_only_hit(fleet: Fleet, words: str, leads_to: str) -> None:
    answer = fleet.browser().get("/console/search/", {"q": words})
    assert answer.headers["Location"] == leads_to


def test_a_strange_posture_is_told(fleet: Fleet) -> None:
    assert fleet.browser().get("/console/fleet/?posture=nonsense").status_code == 400
