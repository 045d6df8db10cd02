"""Does an operator's rule forbid this, and may such a rule be kept at all?

A rule is an expression in CEL over a small fixed map of facts; true forbids. CEL has no
loops without an end, but an expression can be costly: so its size, its nesting, its use of
comprehensions, its names and its functions are bounded before it is saved. A rule that
cannot be evaluated forbids (``policy_broken``), since nobody knows what it would have said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_LENGTH: Final = 2000
MAX_DEPTH: Final = 12
MAX_LIST: Final = 64
MAX_STRING: Final = 200
BUDGET_S: Final = 0.02
"""The measured time that one rule may take; the bounds keep the worst case far below."""
TRIES: Final = 2

NAMES: Final = frozenset({"action", "tenant", "request", "quota", "time"})
FUNCTIONS: Final = frozenset(
    {"size", "has", "startsWith", "endsWith", "contains", "int", "uint", "double", "string"}
)
"""Not ``matches``: the cost of building a regular expression has no useful bound."""

_COMPREHENSION: Final = re.compile(r"\.\s*(exists_one|exists|all|map|filter)\s*\(")
_VARIABLE: Final = re.compile(
    r"\.\s*(?:exists_one|exists|all|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,"
)
_TOKEN: Final = re.compile(
    r"""[rRbB]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*""", re.S
)
SAMPLE: Final[dict[str, Any]] = {
    "action": "allocation.create",
    "tenant": {"slug": "acme", "state": "active", "tier": "standard", "cohort": ""},
    "request": {
        "sku": "h100.slice",
        "shape": "gpu_slice",
        "family": "h100x8",
        "pool": "default",
        "slots": 1,
        "replicas": 1,
        "amount_milli": 1000,
        "wait": False,
        "zones": ["zone-a"],
        "image": "ubuntu",
        "band": 1,
        "kind": "lease",
        "resource_class": "h100-slot",
        "asked_milli": 0,
        "email_domain": "",
        "storage": ["parallel"],
        "neighbours": "any",
    },
    "quota": {"limit_milli": 8000, "used_milli": 0, "borrowed_milli": 0, "free_milli": 8000},
    "time": {"hour": 12, "weekday": 3},
}
"""Every fact a rule may name, with a value of its type.

``kind`` is lease, job, service or model, or the change that is asked for: signup, deletion or
increase. ``asked_milli`` is what an increase asks for, ``email_domain`` whose address signs up,
``neighbours`` (any or own) says which tenants may have work on the same node.
"""


@dataclass(frozen=True, slots=True)
class References:
    """The names and functions that a parsed expression uses."""

    variables: frozenset[str]
    functions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rule:
    """An active rule, ready to be asked. ``check`` raises whatever goes wrong."""

    name: str
    version: int
    actions: frozenset[str]
    message: str
    unblock: str
    windowed: bool
    check: Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rule said against a request: ``broken`` when it could not say anything."""

    rule: str
    version: int
    broken: bool
    detail: str
    unblock: str = ""
    windowed: bool = False


def worst_sample() -> dict[str, Any]:
    """The largest facts that a rule can meet: the worst case is measured on these."""
    text = "x" * MAX_STRING
    request = {**SAMPLE["request"], "zones": [text] * MAX_LIST, "image": text, "sku": text}
    return {**SAMPLE, "request": request, "tenant": {**SAMPLE["tenant"], "slug": text}}


def bare(expression: str) -> str:
    """The expression with its strings emptied and its comments gone: what remains is code."""
    return _TOKEN.sub(lambda m: "" if m.group().startswith("//") else "''", expression)


def _depth(code: str) -> int:
    depth = deepest = 0
    for char in code:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth -= 1
    return deepest


def _longest_list(code: str) -> int:
    longest, stack = 0, []
    for char in code:
        if char in "([{":
            stack.append(1)
        elif char in ")]}" and stack:
            longest = max(longest, stack.pop())
        elif char == "," and stack:
            stack[-1] += 1
    return longest


def trouble_before(expression: str) -> str:
    """Why an expression may not even be parsed; empty when it may."""
    if not expression.strip():
        return "the expression is empty"
    if len(expression) > MAX_LENGTH:
        return f"{len(expression)} characters; {MAX_LENGTH} may be"
    if not expression.isprintable() and re.search(r"[^\n\t\x20-\x7e]", expression):
        return "characters outside printable ASCII"
    if "'''" in expression or '"""' in expression:
        return "strings in triple quotes are not taken"
    code = bare(expression)
    if _depth(code) > MAX_DEPTH:
        return f"brackets {_depth(code)} deep; {MAX_DEPTH} may be"
    if _longest_list(code) > MAX_LIST:
        return f"a list of {_longest_list(code)}; {MAX_LIST} may be"
    if len(_COMPREHENSION.findall(code)) > 1:
        return "more than one comprehension (exists, all, map, filter)"
    return ""


def trouble_after(expression: str, used: References) -> str:
    """Why a parsed expression may not be kept; empty when it may."""
    bound = frozenset(_VARIABLE.findall(bare(expression)))
    unknown = sorted(used.variables - NAMES - bound)
    if unknown:
        return f"unknown name {unknown[0]!r}; known are {', '.join(sorted(NAMES))}"
    named = {name for name in used.functions if re.fullmatch(r"[A-Za-z]\w*", name)}
    foreign = sorted(named - FUNCTIONS)
    if foreign:
        return f"function {foreign[0]!r} is not offered; {', '.join(sorted(FUNCTIONS))} are"
    return ""


def ask(
    rule: Rule, seen: Mapping[str, Any], timer: Callable[[], float] | None = None
) -> Answer | None:
    """What one rule says against the facts: nothing, that it forbids, or that it is broken.

    A rule over its time is asked once more, and is broken when it is over it again: what the
    interpreter does for itself in between, such as collecting garbage, is not the rule's cost.
    """
    for _ in range(TRIES):
        began = timer() if timer else 0.0
        try:
            said = rule.check(seen)
        except Exception as error:  # Whatever goes wrong inside a rule is the rule's failure.
            return Answer(rule.name, rule.version, True, f"{type(error).__name__}: {error}"[:300])
        if timer is None or timer() - began <= BUDGET_S:
            break
    else:
        return Answer(rule.name, rule.version, True, f"took longer than {BUDGET_S * 1000:g} ms")
    if said is True:
        return Answer(
            rule.name, rule.version, False, rule.message, rule.unblock, windowed=rule.windowed
        )
    if said is not False:
        return Answer(rule.name, rule.version, True, f"said {type(said).__name__}, not a bool")
    return None


def judge(
    rules: Iterable[Rule],
    seen: Mapping[str, Any],
    timer: Callable[[], float] | None = None,
) -> Answer | None:
    """The first rule, by name, that forbids or cannot be evaluated."""
    for rule in rules:
        if rule.actions and seen["action"] not in rule.actions:
            continue
        answer = ask(rule, seen, timer)
        if answer is not None:
            return answer
    return None


@dataclass(frozen=True, slots=True)
class TestResult:
    """How one of a rule's own tests went."""

    name: str
    passed: bool
    detail: str = ""


def merged(facts: Mapping[str, Any]) -> dict[str, Any]:
    """A test's facts over the sample: a test says only what matters to it."""
    out: dict[str, Any] = {}
    for name, value in SAMPLE.items():
        given = facts.get(name, value)
        out[name] = {**value, **given} if isinstance(value, dict) else given
    return out


def own_tests(rule: Rule, tests: Sequence[Mapping[str, Any]]) -> list[TestResult]:
    """Run a rule's own tests."""
    out = []
    for test in tests:
        answer = ask(rule, merged(test["facts"]))
        if answer is not None and answer.broken:
            out.append(TestResult(test["name"], False, answer.detail))
            continue
        said = answer is not None
        detail = "" if said == test["forbids"] else f"forbids: {said}, expected {test['forbids']}"
        out.append(TestResult(test["name"], not detail, detail))
    return out
