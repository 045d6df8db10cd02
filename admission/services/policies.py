"""How does an operator's rule come to decide: saved, tested, tried out, switched on, retired?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Max

from admission.domain.outcome import DENIED, OUTCOMES, outcome_of
from admission.domain.policy import SAMPLE, Rule, TestResult, ask, merged, own_tests
from admission.errors import PolicyInvalid, PolicyTestsFailed
from admission.models import Action, Decision, PolicyRule
from admission.rules import BadExpression, checked, compiled
from admission.states import PolicyState
from gpuaas.kernel import clock, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import FieldError, NotFound
from gpuaas.kernel.transitions import advance

LOOK_BACK = 500
MOST_LOOK_BACK = 5000
EXAMPLES = 20
MAX_TESTS = 50
MAX_RULES = 200
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?")
_LOCK = 0x67706161


def _invalid(field: str, detail: str) -> PolicyInvalid:
    return PolicyInvalid(detail, errors=(FieldError(f"/{field}", "invalid", detail),))


def _tests(given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if not given:
        raise _invalid("tests", "a rule brings at least one test of its own")
    if len(given) > MAX_TESTS:
        raise _invalid("tests", f"{len(given)} tests; {MAX_TESTS} may be")
    out = []
    for i, test in enumerate(given):
        facts = test.get("facts", {})
        if not isinstance(test.get("name"), str) or not test["name"].strip():
            raise _invalid(f"tests/{i}/name", "a test has a name")
        if not isinstance(test.get("forbids"), bool):
            raise _invalid(f"tests/{i}/forbids", "true or false: whether the rule forbids this")
        if not isinstance(facts, dict) or set(facts) - set(SAMPLE):
            raise _invalid(f"tests/{i}/facts", f"a map of {', '.join(SAMPLE)}")
        for name, value in facts.items():
            if isinstance(SAMPLE[name], dict) and (
                not isinstance(value, dict) or set(value) - set(SAMPLE[name])
            ):
                raise _invalid(
                    f"tests/{i}/facts/{name}", f"a map of {', '.join(sorted(SAMPLE[name]))}"
                )
        out.append({"name": test["name"][:120], "facts": facts, "forbids": test["forbids"]})
    return out


def _checked(row: PolicyRule) -> tuple[Rule, int]:
    try:
        return checked(row)
    except BadExpression as error:
        raise _invalid("expression", str(error)) from error


def policy_check(
    *, expression: str, tests: Sequence[Mapping[str, Any]]
) -> tuple[list[TestResult], int]:
    """How an expression's tests go, and its worst case in microseconds; nothing is kept.

    Raises PolicyInvalid, with the field named.
    """
    row = PolicyRule(name="check", rule_version=0, expression=expression, actions=[])
    rule, worst = _checked(row)
    return own_tests(rule, _tests(tests)), worst


@transaction.atomic
def policy_save(
    *,
    name: str,
    actions: Sequence[str],
    expression: str,
    message: str,
    tests: Sequence[Mapping[str, Any]],
    actor: Actor,
    unblock: str = "",
) -> PolicyRule:
    """Keep a new version of a rule as a draft; earlier versions stay as they are.

    ``actions`` empty: every action. Raises PolicyInvalid, with the field named, when a bound
    is broken; nothing is written then.
    """
    if not _NAME.fullmatch(name):
        raise _invalid("name", "lower-case letters, digits and hyphens, at most 60")
    unknown = sorted(set(actions) - set(Action.values))
    if unknown:
        raise _invalid("actions", f"unknown action {unknown[0]!r}")
    if not message.strip() or len(message) > 300 or "\x00" in message:
        raise _invalid("message", "what the tenant is told, at most 300 characters")
    if len(unblock) > 300 or "\x00" in unblock:
        raise _invalid("unblock", "at most 300 characters")
    _serialise()
    newest = PolicyRule.objects.filter(name=name).aggregate(n=Max("rule_version"))["n"] or 0
    row = PolicyRule(
        name=name,
        rule_version=newest + 1,
        actions=sorted(set(actions)),
        expression=expression,
        message=message.strip(),
        unblock=unblock.strip(),
        tests=_tests(tests),
        author=actor.as_json(),
    )
    _, worst = _checked(row)
    row.save()
    events.record(
        kind="admission.policyrule.save",
        subject=row,
        actor=actor,
        after={"name": name, "rule_version": row.rule_version, "expression": expression},
        facts={"worst_us": worst, "actions": row.actions},
    )
    return row


def _serialise() -> None:
    """One change of the rules at a time, for the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def _rule(rule_id: UUID) -> PolicyRule:
    row = PolicyRule.objects.filter(pk=rule_id).first()
    if row is None:
        raise NotFound
    return row


def _must_pass(row: PolicyRule) -> tuple[Rule, int]:
    rule, worst = _checked(row)
    failed = [result for result in own_tests(rule, row.tests) if not result.passed]
    if failed:
        raise PolicyTestsFailed(
            f"{failed[0].name}: {failed[0].detail}", failed=[asdict(result) for result in failed]
        )
    return rule, worst


def _replayed(rule: Rule, last: int) -> dict[str, Any]:
    """What the rule would have said to recent decisions, from the facts kept with them."""
    refuses = refused_before = errors = looked = newly = 0
    was: Counter[str] = Counter()
    would: Counter[str] = Counter()
    examples: list[dict[str, Any]] = []
    rows = Decision.objects.exclude(facts={}).select_related("tenant").order_by("-created_at")
    for decision in rows[:last]:
        seen = merged(decision.facts)
        if rule.actions and seen["action"] not in rule.actions:
            continue
        looked += 1
        before = decision.verdict == "deny"
        refused_before += before
        outcome = outcome_of(decision.verdict, decision.code)
        was[outcome] += 1
        answer = ask(rule, seen)
        if answer is None:
            would[outcome] += 1
            continue
        would[outcome if before else DENIED] += 1
        errors += answer.broken
        refuses += not answer.broken
        newly += not before
        if not before and len(examples) < EXAMPLES:
            examples.append(
                {
                    "decision": str(decision.pk),
                    "tenant": decision.tenant.slug if decision.tenant else "",
                    "at": decision.created_at.isoformat(),
                    "verdict": decision.verdict,
                    "outcome": outcome,
                    "broken": answer.broken,
                    "detail": answer.detail,
                }
            )
    return {
        "looked_at": looked,
        "refuses": refuses,
        "newly_refused": newly,
        "refused_before": refused_before,
        "errors": errors,
        "outcomes": {name: [was[name], would[name]] for name in OUTCOMES},
        "examples": examples,
    }


@transaction.atomic
def policy_try_out(*, rule_id: UUID, actor: Actor, last: int = LOOK_BACK) -> PolicyRule:
    """Ask the rule about the last recorded decisions and keep the report; nothing is refused.

    Raises PolicyTestsFailed while its own tests do not pass. May be repeated.
    """
    row = _rule(rule_id)
    rule, worst = _must_pass(row)
    report = {
        **_replayed(rule, max(1, min(last, MOST_LOOK_BACK))),
        "tests": len(row.tests),
        "worst_us": worst,
        "at": clock.db_now().isoformat(),
    }
    if row.state == PolicyState.DRY_RUN:
        row.report = report
        row.save(update_fields=["report"])
        events.record(
            kind="admission.policyrule.try_again", subject=row, actor=actor, facts=_told(report)
        )
        return row
    return advance(row, "try_out", actor=actor, changes={"report": report}, facts=_told(report))


def _told(report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in report.items() if name not in ("at", "examples", "outcomes")
    }


@transaction.atomic
def policy_activate(*, rule_id: UUID, reason: str, actor: Actor) -> PolicyRule:
    """Switch a rule on that was tried out; the version before it is retired with the same move.

    It holds for every decision that begins after this is committed, in every process.
    """
    _serialise()
    row = _rule(rule_id)
    if row.state == PolicyState.ACTIVE:
        return row
    _must_pass(row)
    active = PolicyRule.objects.filter(state=PolicyState.ACTIVE)
    if active.exclude(name=row.name).count() >= MAX_RULES:
        raise _invalid("name", f"{MAX_RULES} rules are active already")
    for earlier in active.filter(name=row.name):
        advance(earlier, "retire", actor=actor, reason=f"version {row.rule_version} follows")
    return advance(
        row,
        "activate",
        actor=actor,
        reason=reason,
        facts={"name": row.name, "rule_version": row.rule_version},
    )


@transaction.atomic
def policy_retire(*, rule_id: UUID, reason: str, actor: Actor) -> PolicyRule:
    """Switch a rule off, or drop a draft. Repeating it is one."""
    _serialise()
    row = _rule(rule_id)
    if row.state == PolicyState.RETIRED:
        return row
    return advance(
        row,
        "retire",
        actor=actor,
        reason=reason,
        facts={"name": row.name, "rule_version": row.rule_version},
    )


def policy_results(row: PolicyRule) -> list[TestResult]:
    """How a rule's own tests go now."""
    return own_tests(compiled(row), row.tests)
