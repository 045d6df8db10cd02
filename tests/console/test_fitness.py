"""Does a host's page show what it is fit for, and can it be decided there?"""

from __future__ import annotations

import re

from placement.models import NodeCapability, NodeTask, ReadinessEvidence, ReadinessTerms
from tests.builders import drive_all
from tests.console.conftest import Fleet
from tests.placement.test_health import tell


def test_a_hosts_page_shows_evidence_errors_and_cleanups_and_takes_decisions(fleet: Fleet) -> None:
    drive_all()
    browser = fleet.browser()
    host = fleet.host
    page = browser.get("/console/nodes/host-1/").content.decode()
    assert "Evidence" in page
    assert "simulated: its devices are files" in page
    where = "/console/nodes/host-1/fitness/"
    browser.send(where, {"do": "demote", "capability": "slices", "reason": "a bad riser"})
    row = NodeCapability.objects.get(node=host.node, capability="slices")
    assert (row.state, row.decision) == ("demoted", "a bad riser")
    browser.send(where, {"do": "promote", "capability": "slices", "reason": "changed"})
    row.refresh_from_db()
    assert row.state == "promoted"
    browser.send(where, {"do": "burn-in", "verdict": "pass", "reason": "24 hours"})
    burn = ReadinessEvidence.objects.get(node=host.node, check_name="burn_in")
    assert (burn.verdict, (burn.given_by or {})["kind"]) == ("pass", "user")
    page = browser.get("/console/nodes/host-1/").content.decode()
    assert "24 hours" in page
    assert browser.send(where, {"do": "nonsense", "reason": "x"}).status_code == 404


def test_a_free_host_is_burnt_in_from_its_page(fleet: Fleet) -> None:
    drive_all()
    browser = fleet.browser()
    page = browser.get("/console/nodes/host-2/").content.decode()
    assert "Burn it in" in page
    where = "/console/nodes/host-2/fitness/"
    wrong = browser.send(where, {"do": "burn-in-run", "hours": "many", "reason": "new"})
    assert (wrong.status_code, NodeTask.objects.filter(kind="node.burn_in").count()) == (400, 0)
    browser.send(where, {"do": "burn-in-run", "hours": "4", "reason": "new"})
    task = NodeTask.objects.get(kind="node.burn_in")
    assert (task.node.name, task.params["duration_s"], task.state) == ("host-2", 14400, "pending")
    page = browser.get("/console/nodes/host-2/").content.decode()
    assert ("Stop the burn-in" in page, "Burn it in…" in page) == (True, False)
    NodeTask.objects.filter(pk=task.pk).update(lease_epoch=1)
    browser.send(where, {"do": "burn-in-stop", "reason": "the wrong host"})
    task.refresh_from_db()
    assert (task.state, task.ended_at) == ("cancelled", None)
    page = browser.get("/console/nodes/host-2/").content.decode()
    assert ("being stopped" in page, "the wrong host" in page) == (True, True)


def test_an_error_is_shown_in_words_with_its_way_out(fleet: Fleet) -> None:
    tell(fleet.host, 64)
    page = fleet.browser().get("/console/nodes/host-1/").content.decode()
    assert "a memory row could not be remapped" in page
    assert "XID history" in page
    assert "GPUs that are not well" in page


def test_terms_of_fitness_are_shown_with_whom_they_move_before_they_are_set(fleet: Fleet) -> None:
    drive_all()
    browser = fleet.browser()
    assert "the product's" in browser.get("/console/readiness-terms/").content.decode()
    page = "/console/readiness-terms/h100x8/"
    assert 'value="30d"' in browser.get(page).content.decode()
    wanted = {"slices_burn_in": "7d", "baremetal_driver": "always", "reason": "burn in first"}
    wrong = browser.send(page, {**wanted, "slices_numa": "soon"})
    assert (wrong.status_code, "Such as 30d" in wrong.content.decode()) == (400, True)
    looked = browser.send(page, wanted).content.decode()
    assert "burn in missing: nothing was said about it" in looked.replace("_", " ")
    assert ReadinessTerms.objects.count() == 0
    seen = re.search(r'name="seen" value="([0-9a-f]{64})"', looked)
    assert seen is not None
    done = browser.send(page, {**wanted, "seen": seen[1]})
    assert done.status_code == 302
    row = ReadinessTerms.objects.get()
    assert row.required == {"slices": {"burn_in": 604800}, "baremetal": {"driver": None}}
    again = browser.get(page).content.decode()
    assert ('value="7d"' in again, "burn in first" in again) == (True, True)
    same = browser.send(page, wanted)
    assert "No term is different" in same.content.decode()
