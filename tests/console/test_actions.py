"""Do an operator's actions say what they do, ask why, and do it through the services?"""

from __future__ import annotations

import html
import re

import pytest

from gpuaas.console.actions import NodeNumbers, node_actions
from gpuaas.console.fleet import strips_of
from gpuaas.kernel.models import Event
from placement import states
from placement.models import Claim, Node, NodeDrain, Slot
from placement.selectors import posture_of
from tenants.models import Tenant
from tests.builders import a_parts_catalogue, a_report, a_tenant, cut_slots
from tests.console.conftest import Fleet
from tests.portal.conftest import Browser


def test_a_node_is_approved_from_its_page_and_takes_work(fleet: Fleet) -> None:
    browser = fleet.browser()
    page = browser.get("/console/nodes/host-2/").content.decode()
    assert "8 slots can be leased from this moment on." in page
    answer = browser.send(
        "/console/nodes/host-2/approve/", {"reason": "burned in", "family": "h100x8"}
    )
    assert answer.headers["Location"] == "/console/nodes/host-2/"
    node = Node.objects.get(name="host-2")
    assert node.state == "ready"
    assert set(Slot.objects.filter(node=node).values_list("state", flat=True)) == {"approved"}
    event = Event.objects.get(kind="placement.node.approve", subject_id=node.pk)
    assert (event.actor["name"], event.reason) == ("op@platform.test", "burned in")


def test_a_drain_tells_what_stays_and_ends_again(fleet: Fleet) -> None:
    browser = fleet.browser()
    page = browser.get("/console/nodes/host-1/").content.decode()
    assert "The 3 live claims on it stay until they are released." in page
    browser.send("/console/nodes/host-1/drain/", {"reason": "firmware"})
    drain = NodeDrain.objects.get(node=fleet.host.node, ended_at__isnull=True)
    assert drain.reason == "firmware"
    page = browser.get("/console/nodes/host-1/").content.decode()
    assert "The node takes no new work" in page
    assert "End the drain" in page
    browser.send("/console/nodes/host-1/undrain/", {"reason": "done"})
    assert not NodeDrain.objects.filter(ended_at__isnull=True).exists()


def test_one_slot_is_drained_alone(fleet: Fleet) -> None:
    browser = fleet.browser()
    address = "/console/nodes/host-1/slot/"
    browser.send(address, {"slot": "7", "do": "drain", "reason": "fan"})
    assert NodeDrain.objects.get(ended_at__isnull=True).slot_index == 7
    for strange in ({"slot": "99"}, {"slot": "x"}, {"slot": "7", "do": "explode"}):
        wish = {"do": "drain", "reason": "x", **strange}
        assert browser.send(address, wish).status_code == 404
    browser.send(address, {"slot": "7", "do": "undrain", "reason": "fixed"})
    assert not NodeDrain.objects.filter(ended_at__isnull=True).exists()


@pytest.mark.parametrize("action", ["drain", "quarantine", "maintain"])
def test_an_action_without_a_reason_is_refused(fleet: Fleet, action: str) -> None:
    answer = fleet.browser().send(f"/console/nodes/host-1/{action}/", {"reason": " "})
    assert answer.status_code == 400
    assert "reason_missing" in answer.content.decode()
    assert fleet.host.fresh().state == "ready"


def test_a_node_is_quarantined_restored_and_retired_when_it_holds_nothing(fleet: Fleet) -> None:
    browser = fleet.browser()
    browser.send("/console/nodes/host-1/quarantine/", {"reason": "XID 79"})
    assert posture_of(fleet.host.fresh()) == "unavailable"
    browser.send("/console/nodes/host-1/restore/", {"reason": "replaced"})
    assert fleet.host.fresh().state == "ready"
    held = browser.send("/console/nodes/host-1/retire/", {"reason": "old"})
    assert held.status_code == 409
    browser.send("/console/nodes/host-2/retire/", {"reason": "old"})
    assert Node.objects.get(name="host-2").state == "retired"


def test_a_node_is_announced_and_invited_with_a_token_that_is_shown_once(fleet: Fleet) -> None:
    browser = fleet.browser()
    pool = fleet.host.node.pool_id
    made = browser.send(
        "/console/nodes/", {"name": "host-9", "pool": str(pool), "intended": "slices"}
    )
    assert made.headers["Location"] == "/console/nodes/host-9/"
    invited = browser.send("/console/nodes/host-9/join-token/")
    token = re.search(r"gpuaas_join_[\w-]+", invited.content.decode())
    assert token is not None
    assert invited.headers["Cache-Control"] == "no-store"
    assert token.group() not in browser.get("/console/nodes/host-9/").content.decode()
    bad = browser.send("/console/nodes/", {"name": "Host 9!", "pool": str(pool), "intended": "any"})
    assert bad.status_code == 400


def test_a_tenant_is_approved_suspended_and_resumed_with_reasons(fleet: Fleet) -> None:
    browser = fleet.browser()
    for action, state in (("approve", "active"), ("suspend", "suspended"), ("resume", "active")):
        browser.send(f"/console/tenants/initech/{action}/", {"reason": f"because {action}"})
        tenant = Tenant.objects.get(slug="initech")
        assert (tenant.state, tenant.state_reason) == (state, f"because {action}")
    assert browser.send("/console/tenants/acme/suspend/", {}).status_code == 400
    assert Tenant.objects.get(slug="acme").state == "active"


def test_a_blocked_cleanup_is_tried_again_and_ends_with_the_proof(fleet: Fleet) -> None:
    browser = fleet.browser()
    address = f"/console/allocations/{fleet.blocked.pk}/"
    assert "Try the cleanup again" in browser.get(address).content.decode()
    browser.send(f"{address}retry-cleanup/", {"reason": "scrubbed by hand"})
    fleet.host.work()
    fleet.blocked.refresh_from_db()
    assert fleet.blocked.state == "released"


def test_an_override_takes_two_people_and_stays_marked(fleet: Fleet) -> None:
    first, second = fleet.browser(), Browser.of(fleet.second)
    address = f"/console/allocations/{fleet.blocked.pk}/"
    first.send(f"{address}request-override/", {"reason": "host is scrapped"})
    same = first.send(f"{address}approve-override/", {"reason": "go"})
    assert same.status_code == 403
    assert "second_person_needed" in same.content.decode()
    page = second.get(address).content.decode()
    assert "op@platform.test asked for it" in page
    assert "WITHOUT proof" in page
    second.send(f"{address}approve-override/", {"reason": "agreed"})
    fleet.blocked.refresh_from_db()
    assert fleet.blocked.state == "released"
    assert "Overridden without proof" in second.get(address).content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "nodes/host-1/explode/",
        "tenants/acme/explode/",
        "allocations/{}/explode/",
    ],
)
def test_an_action_that_does_not_exist_does_nothing(fleet: Fleet, path: str) -> None:
    answer = fleet.browser().send("/console/" + path.format(fleet.blocked.pk), {"reason": "x"})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "nodes/host-1/drain/",
        "nodes/host-1/join-token/",
        "tenants/initech/approve/",
        "allocations/{}/retry-cleanup/",
    ],
)
def test_a_tenants_people_cannot_act_as_operators(fleet: Fleet, path: str) -> None:
    address = "/console/" + path.format(fleet.blocked.pk)
    answer = Browser.of(fleet.acme.owner).send(address, {"reason": "mine"})
    assert answer.status_code == 404
    assert not NodeDrain.objects.exists()
    assert Tenant.objects.get(slug="initech").state == "pending"


def test_an_action_without_the_forms_token_does_nothing(fleet: Fleet) -> None:
    answer = fleet.browser().post("/console/nodes/host-1/drain/", {"reason": "x"})
    assert answer.status_code == 403
    assert not NodeDrain.objects.exists()


@pytest.mark.parametrize("state", states.NodeState.values)
def test_only_moves_of_the_lifecycle_are_offered(state: str) -> None:
    offered = {a.name for a in node_actions(NodeNumbers(state, 0, 8, 0, False))}
    moves = {n for n, e in states.NODE.edges.items() if state in e.sources}
    assert offered & {"maintain", "quarantine", "restore", "retire"} == moves & {
        "maintain",
        "quarantine",
        "restore",
        "retire",
    }


def test_a_slot_with_residue_is_overridden_from_its_nodes_page_by_two_people(fleet: Fleet) -> None:
    fleet.host.report(residue={5: "left-by-somebody"})
    browser, other = fleet.browser(), Browser.of(fleet.second)
    page = html.unescape(browser.get("/console/nodes/host-1/").content.decode())
    assert "Blocked slots" in page
    assert "data of left-by-somebody" in page
    assert "Another operator than the one who asked" in page
    slot = Slot.objects.get(node=fleet.host.node, index=5)
    address = f"/console/nodes/host-1/slots/{slot.pk}/"
    assert browser.send(f"{address}explode/", {"reason": "x"}).status_code == 404
    browser.send(f"{address}request-override/", {"reason": "the GPU was swapped"})
    assert "op@platform.test asked for it." in other.get("/console/nodes/host-1/").content.decode()
    own = browser.send(f"{address}approve-override/", {"reason": "me again"})
    assert own.status_code == 403
    free = fleet.host.fresh().free_count
    other.send(f"{address}approve-override/", {"reason": "seen it"})
    assert fleet.host.fresh().free_count == free + 1
    event = Event.objects.get(kind="placement.slot.override_approve")
    assert (event.facts["slot_index"], event.facts["alone"]) == (5, False)


def test_a_fleets_strip_shows_residue_on_its_slot(fleet: Fleet) -> None:
    fleet.host.report(residue={5: "left-by-somebody"})
    (strip,) = strips_of([fleet.host.fresh()])
    assert "2 cleanup blocked" in strip.words
    assert (strip.free, fleet.host.fresh().free_count) == (4, 4)


def test_a_fleets_strip_shows_every_part_of_a_slot(fleet: Fleet) -> None:
    a_parts_catalogue()
    fleet.host.parts = ("share",)
    fleet.host.report()
    cut_slots(fleet.host, "share", 7)
    world = a_tenant("parts")
    for sku in ("h100.third", "h100.tenth"):
        assert world.order(sku).allocation_id is not None
    claims = Claim.objects.filter(tenant=world.tenant).order_by("amount_milli")
    Claim.objects.filter(pk=claims[0].pk).update(state="active")
    (strip,) = strips_of([fleet.host.fresh()])
    assert strip.words.endswith("1 in parts (1 in use, 1 reserved)") or strip.words.endswith(
        "1 in parts (1 reserved, 1 in use)"
    )
    assert len(strip.cells[7].roles) == 2
    assert "1 in parts" in fleet.browser().get("/console/nodes/").content.decode()


def test_a_lease_of_a_part_is_told_as_its_part_and_not_as_a_slot(fleet: Fleet) -> None:
    a_parts_catalogue()
    fleet.host.parts = ("share",)
    fleet.host.report()
    cut_slots(fleet.host, "share", 7)
    world = a_tenant("parts")
    world.order("h100.tenth", name="a-tenth")
    listed = fleet.browser().get("/console/allocations/?q=a-tenth").content.decode()
    assert ">100/1000 GPU</td>" in listed
    own = Browser.of(world.owner)
    assert ">100/1000 GPU</td>" in own.get("/t/parts/allocations/").content.decode()
    assert ">100/1000 GPU</td>" in own.get("/t/parts/tenant/").content.decode()


def test_a_slot_is_cut_from_the_node_s_page(fleet: Fleet) -> None:
    browser = fleet.browser()
    assert "Sell one slot whole" not in browser.get("/console/nodes/host-1/").content.decode()
    Node.objects.filter(pk=fleet.host.node.pk).update(topology=a_report("host-1").to_json())
    fleet.host.parts = ("mig",)
    fleet.host.report()
    page = browser.get("/console/nodes/host-1/").content.decode()
    assert "is in no slice any more" in page
    address = "/console/nodes/host-1/slot/"
    wish = {"slot": "7", "do": "cut", "cut": "mig", "reason": "small jobs"}
    assert browser.send(address, wish).status_code == 302
    assert Slot.objects.get(node=fleet.host.node, index=7).cut == "mig"
    event = Event.objects.get(kind="placement.node.cut")
    assert (event.reason, event.actor["name"]) == ("small jobs", "op@platform.test")
    page = browser.get("/console/nodes/host-1/").content.decode()
    assert "Parts of GPUs, the same as a table" in page
    assert "1000/1000" in page
