"""Does a rule decide from the moment it is switched on, and can none of them do harm?"""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission import rules
from admission.domain.policy import BUDGET_S, MAX_LENGTH, SAMPLE, ask, judge, merged
from admission.errors import PolicyBroken, PolicyForbids, PolicyInvalid, PolicyTestsFailed
from admission.models import Decision, PolicyRule
from admission.services.policies import (
    policy_activate,
    policy_check,
    policy_retire,
    policy_save,
    policy_try_out,
)
from gpuaas.kernel.errors import TransitionRefused
from gpuaas.kernel.models import Event
from placement.errors import SkuUnavailable
from placement.models import Claim
from tenants.errors import EnvelopeExceeded
from tenants.models import QuotaCounter
from tests.builders import OPERATOR, a_catalogue, a_host, a_tenant

BIG = "request.slots > 4"
BIG_TESTS = [
    {"name": "four are fine", "facts": {"request": {"slots": 4}}, "forbids": False},
    {"name": "five are too many", "facts": {"request": {"slots": 5}}, "forbids": True},
]


def a_rule(expression: str = BIG, *, name: str = "not-so-big", **more: Any) -> PolicyRule:
    """A draft, kept through the service."""
    return policy_save(
        name=name,
        actions=more.pop("actions", []),
        expression=expression,
        message=more.pop("message", "At most four slots at once."),
        tests=more.pop("tests", BIG_TESTS),
        actor=OPERATOR,
        **more,
    )


def switched_on(rule: PolicyRule) -> PolicyRule:
    """Tried out and activated."""
    policy_try_out(rule_id=rule.pk, actor=OPERATOR)
    return policy_activate(rule_id=rule.pk, reason="test", actor=OPERATOR)


REFUSED = {
    "nothing at all": "  ",
    "a syntax error": "request.slots >",
    "a name nobody knows": "tennant.slug == 'acme'",
    "a field that is not among the facts": "request.slotz > 4",
    "a comparison of unlike types": "request.slots > 'four'",
    "an answer that is no truth value": "request.slots + 1",
    "a division by nothing": "request.slots / 0 == 1",
    "a function that is not offered": "request.sku.matches('^(h|a)+$')",
    "a comprehension in a comprehension": "request.zones.all(a, request.zones.all(b, a == b))",
    "two comprehensions": "request.zones.all(a, a == '') || request.zones.exists(a, a == '')",
    "a list that is too long": f"request.slots in [{','.join(map(str, range(65)))}]",
    "brackets that are too deep": "(" * 13 + "true" + ")" * 13,
    "an expression that is too long": "true || " * 300 + "true",
    "a character that hides": "tenant.slug == '\u202eacme'",
    "a NUL": "tenant.slug == '\x00'",
    "a string over many lines": "tenant.slug == '''a\nb'''",
}


@pytest.mark.parametrize("expression", REFUSED.values(), ids=REFUSED.keys())
def test_a_rule_is_not_kept_that_holds(expression: str) -> None:
    began = time.perf_counter()
    with pytest.raises(PolicyInvalid) as refused:
        policy_check(expression=expression, tests=BIG_TESTS)
    assert refused.value.errors[0].pointer == "/expression"
    assert time.perf_counter() - began < 1.0


KEPT = {
    "a comprehension": "request.zones.exists(z, z.startsWith('eu-')) && tenant.cohort == ''",
    "a word of a comprehension in a string": "tenant.slug == '.all(.map(.filter('",
    "a window of time": "time.hour >= 22 || time.weekday in [6, 7]",
    "a conversion": "double(quota.used_milli) / 8.0 > 1000.0",
}


@pytest.mark.parametrize("expression", KEPT.values(), ids=KEPT.keys())
def test_a_rule_may_use(expression: str) -> None:
    results, worst_us = policy_check(
        expression=expression, tests=[{"name": "midday", "facts": {}, "forbids": False}]
    )
    assert [result.passed for result in results] == [True]
    assert worst_us < BUDGET_S * 1e6


def test_the_costliest_expression_within_the_bounds_stays_within_the_budget() -> None:
    part = "z + z + z + z == z || "
    expression = f"request.zones.exists(z, {part * ((MAX_LENGTH - 60) // len(part))}false)"
    _, worst_us = policy_check(
        expression=expression, tests=[{"name": "none", "facts": {}, "forbids": False}]
    )
    assert worst_us < BUDGET_S * 1e6


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="()[]!&|<>=.,'\"?:+-*/% \nabcrequestslotsin019", max_size=300))
def test_no_text_is_taken_for_a_rule_that_then_fails_or_takes_long(text: str) -> None:
    began = time.perf_counter()
    row = PolicyRule(name="any", rule_version=1, expression=text, actions=[])
    try:
        rule, _ = rules.checked(row)
    except rules.BadExpression:
        answer = ask(rules.compiled(row), SAMPLE)
        assert answer is None or answer.detail
    else:
        answer = ask(rule, SAMPLE)
        assert answer is None or not answer.broken
    assert time.perf_counter() - began < 1.0


def test_a_rule_that_cannot_be_asked_forbids_with_its_name_and_others_still_decide() -> None:
    fine = rules.compiled(PolicyRule(name="a", rule_version=1, expression=BIG, actions=[]))
    broken = rules.compiled(
        PolicyRule(name="b", rule_version=3, expression="request.nope > 1", actions=["job.submit"])
    )
    lease = merged({"action": "allocation.create"})
    job = merged({"action": "job.submit"})
    assert judge([fine, broken], lease) is None
    answer = judge([fine, broken], job)
    assert answer is not None
    assert (answer.rule, answer.version, answer.broken) == ("b", 3, True)
    assert "nope" in answer.detail


def test_a_rule_that_takes_longer_than_its_budget_counts_as_broken() -> None:
    ticks = count(step=BUDGET_S * 2)
    rule = rules.compiled(PolicyRule(name="slow", rule_version=1, expression="false", actions=[]))
    answer = ask(rule, SAMPLE, lambda: next(ticks))
    assert answer is not None
    assert answer.broken
    assert "longer" in answer.detail


def test_a_rule_held_up_once_by_the_interpreter_is_asked_again_and_believed() -> None:
    ticks = iter([0.0, BUDGET_S * 2, 1.0, 1.0 + BUDGET_S / 2])
    rule = rules.compiled(PolicyRule(name="fine", rule_version=1, expression="false", actions=[]))
    assert ask(rule, SAMPLE, lambda: next(ticks)) is None
    assert list(ticks) == []


@pytest.mark.django_db(transaction=True)
def test_a_rule_decides_from_its_activation_to_its_retirement() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    rule = a_rule()
    acme.order(slots=5)
    with pytest.raises(TransitionRefused):
        policy_activate(rule_id=rule.pk, reason="untried", actor=OPERATOR)
    switched_on(rule)
    used = QuotaCounter.objects.get(tenant=acme.tenant).used_milli
    with pytest.raises(PolicyForbids) as refused:
        acme.order(slots=5)
    assert refused.value.facts["rule"] == "not-so-big"
    assert "four slots" in refused.value.detail
    assert QuotaCounter.objects.get(tenant=acme.tenant).used_milli == used
    decision = Decision.objects.get(pk=refused.value.facts["decision"])
    assert decision.policy_version == rules.version_of(str(rule.pk))
    assert decision.facts["request"]["slots"] == 5
    policy_retire(rule_id=rule.pk, reason="over", actor=OPERATOR)
    with pytest.raises(SkuUnavailable):
        acme.order(slots=5)
    kinds = set(Event.objects.filter(subject_id=rule.pk).values_list("kind", flat=True))
    assert kinds == {
        f"admission.policyrule.{edge}" for edge in ("save", "try_out", "activate", "retire")
    }


@pytest.mark.django_db(transaction=True)
def test_a_dry_run_says_what_would_have_been_refused_and_refuses_nothing() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    acme.order(slots=5)
    acme.order(slots=1)
    with pytest.raises(EnvelopeExceeded):
        a_tenant("tiny", envelope_slots=1).order(slots=6)
    rule = policy_try_out(rule_id=a_rule().pk, actor=OPERATOR)
    report = rule.report
    assert report is not None
    assert (report["looked_at"], report["refuses"], report["newly_refused"]) == (3, 2, 1)
    assert (report["refused_before"], report["errors"]) == (1, 0)
    assert [e["tenant"] for e in report["examples"]] == ["acme"]
    assert acme.order(slots=1).allocation is not None


@pytest.mark.django_db(transaction=True)
def test_a_new_version_takes_the_place_of_the_one_before() -> None:
    first = switched_on(a_rule())
    second = a_rule("request.slots > 6", tests=[{"name": "x", "facts": {}, "forbids": False}])
    assert second.rule_version == 2
    switched_on(second)
    first.refresh_from_db()
    assert first.state == "retired"
    assert PolicyRule.objects.get(state="active") == second


@pytest.mark.django_db(transaction=True)
def test_a_rule_whose_own_tests_fail_is_not_even_tried_out() -> None:
    rule = a_rule(tests=[{"name": "wrong", "facts": {"request": {"slots": 9}}, "forbids": False}])
    with pytest.raises(PolicyTestsFailed) as refused:
        policy_try_out(rule_id=rule.pk, actor=OPERATOR)
    assert "wrong" in refused.value.detail
    rule.refresh_from_db()
    assert rule.state == "draft"


@pytest.mark.django_db(transaction=True)
def test_a_rule_broken_behind_our_back_closes_only_what_it_is_about() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    a_host()
    switched_on(a_rule(actions=["allocation.create"]))
    PolicyRule.objects.update(expression="request.gone > 1")
    rules.forget()
    with pytest.raises(PolicyBroken) as refused:
        acme.order(slots=1)
    assert refused.value.facts["rule"] == "not-so-big"
    assert Claim.objects.count() == 0


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("/name", {"name": "No Name"}),
        ("/actions", {"actions": ["dance"]}),
        ("/message", {"message": " "}),
        ("/message", {"message": "x" * 301}),
        ("/tests", {"tests": []}),
        ("/tests/0/forbids", {"tests": [{"name": "n", "facts": {}, "forbids": "yes"}]}),
        ("/tests/0/facts", {"tests": [{"name": "n", "facts": {"x": 1}, "forbids": True}]}),
    ],
)
@pytest.mark.django_db
def test_a_wrong_field_is_named_and_nothing_is_kept(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        a_rule(**change)
    assert refused.value.errors[0].pointer == field
    assert PolicyRule.objects.count() == 0
