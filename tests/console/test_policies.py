"""Do operators write, test, try out and switch on rules on pages that say what would change?"""

from __future__ import annotations

import re

from admission.models import PolicyRule
from tests.console.conftest import Fleet

PAGE = "/console/policies/"
RULE = {
    "name": "no-large-jobs",
    "expression": "request.slots > 1",
    "message": "At most one slot.",
    "tests": '[{"name": "two", "facts": {"request": {"slots": 2}}, "forbids": true}]',
}


def written(fleet: Fleet, **other: str) -> PolicyRule:
    """A draft, written on the page."""
    answer = fleet.browser().send(PAGE, {**RULE, **other})
    rule = PolicyRule.objects.latest("created_at")
    assert answer.headers["Location"] == f"{PAGE}{rule.pk}/"
    return rule


def test_a_rules_tests_are_run_before_anything_is_kept(fleet: Fleet) -> None:
    failing = RULE["tests"].replace("true", "false")
    answer = fleet.browser().send(PAGE, {**RULE, "tests": failing, "do": "check"})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "forbids: True, expected False" in page
    assert "request.slots &gt; 1" in page
    passing = fleet.browser().send(PAGE, {**RULE, "do": "check"}).content.decode()
    assert "passes" in passing
    assert not PolicyRule.objects.exists()


def test_bad_rules_are_refused_beside_the_field_and_keep_what_was_typed(fleet: Fleet) -> None:
    for field, value in (
        ("expression", "request.slots >"),
        ("expression", "nothing.known"),
        ("tests", "{not json"),
        ("tests", "[]"),
        ("name", "No Such Name"),
        ("actions", "explode"),
        ("message", ""),
    ):
        for do in ("keep", "check") if field in ("expression", "tests") else ("keep",):
            answer = fleet.browser().send(PAGE, {**RULE, field: value, "do": do})
            page = answer.content.decode()
            assert answer.status_code == 400, (field, value, do)
            assert f'id="id_{field}_error"' in page or 'class="fault"' in page
            assert "At most one slot." in page or field == "message"
    assert not PolicyRule.objects.exists()


def test_a_dry_run_says_how_many_would_end_otherwise_and_which(fleet: Fleet) -> None:
    rule, browser = written(fleet), fleet.browser()
    address = f"{PAGE}{rule.pk}/"
    assert "cannot be switched on" in browser.get(address).content.decode()
    browser.send(f"{address}dry-run/")
    page = browser.get(address).content.decode()
    rows = dict(
        re.findall(
            r'</svg>([a-z ]+)</span></th><td class="num">(\d+</td><td class="num">\d+)</td>', page
        )
    )
    # Two leases were admitted, of two slots and of one: the rule would refuse the first.
    assert rows["admitted"] == '2</td><td class="num">1'
    assert rows["denied"] == '0</td><td class="num">1'
    assert "<b>+1</b>" in page
    assert f"/console/requests/{fleet.running.request_id}/" in page
    assert f"/console/requests/{fleet.blocked.request_id}/" not in page
    rule.refresh_from_db()
    assert rule.state == "dry_run"


def test_a_rule_is_switched_on_and_retired_with_reasons(fleet: Fleet) -> None:
    rule, browser = written(fleet), fleet.browser()
    address = f"{PAGE}{rule.pk}/"
    early = browser.send(f"{address}activate/", {"reason": "now"})
    assert early.status_code == 400
    assert "transition_refused" in early.content.decode()
    browser.send(f"{address}dry-run/")
    silent = browser.send(f"{address}activate/", {"reason": ""})
    assert silent.status_code == 400
    assert 'id="activate-reason_error"' in silent.content.decode()
    for action, state in (("activate", "active"), ("retire", "retired")):
        browser.send(f"{address}{action}/", {"reason": f"because {action}"})
        rule.refresh_from_db()
        assert rule.state == state
        assert f"because {action}" in browser.get(address).content.decode()
    assert browser.send(f"{address}explode/", {"reason": "x"}).status_code == 404


def test_search_finds_the_versions_of_a_rule(fleet: Fleet) -> None:
    rule = written(fleet)
    answer = fleet.browser().get("/console/search/", {"q": "no-large-jobs"})
    assert answer.headers["Location"] == f"{PAGE}{rule.pk}/"


def test_a_next_version_shows_what_it_changed_and_who_wrote_it(fleet: Fleet) -> None:
    first = written(fleet)
    begun = fleet.browser().get(f"{PAGE}?from=no-large-jobs").content.decode()
    assert "request.slots &gt; 1</textarea>" in begun
    second = written(fleet, expression="request.slots > 3", tests=RULE["tests"].replace("2", "4"))
    page = fleet.browser().get(f"{PAGE}{second.pk}/").content.decode()
    assert "<del>request.slots &gt; 1</del>" in page
    assert "<ins>request.slots &gt; 3</ins>" in page
    assert f"{PAGE}{first.pk}/" in page
    assert "version <b>1</b>" in page
    assert "version <b>2</b>" in page
    assert "op@platform.test" in page


def test_rules_are_listed_by_state_and_by_what_they_are_asked_of(fleet: Fleet) -> None:
    written(fleet)
    written(fleet, name="for-jobs", actions="job.submit")
    browser = fleet.browser()

    def listed(query: str) -> list[str]:
        page = browser.get(f"{PAGE}?{query}").content.decode()
        return sorted(set(re.findall(r">([a-z-]+) v1</a>", page)))

    assert listed("state=draft") == ["for-jobs", "no-large-jobs"]
    assert listed("action=job.submit") == ["for-jobs", "no-large-jobs"]
    assert listed("action=workload.scale") == ["no-large-jobs"]
    assert listed("state=active") == []
    assert "None passes these filters" in browser.get(f"{PAGE}?state=active").content.decode()
    page = browser.get(PAGE).content.decode()
    assert 'data-list="console-policies"' in page
    assert 'data-tools="console-policies"' in page
    decisions = browser.get("/console/decisions/").content.decode()
    assert 'data-list="console-decisions"' in decisions
