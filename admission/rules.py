"""Which rules are active, and how is an expression evaluated?  The one place that knows CEL."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import cel

from admission.domain.policy import (
    References,
    Rule,
    ask,
    trouble_after,
    trouble_before,
    worst_sample,
)
from admission.models import PolicyRule
from admission.states import PolicyState
from gpuaas.kernel import clock

MEASURED_TIMES = 5
_active: dict[str, tuple[Rule, ...]] = {"": ()}
"""Compiled rules by stamp; a stamp names rows, and a row's rule never changes."""
KEPT_STAMPS = 16


class BadExpression(ValueError):
    """The expression may not be kept; the text says why."""


def _program(expression: str) -> cel.Program:
    trouble = trouble_before(expression)
    if trouble:
        raise BadExpression(trouble)
    try:
        return cel.compile(expression)
    except Exception as error:
        raise BadExpression(str(error)[:300]) from error


def _broken(detail: str) -> Any:
    def check(_seen: Mapping[str, Any]) -> Any:
        raise BadExpression(detail)

    return check


def _guarded(program: cel.Program) -> Callable[[Mapping[str, Any]], Any]:
    def check(seen: Mapping[str, Any]) -> Any:
        try:
            return program.execute(dict(seen))
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as panic:  # A panic of the library is no ordinary exception.
            raise BadExpression(str(panic)[:300]) from panic

    return check


def compiled(row: PolicyRule) -> Rule:
    """A rule ready to be asked; one that cannot be compiled says so each time it is asked."""
    windowed = False
    try:
        program = _program(row.expression)
        windowed = "time" in program.variables()
        check = _guarded(program)
    except BadExpression as error:
        check = _broken(str(error))
    return Rule(
        name=row.name,
        version=row.rule_version,
        actions=frozenset(row.actions),
        message=row.message,
        unblock=row.unblock,
        windowed=windowed,
        check=check,
    )


def checked(row: PolicyRule) -> tuple[Rule, int]:
    """A rule that may be kept, and its measured worst case in microseconds.

    Raises BadExpression when a bound, a name, a function or a type is wrong.
    """
    program = _program(row.expression)
    used = References(frozenset(program.variables()), frozenset(program.functions()))
    trouble = trouble_after(row.expression, used)
    if trouble:
        raise BadExpression(trouble)
    rule = compiled(row)
    worst = 0
    for _ in range(MEASURED_TIMES):
        # The thread's own time: what the rule costs, and not how busy the machine is.
        began = clock.thread_s()
        answer = ask(rule, worst_sample(), clock.thread_s)
        worst = max(worst, round((clock.thread_s() - began) * 1e6))
        if answer is not None and answer.broken:
            raise BadExpression(answer.detail)
    return rule, worst


def active(stamp: str) -> tuple[Rule, ...]:
    """The rules that a stamp names, by name. ``stamp`` is their rows' ids, joined by spaces.

    The stamp is read with the facts of each decision, so a rule holds from the moment it is
    switched on, in every process; only a stamp not met before costs a query. A row is one
    version of a rule; ids, since a restored database may give a name and version again.
    """
    found = _active.get(stamp)
    if found is None:
        wanted = stamp.split(" ")
        rows = {str(row.pk): row for row in PolicyRule.objects.filter(pk__in=wanted)}
        found = tuple(compiled(rows[pk]) for pk in wanted)
        if len(_active) >= KEPT_STAMPS:
            forget()
        _active[stamp] = found
    return found


def stamp_now() -> str:
    """The stamp of the rules that are active now, as the facts of a placement bring it."""
    rows = PolicyRule.objects.filter(state=PolicyState.ACTIVE).order_by("name")
    return " ".join(str(pk) for pk in rows.values_list("pk", flat=True))


def forget() -> None:
    """Drop what was compiled; for whoever changed a rule's row past the services."""
    _active.clear()
    _active[""] = ()


def version_of(stamp: str) -> str:
    """The digest of the active rules' versions; empty when there are none."""
    return hashlib.sha256(stamp.encode()).hexdigest()[:16] if stamp else ""
