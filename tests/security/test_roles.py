"""Which role may do what?  The table of roles held against a file that a reviewer can read.

After an intended change: ``WRITE_MATRIX=1 pytest tests/security/test_roles.py``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuaas.api.permissions import TABLE
from tenants.domain import roles
from tenants.models import OperatorRole, Role

GOLDEN = Path(__file__).with_name("roles.txt")


def test_every_role_may_what_the_file_says() -> None:
    if os.environ.get("WRITE_MATRIX"):
        GOLDEN.write_text(roles.matrix(), encoding="utf-8")
    assert roles.matrix() == GOLDEN.read_text(encoding="utf-8")


def test_the_table_knows_the_roles_that_members_have() -> None:
    assert set(roles.RANK) == set(Role.values)
    assert {role for carriers in roles.ACTIONS.values() for role in carriers} == set(Role.values)


def test_no_tenants_role_carries_an_operators_action() -> None:
    assert not set(roles.ACTIONS) & set(roles.OPERATOR_ACTIONS)
    carried = [
        (role, action)
        for role in roles.RANK
        for action in roles.OPERATOR_ACTIONS
        if roles.may(action, role=role, operator="", scopes=frozenset())
    ]
    assert carried == []


def test_an_operator_has_no_tenants_action_by_being_one() -> None:
    carried = [
        action
        for action in roles.ACTIONS
        for operator in roles.OPERATOR_RANK
        if roles.may(action, role="", operator=operator, scopes=frozenset())
    ]
    assert carried == []


def test_the_table_knows_the_roles_that_operators_have() -> None:
    assert set(roles.OPERATOR_RANK) == set(OperatorRole.values)
    carriers = {role for named in roles.OPERATOR_ACTIONS.values() for role in named}
    assert carriers == set(OperatorRole.values)


def test_an_administrator_carries_all_that_any_operator_does() -> None:
    without = [a for a, named in roles.OPERATOR_ACTIONS.items() if "administrator" not in named]
    assert without == []


def test_an_operator_without_a_role_carries_nothing() -> None:
    everything = [*roles.ACTIONS, *roles.OPERATOR_ACTIONS]
    carried = [a for a in everything if roles.may(a, role="", operator="", scopes=frozenset())]
    assert carried == []


def test_who_looks_changes_nothing_and_who_runs_hosts_decides_nothing() -> None:
    carried = {role: roles.operator_scopes_of(role) for role in roles.OPERATOR_RANK}
    assert carried["viewer"] == ["operator:read"]
    assert carried["operator"] == ["cleanup:write", "nodes:write", "operator:read"]
    assert "nodes:write" not in carried["approver"]


def test_an_owner_carries_all_that_any_role_does() -> None:
    assert [action for action, carriers in roles.ACTIONS.items() if "owner" not in carriers] == []


@pytest.mark.parametrize("action", sorted([*roles.ACTIONS, *roles.OPERATOR_ACTIONS]))
def test_an_action_is_asked_for_by_some_address(action: str) -> None:
    asked = {a for rule in TABLE.values() for a in (rule.action, rule.operator_action)}
    assert action in asked


def test_every_address_asks_for_an_action_that_exists() -> None:
    known = {*roles.ACTIONS, *roles.OPERATOR_ACTIONS, ""}
    strange = {
        key: rule
        for key, rule in TABLE.items()
        if rule.action not in known or rule.operator_action not in known
    }
    assert strange == {}


def test_scopes_narrow_a_role_and_never_widen_it() -> None:
    one = frozenset({"allocations:write"})
    assert roles.may("allocations:write", role="member", operator="", scopes=one)
    assert not roles.may("allocations:read", role="member", operator="", scopes=one)
    assert not roles.may("allocations:write", role="viewer", operator="", scopes=one)
