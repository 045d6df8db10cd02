"""Who may do what in a tenant?  Roles and token scopes, in one table."""

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

OPERATOR_ACTIONS = frozenset(
    {
        "operator:read",
        "nodes:write",
        "tenants:write",
        "catalogue:write",
        "policies:write",
        "cleanup:write",
        "break_glass:write",
    }
)
"""Scopes that only an operator's token can have."""


def may(action: str, *, role: str, operator: bool, scopes: frozenset[str]) -> bool:
    """Whether somebody of this role (or an operator) with these token scopes may act.

    Empty ``scopes`` means a session or an unrestricted token: the role alone decides.
    """
    allowed = operator if action in OPERATOR_ACTIONS else role in ACTIONS.get(action, frozenset())
    return allowed and (not scopes or action in scopes)


def scopes_of(role: str) -> list[str]:
    """What a role of a tenant carries, by name."""
    return sorted(action for action, carriers in ACTIONS.items() if role in carriers)


def reading_scopes_of(role: str) -> frozenset[str]:
    """What of it only reads."""
    return frozenset(action for action in scopes_of(role) if action.endswith(":read"))


def matrix() -> str:
    """Every role against every action, as a table that a reviewer can read."""
    names = [*sorted(RANK, key=RANK.__getitem__, reverse=True), "operator"]
    actions = sorted([*ACTIONS, *OPERATOR_ACTIONS])
    width = max(len(action) for action in actions) + 2
    lines = ["".ljust(width) + "".join(name.ljust(10) for name in names).rstrip()]
    for action in actions:
        marks = [
            may(
                action,
                role=name if name in RANK else "",
                operator=name == "operator",
                scopes=frozenset(),
            )
            for name in names
        ]
        lines.append(
            action.ljust(width) + "".join(("yes" if m else "-").ljust(10) for m in marks).rstrip()
        )
    return "\n".join(lines) + "\n"
