"""Does an operator see what differs, since when and who acts, and decide it?"""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from gpuaas.kernel import clock
from placement.models import Allocation, AutomaticAction, Drift
from tenants.models import User
from tests.console.conftest import Fleet


def differing(fleet: Fleet, kind: str = "vm_unknown", **more: object) -> Drift:
    given = {"subject": f"vm:{kind}", "severity": "high", "actor": "operator", "state": "open"}
    given |= {"detail": "somebody-s is nothing that was asked for here"}
    return Drift.objects.create(
        node=fleet.host.node, kind=kind, last_seen_at=clock.db_now(), **{**given, **more}
    )


def test_what_differs_is_listed_and_shown_on_its_node_and_let_stand(fleet: Fleet) -> None:
    row = differing(fleet)
    browser = fleet.browser()
    page = browser.get("/console/drift/").content.decode()
    assert "somebody-s is nothing" in page
    assert "/console/nodes/host-1/" in page
    assert "somebody-s is nothing" in browser.get("/console/nodes/host-1/").content.decode()
    browser.send(f"/console/drift/{row.pk}/accept/", {"reason": "a probe of ours"})
    row.refresh_from_db()
    assert (row.state, row.decision) == ("accepted", "a probe of ours")
    assert "somebody-s" not in browser.get("/console/drift/?state=standing").content.decode()
    assert "a probe of ours" in browser.get("/console/drift/?state=accepted").content.decode()


def test_a_lost_machine_is_given_up_on_the_page(fleet: Fleet) -> None:
    row = differing(fleet, "vm_missing", allocation=fleet.running)
    fleet.browser().send(f"/console/drift/{row.pk}/remove/", {"reason": "the disk is lost"})
    found = Allocation.objects.get(pk=fleet.running.pk)
    assert (found.state, found.outcome_code) == ("releasing", "drift_vm_missing")


def test_what_was_never_ours_is_offered_no_removal(fleet: Fleet) -> None:
    row = differing(fleet)
    browser = fleet.browser()
    assert f"/console/drift/{row.pk}/remove/" not in browser.get("/console/drift/").content.decode()
    answer = browser.send(f"/console/drift/{row.pk}/remove/", {"reason": "away"})
    assert "Nothing can be removed by an order here" in answer.content.decode()


@pytest.mark.parametrize(("action", "state"), [("allow", "allowed"), ("reject", "rejected")])
def test_a_held_action_is_decided(fleet: Fleet, action: str, state: str) -> None:
    node = fleet.host.fresh()
    row = AutomaticAction.objects.create(
        pool=node.pool, node=node, kind="quarantine", reason="device_health"
    )
    browser = fleet.browser()
    assert f"/console/drift/{row.pk}/{action}/" in browser.get("/console/drift/").content.decode()
    browser.send(f"/console/drift/{row.pk}/{action}/", {"reason": "I looked"})
    row.refresh_from_db()
    assert (row.state, row.decision) == (state, "I looked")


def test_an_operator_who_only_reads_is_offered_nothing_and_refused(fleet: Fleet) -> None:
    row = differing(fleet)
    watcher = User.objects.create_user(
        "watch@platform.test", "correct horse battery", is_staff=True, operator_role="viewer"
    )
    reader = fleet.browser().of(watcher)
    assert "Accept…" not in reader.get("/console/drift/").content.decode()
    assert reader.send(f"/console/drift/{row.pk}/accept/", {"reason": "x"}).status_code == 403
    row.refresh_from_db()
    assert row.state == "open"


def test_a_long_list_costs_no_more_statements_than_a_short_one(fleet: Fleet) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as seen:
            fleet.browser().get("/console/drift/?state=all")
        return len(seen)

    differing(fleet)
    statements()
    one = statements()
    for k in range(12):
        differing(fleet, subject=f"vm:{k}")
    assert statements() == one
