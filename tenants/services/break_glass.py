"""May an operator look into one tenant's own view, until when, and who sees that they did?

A window is opened with a reason, for one tenant and a short time. What is done through it
is reading only, and every request through it is an event of the tenant's, with the
request's id: the tenant reads in its own audit feed who looked at what, and why.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from tenants.domain.roles import OPERATOR_ACTIONS, reading_scopes_of
from tenants.errors import BreakGlassOpen
from tenants.models import BreakGlass, Tenant, User
from tenants.services.second_factor import given_lately_or_refuse

ROLE = "viewer"
LONGEST_MINUTES = 60
SHORTEST_REASON = 10
SHOWN_PATH = 300


def window_of(user_id: UUID, tenant_id: UUID) -> BreakGlass | None:
    """The operator's open window into the tenant, if there is one now."""
    return BreakGlass.objects.filter(
        operator_id=user_id,
        operator__is_staff=True,
        operator__operator_role__in=OPERATOR_ACTIONS["break_glass:write"],
        tenant_id=tenant_id,
        ended_at__isnull=True,
        until__gt=clock.db_now(),
    ).first()


def window_list(tenant_id: UUID | None = None) -> QuerySet[BreakGlass]:
    """Windows into one tenant or all, the latest first, with who opened them."""
    rows = BreakGlass.objects.select_related("operator", "tenant").order_by("-created_at")
    return rows.filter(tenant_id=tenant_id) if tenant_id else rows


@transaction.atomic
def break_glass_open(
    *, tenant_id: UUID, user: User, reason: str, minutes: int, actor: Actor
) -> BreakGlass:
    """Open a window for this operator.

    Raises BreakGlassOpen while there is one, and SecondFactorNeeded for an operator who has
    a second factor and did not give it lately.
    """
    if not user.is_staff or not actor.operator:
        raise errors.PermissionDenied("This is for the platform's operators.")
    given_lately_or_refuse(actor)
    why = reason.strip()
    if len(why) < SHORTEST_REASON:
        raise errors.InvalidRequest(
            "Say why, so that the tenant understands it.",
            errors=(
                errors.FieldError("/reason", "required", f"{SHORTEST_REASON} characters or more"),
            ),
        )
    if not 1 <= minutes <= LONGEST_MINUTES:
        raise errors.InvalidRequest(
            f"A window is open for 1 to {LONGEST_MINUTES} minutes.",
            errors=(errors.FieldError("/minutes", "out_of_range", f"1 to {LONGEST_MINUTES}"),),
        )
    # The operator's own row is the lock, so that two requests open one window.
    User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if not Tenant.objects.filter(pk=tenant_id).exists():
        raise errors.NotFound
    if window_of(user.pk, tenant_id) is not None:
        raise BreakGlassOpen
    window = BreakGlass.objects.create(
        operator=user,
        tenant_id=tenant_id,
        reason=why,
        until=clock.db_now() + timedelta(minutes=minutes),
    )
    events.record(
        kind="tenants.breakglass.open",
        subject=window,
        actor=actor,
        reason=why,
        after={"until": window.until, "minutes": minutes},
    )
    return window


@transaction.atomic
def break_glass_end(*, window_id: UUID, actor: Actor) -> BreakGlass:
    """Close a window before its time; any operator may. Repeating it changes nothing."""
    window = BreakGlass.objects.select_for_update(no_key=True).filter(pk=window_id).first()
    if window is None:
        raise errors.NotFound
    now = clock.db_now()
    if window.ended_at is None and window.until > now:
        window.ended_at = now
        window.save(update_fields=["ended_at"])
        events.record(kind="tenants.breakglass.end", subject=window, actor=actor)
    return window


def look(*, window: BreakGlass, actor: Actor, method: str, path: str) -> Actor:
    """Record one request through the window, and return who makes it: a reader of the tenant's.

    The event is written before anything is shown; its correlation is the request's id.
    """
    reader = replace(
        actor,
        tenant_id=window.tenant_id,
        operator=False,
        role=ROLE,
        scopes=reading_scopes_of(ROLE),
    )
    events.record(
        kind="tenants.breakglass.look",
        subject=window,
        actor=actor,
        reason=window.reason,
        facts={"method": method, "path": path[:SHOWN_PATH]},
    )
    return reader
