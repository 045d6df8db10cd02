"""Who is doing this?  Every write names its actor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

Kind = Literal["user", "token", "node", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """The person, token, node or part of the system behind a change.

    ``scopes`` limits what a token may do (``resource:verb``); empty means no limit
    beyond the role. ``role`` is the member's role in ``tenant_id``. ``factor_at`` is when
    the person behind this last gave their second factor here, if they did. ``operator_role``
    is what an operator may do on the platform's side, in a request; the platform's own parts
    have none, since no surface asks for them.
    """

    kind: Kind
    id: str
    name: str
    tenant_id: UUID | None = None
    operator: bool = False
    operator_role: str = ""
    role: str = ""
    scopes: frozenset[str] = field(default_factory=frozenset)
    request_id: str = ""
    factor_at: datetime | None = None

    def within(self, tenant_id: UUID | None) -> Actor:
        """The same actor, acting inside another tenant (operators only)."""
        return replace(self, tenant_id=tenant_id)

    def as_json(self) -> dict[str, str]:
        """What is stored beside a change: never a secret."""
        return {"kind": self.kind, "id": self.id, "name": self.name}


SYSTEM = Actor(kind="system", id="platform", name="platform", operator=True)


def system(part: str) -> Actor:
    """The platform itself, named by the part that acted (``cycle``, ``sweep`` …)."""
    return Actor(kind="system", id=part, name=f"platform/{part}", operator=True)
