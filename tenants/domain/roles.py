"""Who may do what, in a tenant and on the platform's side?  Roles and token scopes, in tables."""

from __future__ import annotations

RANK = {"billing": 0, "viewer": 1, "member": 2, "admin": 3, "owner": 4}

ACTIONS: dict[str, frozenset[str]] = {
    "allocations:read": frozenset({"owner", "admin", "member", "viewer"}),
    "allocations:write": frozenset({"owner", "admin", "member"}),
    "catalogue:read": frozenset({"owner", "admin", "member", "viewer", "billing"}),
    "projects:read": frozenset({"owner", "admin", "member", "viewer", "billing"}),
    "projects:write": frozenset({"owner", "admin"}),
    "envelopes:read": frozenset({"owner", "admin", "member", "viewer", "billing"}),
    "quota:write": frozenset({"owner", "admin"}),
    "datasets:read": frozenset({"owner", "admin", "member", "viewer"}),
    "datasets:write": frozenset({"owner", "admin", "member"}),
    "keys:read": frozenset({"owner", "admin", "member", "viewer"}),
    "keys:write": frozenset({"owner", "admin", "member"}),
    "tokens:read": frozenset({"owner", "admin", "member", "viewer", "billing"}),
    "tokens:write": frozenset({"owner", "admin", "member", "viewer", "billing"}),
    "members:read": frozenset({"owner", "admin", "member", "viewer", "billing"}),
    "members:write": frozenset({"owner", "admin"}),
    "tenant:write": frozenset({"owner"}),
    "service_accounts:read": frozenset({"owner", "admin"}),
    "service_accounts:write": frozenset({"owner", "admin"}),
    "events:read": frozenset({"owner", "admin", "member", "viewer"}),
}
"""Every scope of a tenant's token, and the roles that carry it."""

_ADMINISTRATOR = frozenset({"administrator"})
_AUTHORITY = frozenset({"administrator", "approver"})
_HANDS = frozenset({"administrator", "operator"})
_ACTING = _AUTHORITY | _HANDS

OPERATOR_ACTIONS: dict[str, frozenset[str]] = {
    "operator:read": _ACTING | {"viewer"},
    "nodes:write": _HANDS,
    "cleanup:write": _ACTING,
    "overrides:write": _AUTHORITY,
    "tenants:write": _AUTHORITY,
    "catalogue:write": _AUTHORITY,
    "policies:write": _AUTHORITY,
    "break_glass:write": _AUTHORITY,
    "operators:write": _ADMINISTRATOR,
}
"""Scopes that only an operator's token can have, and the operators' roles that carry them.

``cleanup:write`` retries a cleanup, asks for an override and withdraws what one asked for;
``overrides:write`` answers what another asked for.
"""

OPERATOR_RANK = {"viewer": 0, "operator": 1, "approver": 2, "administrator": 3}


def may(action: str, *, role: str, operator: str, scopes: frozenset[str]) -> bool:
    """Whether somebody of this role, or this role among operators, may act with these scopes.

    Empty ``scopes`` means a session or an unrestricted token: the role alone decides. An
    empty role carries nothing.
    """
    if action in OPERATOR_ACTIONS:
        allowed = operator in OPERATOR_ACTIONS[action]
    else:
        allowed = role in ACTIONS.get(action, frozenset())
    return allowed and (not scopes or action in scopes)


def operator_scopes_of(role: str) -> list[str]:
    """What an operators' role carries, by name."""
    return sorted(action for action, carriers in OPERATOR_ACTIONS.items() if role in carriers)


def scopes_of(role: str) -> list[str]:
    """What a role of a tenant carries, by name."""
    return sorted(action for action, carriers in ACTIONS.items() if role in carriers)


def reading_scopes_of(role: str) -> frozenset[str]:
    """What of it only reads."""
    return frozenset(action for action in scopes_of(role) if action.endswith(":read"))


def matrix() -> str:
    """Every role against every action, as a table that a reviewer can read."""
    tenants = sorted(RANK, key=RANK.__getitem__, reverse=True)
    operators = sorted(OPERATOR_RANK, key=OPERATOR_RANK.__getitem__, reverse=True)
    columns = [
        *((name, name, "") for name in tenants),
        *((f"op:{name}", "", name) for name in operators),
    ]
    actions = sorted([*ACTIONS, *OPERATOR_ACTIONS])
    width = max(len(action) for action in actions) + 2
    cells = [width, *(max(9, len(title)) + 1 for title, _, _ in columns)]
    rows = [["", *(title for title, _, _ in columns)]]
    for action in actions:
        marks = [
            may(action, role=role, operator=operator, scopes=frozenset())
            for _, role, operator in columns
        ]
        rows.append([action, *("yes" if mark else "-" for mark in marks)])
    lines = [
        "".join(text.ljust(size) for text, size in zip(row, cells, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join(lines) + "\n"
