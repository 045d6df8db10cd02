"""Which programs act in a tenant, as what, and with which tokens?"""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import Now

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
from tenants.domain.roles import RANK
from tenants.errors import NameTaken, RoleAboveOwn
from tenants.models import ApiToken, Role, ServiceAccount
from tenants.services import access
from tenants.services.tenancy import checked_name

ROLES = tuple(role.value for role in Role if role != Role.OWNER)
"""A program owns nothing: it never has the owner's role."""


def checked_role(role: str, actor: Actor, known: tuple[str, ...]) -> str:
    """The role, unless it is strange or above the giver's own.

    Raises InvalidRequest or RoleAboveOwn. An operator is bound by no role.
    """
    if role not in known:
        raise errors.InvalidRequest(
            f"The role {role[:40]!r} cannot be given here.",
            errors=(errors.FieldError("/role", "unknown", f"known: {', '.join(known)}"),),
        )
    if not actor.operator and RANK[role] > RANK.get(actor.role, -1):
        raise RoleAboveOwn(
            errors=(errors.FieldError("/role", "role_above_own", "above your own"),),
        )
    return role


@transaction.atomic
def service_account_create(
    *, tenant_id: UUID, name: str, role: str, actor: Actor
) -> ServiceAccount:
    """A new identity for a program; it can do nothing before it has a token."""
    kept = checked_name(name)
    given = checked_role(role, actor, ROLES)
    try:
        with transaction.atomic():
            account = ServiceAccount.objects.create(
                tenant_id=tenant_id, name=kept, role=given, created_by=actor.as_json()
            )
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            "A service account of this name exists already.",
            errors=(errors.FieldError("/name", "taken", "a service account has this name"),),
        ) from taken
    events.record(
        kind="tenants.serviceaccount.create",
        subject=account,
        actor=actor,
        after={"name": kept, "role": given},
    )
    return account


def _locked(tenant_id: UUID, account_id: UUID) -> ServiceAccount:
    rows = ServiceAccount.objects.select_for_update(no_key=True)
    account = rows.filter(pk=account_id, tenant_id=tenant_id).first()
    if account is None:
        raise errors.NotFound
    return account


@transaction.atomic
def service_account_disable(
    *, tenant_id: UUID, account_id: UUID, reason: str, actor: Actor
) -> ServiceAccount:
    """End the account for good and every token of it at once; repeating it changes nothing."""
    account = _locked(tenant_id, account_id)
    if account.disabled_at is not None:
        return account
    account.disabled_at = clock.db_now()
    account.save(update_fields=["disabled_at"])
    ended = ApiToken.objects.filter(service_account=account, revoked_at__isnull=True).update(
        revoked_at=account.disabled_at
    )
    events.record(
        kind="tenants.serviceaccount.disable",
        subject=account,
        actor=actor,
        reason=reason,
        facts={"tokens_ended": ended},
    )
    return account


@transaction.atomic
def service_account_token(
    *,
    tenant_id: UUID,
    account_id: UUID,
    name: str,
    scopes: list[str],
    expires_in_days: int,
    actor: Actor,
) -> tuple[ApiToken, str]:
    """A token of the account's, and its text, which is shown once.

    Raises ServiceAccountDisabled, and RoleAboveOwn for whoever ranks below the account.
    """
    account = _locked(tenant_id, account_id)
    checked_role(account.role, actor, ROLES)
    return access.token_create(
        user=None,
        tenant_id=tenant_id,
        name=name,
        scopes=scopes,
        expires_in_days=expires_in_days,
        actor=actor,
        service_account=account,
    )


def service_account_token_revoke(
    *, tenant_id: UUID, account_id: UUID, token_id: UUID, actor: Actor
) -> None:
    """End one token of the account's at once. Raises NotFound."""
    mine = ApiToken.objects.filter(pk=token_id, tenant_id=tenant_id, service_account_id=account_id)
    if not mine.exists():
        raise errors.NotFound
    access.token_revoke(token_id=token_id, actor=actor)


def account_list(tenant_id: UUID) -> QuerySet[ServiceAccount]:
    """The tenant's programs by name, each with how many tokens of it work."""
    live = Q(tokens__revoked_at__isnull=True, tokens__expires_at__gt=Now())
    rows = ServiceAccount.objects.filter(tenant_id=tenant_id)
    return rows.annotate(live_tokens=Count("tokens", filter=live)).order_by("name")
