"""Who reads which words about a failure?  Operators the host's own; tenants what its code means.

A host that fails says why in its own words, and those may name machines, devices and addresses
that are nobody's business but the operator's. They are kept as they came. What a reader is told
is decided here, from the reason code, and every page, answer and command asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpuaas.kernel.errors import entry_of

HOST_SPEAKS: Final = frozenset(
    {"cleanup_blocked", "provision_failed", "step_failed", "task_overdue"}
)
"""Codes whose details may be what a host, or a program that broke, said."""
_HOSTS: Final = frozenset({"code", "detail", "missing", "node_code", "task"})
"""Facts of such a failure that are the host's."""


def meaning(code: str) -> str:
    """A code's title and what would help, as one text; of a code that is not ours, nothing."""
    entry = entry_of(code)
    return f"{entry.title}. {entry.unblock}" if entry else ""


def host_speaks(code: str) -> bool:
    """Whether details under this code may be a host's words; of a code that is not ours, yes."""
    return bool(code) and (code in HOST_SPEAKS or entry_of(code) is None)


def detail_told(code: str, detail: str, *, operator: bool) -> str:
    """The detail of a failure for a reader."""
    return detail if operator or not host_speaks(code) else meaning(code)


def code_told(code: str, *, operator: bool) -> str:
    """The code for a reader: a host may make one up."""
    return code if operator or entry_of(code) is not None else ""


def outcome_told(code: str, detail: str, *, blocked: bool, operator: bool) -> str:
    """How something ended, for a reader.

    A blocked cleanup leaves the host's words beside an earlier code, and they stay when it is
    unblocked: so what a tenant reads is never what is kept there, whatever the code is.
    """
    return detail if operator else meaning("cleanup_blocked" if blocked else code)


def error_told(error: Mapping[str, Any] | None, *, operator: bool) -> dict[str, Any] | None:
    """A run's or step's stored error for a reader: code, detail, facts."""
    if not error:
        return None
    code = str(error.get("code", ""))
    if operator or not host_speaks(code):
        return dict(error)
    told: dict[str, Any] = {"code": code_told(code, operator=False), "detail": meaning(code)}
    if "facts" in error:
        told["facts"] = _without(error["facts"] or {})
    return told


def step_told(step: Mapping[str, Any], *, operator: bool) -> dict[str, Any]:
    """A run's step for a reader. What a failed step or its undoing last said is not for tenants."""
    if operator:
        return dict(step)
    failed = step.get("state") == "failed" or step.get("undo") == "failed"
    detail = "" if failed or step.get("error") else step.get("detail", "")
    return {**step, "detail": detail, "error": error_told(step.get("error"), operator=False)}


def facts_told(facts: Mapping[str, Any], reason: str, *, operator: bool) -> dict[str, Any]:
    """An event's facts for a reader, where ``reason`` or their own code may be a host's."""
    code = str(facts.get("code") or reason)
    if operator or "detail" not in facts or not host_speaks(code):
        return dict(facts)
    return {**_without(facts), "detail": meaning(code)}


def _without(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name not in _HOSTS}
