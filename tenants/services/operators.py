"""How does an operator come to be, and who may do what among them?"""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import SYSTEM, Actor
from gpuaas.kernel.constraints import is_taken
from gpuaas.kernel.models import Event
from tenants.domain.roles import OPERATOR_ACTIONS
from tenants.errors import LastAdministrator, NameTaken
from tenants.models import OperatorRole, User
from tenants.services.second_factor import given_lately_or_refuse

PASSWORD_BYTES = 15
SHORTEST_REASON, LONGEST_REASON = 1, 500
LATELY: Final = timedelta(days=7)
"""For so long who had a role that was taken still counts where two people are needed."""


def _role(role: str) -> str:
    if role not in OperatorRole.values:
        raise errors.InvalidRequest(
            f"There is no operator's role {role!r}.",
            errors=(errors.FieldError("/role", "unknown", ", ".join(OperatorRole.values)),),
        )
    return role


@transaction.atomic
def operator_create(
    *,
    email: str,
    full_name: str = "",
    password: str = "",
    role: str = OperatorRole.ADMINISTRATOR,
) -> tuple[User, str]:
    """An account of an operator with a role, and its password (made here unless given)."""
    if "@" not in email:
        raise errors.InvalidRequest(
            f"{email!r} is not a mail address.",
            errors=(errors.FieldError("/email", "invalid", "a mail address is needed"),),
        )
    chosen = password or secrets.token_urlsafe(PASSWORD_BYTES)
    try:
        with transaction.atomic():
            user = User.objects.create_superuser(
                email, chosen, full_name=full_name, operator_role=_role(role)
            )
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken("An account with this address exists already.") from taken
    events.record(
        kind="tenants.operator.create",
        subject=user,
        actor=SYSTEM,
        after={"email": email, "role": role},
    )
    return user, chosen


def operator_list() -> QuerySet[User]:
    """The platform's operators, those who came first first."""
    return User.objects.filter(is_staff=True).order_by("date_joined", "id")


def operators_lately(action: str) -> int:
    """How many active operators carry an action, or did within ``LATELY``."""
    carriers = OPERATOR_ACTIONS[action]
    active = User.objects.filter(is_staff=True, is_active=True)
    carrying = active.filter(operator_role__in=carriers)
    others = active.exclude(operator_role__in=carriers).values_list("pk", flat=True)
    taken = Event.objects.filter(
        kind="tenants.operator.role_set",
        subject_id__in=list(others),
        at__gt=clock.db_now() - LATELY,
        before__role__in=sorted(carriers),
    )
    return carrying.count() + taken.values("subject_id").distinct().count()


@transaction.atomic
def operator_role_set(*, user_id: UUID, role: str, reason: str, actor: Actor) -> User:
    """Another role for an operator, from the next request on.

    Raises LastAdministrator for the only active one, and SecondFactorNeeded for whoever has
    a second factor and did not give it lately.
    """
    given_lately_or_refuse(actor)
    chosen, why = _role(role), reason.strip()
    if not SHORTEST_REASON <= len(why) <= LONGEST_REASON or "\0" in why:
        raise errors.InvalidRequest(
            "Say why: it is kept in the record.",
            errors=(errors.FieldError("/reason", "required", f"1 to {LONGEST_REASON} characters"),),
        )
    # All operators are locked, in one order: two demotions at once leave an administrator.
    rows = {row.pk: row for row in operator_list().order_by("pk").select_for_update(no_key=True)}
    user = rows.get(user_id)
    if user is None:
        raise errors.NotFound
    before = user.operator_role
    if before == chosen:
        return user
    others = [
        row
        for row in rows.values()
        if row.pk != user_id and row.is_active and row.operator_role == OperatorRole.ADMINISTRATOR
    ]
    if before == OperatorRole.ADMINISTRATOR and not others:
        raise LastAdministrator
    user.operator_role = chosen
    user.save(update_fields=["operator_role"])
    events.record(
        kind="tenants.operator.role_set",
        subject=user,
        actor=actor,
        before={"role": before},
        after={"role": chosen},
        reason=why,
    )
    return user
