"""Do operators see what moves and terms would touch before they confirm exactly that?"""

from __future__ import annotations

import re

import pytest

from placement.models import Defragmentation, DefragPolicy, Node, PlacementTerms, Scoring
from tenants.models import SlaTier
from tests.admission.test_workloads import run_it
from tests.builders import a_host
from tests.console.conftest import Fleet

pytestmark = pytest.mark.django_db(transaction=True)


def seen_in(html: str) -> str:
    """The digest that the page's form carries."""
    found = re.search(r'name="seen" value="([0-9a-f]{64})"', html)
    assert found is not None
    return found[1]


def test_a_plan_is_shown_and_only_that_plan_is_run(fleet: Fleet) -> None:
    SlaTier.objects.update(protected_run_s=0)
    other = a_host("host-9")
    Node.objects.exclude(pk=other.node.pk).update(schedulable=False)
    run_it(fleet.acme, name="mover", slots=2, movable=True)
    other.work()
    Node.objects.filter(name="host-1").update(schedulable=True)
    browser = fleet.browser()
    path = "/console/defrag/?sku=h100.slice&slots=8"
    html = browser.get(path).content.decode()
    assert "1 moves make room on host-9" in html
    assert "2 leaving, 6 free" in html
    assert "Moves are not allowed in default" in html
    policy = {"enabled": "on", "moves": 4, "lost_milli": 0, "from_hour": 0, "until_hour": 0}
    browser.send("/console/defrag/policies/default/", {**policy, "reason": "quiet"})
    assert DefragPolicy.objects.get().enabled
    html = browser.get(path).content.decode()
    wanted = {"sku": "h100.slice", "slots": 8, "reason": "room"}
    stale = browser.send("/console/defrag/", {**wanted, "seen": "0" * 64})
    assert stale.status_code == 302
    assert "sku=h100.slice" in stale["Location"]
    assert not Defragmentation.objects.exists()
    browser.send("/console/defrag/", {**wanted, "seen": seen_in(html)})
    assert Defragmentation.objects.get().reason == "room"
    assert "running" in browser.get("/console/defrag/").content.decode()


def test_terms_show_what_they_touch_before_they_are_set(fleet: Fleet) -> None:
    browser = fleet.browser()
    page = "/console/placement-terms/sku/h100.slice/"
    given = {"alone": "wiring", "driver_min": "550", "reason": "sold as isolated"}
    first = browser.send(page, given).content.decode()
    assert "No host could hold h100.slice any more" in first
    assert "2 running allocations keep what they were promised" in first
    assert not PlacementTerms.objects.exists()
    browser.send(page, {**given, "seen": seen_in(first)})
    assert PlacementTerms.objects.get().driver_min == [550]
    html = browser.get(page).content.decode()
    assert "version 1" in html
    assert "sold as isolated" in html
    assert "sold as isolated" in browser.get("/console/placement-terms/").content.decode()
    wrong = browser.send(page, {**given, "driver_min": "new", "tenants": "nobody"})
    assert wrong.status_code == 400


def test_weights_are_set_with_a_reason(fleet: Fleet) -> None:
    browser = fleet.browser()
    assert "as the product comes" in browser.get("/console/scoring/").content.decode()
    weights = {"gap": 1, "fragment": 2, "stranded": 3, "broken": 4}
    assert browser.send("/console/scoring/", weights).status_code == 400
    browser.send("/console/scoring/", {**weights, "reason": "a trial"})
    assert Scoring.objects.get().reason == "a trial"
