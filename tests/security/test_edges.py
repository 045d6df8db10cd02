"""Are names in every script and amounts at the edges kept, or refused with the field named?

Every member of every body in the API document that is a text or an integer is tried, beside a
body that is otherwise right. What is refused writes nothing; what is taken is taken back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import transaction

from gpuaas.api import limits
from gpuaas.api.routes import Route
from gpuaas.kernel.models import Event
from tests.api.client import described
from tests.security.test_mass_assignment import WRITES, caller_for, everything, is_agents
from tests.security.world import World, a_world, asked, body_of

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]

AMOUNTS: dict[str, bytes] = {
    "minus one": b"-1",
    "two to the sixty-third": b"9223372036854775808",
    "a number of forty digits": b"1" * 40,
    "a fraction": b"0.5",
    "a whole fraction": b"2.0",
    "an exponent form": b"1e3",
    "not a number": b"NaN",
    "infinite": b"-Infinity",
    "a text": b'"5"',
    "a boolean": b"true",
    "a list": b"[1]",
}
KEPT = {
    "four bytes a character": "\U0001d54ceam \U0001f680",
    "right to left": "\u05e9\u05dc\u05d5\u05dd",
    "joined by a script's own rule": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
}
REFUSED_NAMES = {
    "look-alike letters": "\u0410cme",
    "an override of direction": "acme\u202egnp",
    "nothing visible": "\u200b",
}
NEVER = {"a NUL": "a\x00b", "a lone surrogate": "a\ud800b"}
LONG = "\u00e9" * 10_240
NAMES = {"name", "tenant_name", "full_name"}
SLUGS = {
    "sku-list",
    "node-list",
    "cohort-list",
    "tier-list",
    "policy-list",
    "image-list",
    "pool-list",
    "family-list",
}
"""What is named here is part of addresses, labels and hosts: ASCII letters, digits, hyphens."""
UNASKED = {"auth-token"}
"""The name is looked at when the password was right."""


@dataclass(frozen=True)
class Member:
    """One member of one body."""

    route: Route
    method: str
    name: str
    schema: dict[str, Any]

    @property
    def kind(self) -> str:
        """``integer``, ``string`` or something else."""
        types = self.schema.get("type", "")
        kinds = [types] if isinstance(types, str) else types
        closed = {"enum", "format"} & set(self.schema)
        for kind in ("integer", "string"):
            if kind in kinds and not (kind == "string" and closed):
                return kind
        return ""

    def __str__(self) -> str:
        return f"{self.method} {self.route.name} {self.name}"


def _schema_of(route: Route, method: str) -> dict[str, Any]:
    path = re.sub(r"<\w+:(\w+)>", r"{\1}", route.pattern)
    operation = described()["paths"][path][method.lower()]
    content = operation.get("requestBody", {}).get("content", {})
    schema: dict[str, Any] = content.get("application/json", {}).get("schema", {})
    while "$ref" in schema:
        schema = described()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def members(kind: str) -> Iterator[Member]:
    """Every member of this kind of every body that people and programs of theirs send."""
    for route, method in WRITES:
        if is_agents(route):
            continue
        for name, schema in _schema_of(route, method).get("properties", {}).items():
            member = Member(route, method, name, schema)
            if member.kind == kind:
                yield member


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """The sweep's world, without a limit on calls."""
    spent = limits.Spent(limits.API, True, 1000, 0)
    monkeypatch.setattr(limits.Buckets, "spend", lambda self, policy, principal: spent)
    return a_world()


def sent(world: World, member: Member, raw: bytes) -> Any:
    """The answer to a right body with this raw value in this member; then all is undone."""
    body = dict(body_of(member.route, member.method) or {})
    body.pop(member.name, None)
    text = json.dumps(body)[:-1].encode()
    whole = text + (b", " if body else b"") + json.dumps(member.name).encode() + b": " + raw + b"}"
    with transaction.atomic():
        before = Event.objects.count()
        caller, path = caller_for(world, member.route), world.path(member.route)
        answer = asked(caller, member.method, path, whole)  # type: ignore[arg-type]  # sent as it is
        answer.wrote = Event.objects.count() - before
        transaction.set_rollback(True)
    return answer


def names_the_field(answer: Any, member: Member) -> bool:
    """Refused for this very member, and nothing was recorded."""
    if answer.status_code != 400 or answer.wrote:
        return False
    return any(e["pointer"].startswith(f"/{member.name}") for e in answer.json()["errors"])


def test_no_amount_at_the_edge_is_taken(world: World) -> None:
    before, wrong, tried = everything(), [], 0
    for member in members("integer"):
        for what, raw in AMOUNTS.items():
            tried += 1
            answer = sent(world, member, raw)
            if not names_the_field(answer, member):
                wrong.append(f"{member}: {what}: {answer.status_code}")
    assert wrong == []
    assert tried >= 40 * len(AMOUNTS)
    assert everything() == before


def test_a_text_is_kept_or_refused_by_a_declared_rule_in_every_member(world: World) -> None:
    before, wrong, tried = everything(), [], 0
    for member in members("string"):
        most = member.schema.get("maxLength", 10**9)
        texts = {**KEPT, **REFUSED_NAMES, **NEVER, "ten kilobytes": LONG}
        for what, text in texts.items():
            tried += 1
            answer = sent(world, member, json.dumps(text).encode())
            must_fail = what in NEVER or (text is LONG and most < len(LONG))
            named = names_the_field(answer, member)
            if answer.status_code >= 500 or (must_fail and not named):
                wrong.append(f"{member}: {what}: {answer.status_code}")
    assert wrong == []
    assert tried >= 400
    assert everything() == before


def test_a_name_in_any_script_is_kept_as_it_is_and_one_that_deceives_is_refused(
    world: World,
) -> None:
    wrong, kept = [], 0
    for member in members("string"):
        if member.name not in NAMES or member.route.name in UNASKED:
            continue
        for what, text in KEPT.items():
            answer = sent(world, member, json.dumps(text).encode())
            if names_the_field(answer, member) != (member.route.name in SLUGS):
                wrong.append(f"{member}: {what}: {answer.status_code}")
            kept += answer.status_code < 300
        for what, text in REFUSED_NAMES.items():
            answer = sent(world, member, json.dumps(text).encode())
            if not names_the_field(answer, member):
                wrong.append(f"{member}: {what}: {answer.status_code}")
    assert wrong == []
    assert kept >= 15


def test_nothing_may_be_held_of_a_class_that_is_sold(world: World) -> None:
    nominal = [m for m in members("integer") if m.name == "nominal_milli"]
    assert {m.route.name for m in nominal} >= {"tenant-envelope", "tenant-envelope-schedule"}
    for member in nominal:
        if member.route.name == "tenant-envelope-schedule":
            assert sent(world, member, b"0").status_code < 300
    meaningless = {"nominal_asked_milli", "extra_milli", "replicas", "batch_size"}
    found = [m for m in members("integer") if m.name in meaningless]
    assert {m.name for m in found} == meaningless
    for member in found:
        assert names_the_field(sent(world, member, b"0"), member), str(member)
