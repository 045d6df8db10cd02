"""How does a tenant come to be, change and stop?"""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction

from gpuaas.kernel import errors, events, ids
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from tenants.domain.names import BadName, clean_name, slug_of
from tenants.errors import NameTaken
from tenants.models import (
    Member,
    Project,
    QuotaCounter,
    Role,
    SlaTier,
    Tenant,
    User,
)
from tenants.services.envelopes import envelope_set
from tenants.services.quota import quota_return
from tenants.states import TenantState

__all__ = [
    "checked_name",
    "envelope_set",
    "member_add",
    "project_create",
    "quota_return",
    "tenant_approve",
    "tenant_create",
    "tenant_reject",
    "tenant_resume",
    "tenant_signup",
    "tenant_suspend",
]

DEFAULT_TIER = "standard"
FIRST_PROJECT = "default"


def checked_name(raw: str, pointer: str = "/name") -> str:
    """The cleaned name, or InvalidRequest naming the field."""
    try:
        return clean_name(raw)
    except BadName as bad:
        raise errors.InvalidRequest(
            f"The name is refused: {bad}.",
            errors=(errors.FieldError(pointer, "name_refused", f"{bad}"),),
        ) from bad


def _free_slug(name: str) -> str:
    base = slug_of(name) or f"tenant-{ids.new_id().hex[-8:]}"
    if not Tenant.objects.filter(slug=base).exists():
        return base
    return f"{base}-{ids.new_id().hex[-8:]}"


def _tier(name: str) -> SlaTier:
    tier = SlaTier.objects.filter(name=name).first()
    if tier is None:
        raise errors.InvalidRequest(
            f"There is no tier {name!r}.",
            errors=(errors.FieldError("/tier", "unknown", "no tier of this name"),),
        )
    return tier


@transaction.atomic
def tenant_create(
    *, name: str, actor: Actor, tier: str = DEFAULT_TIER, owner_email: str | None = None
) -> Tenant:
    """A pending tenant with its first project; ``owner_email`` must be an account."""
    kept = checked_name(name)
    tenant = Tenant.objects.create(name=kept, slug=_free_slug(kept), tier=_tier(tier))
    Project.objects.create(tenant=tenant, name=FIRST_PROJECT, slug=FIRST_PROJECT)
    events.record(
        kind="tenants.tenant.create",
        subject=tenant,
        actor=actor,
        after={"name": kept, "slug": tenant.slug, "tier": tier},
    )
    if owner_email:
        member_add(tenant_id=tenant.pk, email=owner_email, role=Role.OWNER, actor=actor)
    return tenant


@transaction.atomic
def tenant_signup(
    *, email: str, password: str, full_name: str, tenant_name: str, actor: Actor
) -> Tenant:
    """A new account that owns a new, pending tenant. The password has been validated."""
    try:
        with transaction.atomic():
            user = User.objects.create_user(email, password, full_name=full_name)
    except IntegrityError as taken:
        raise NameTaken(
            "An account with this address exists already; sign in instead.",
            errors=(errors.FieldError("/email", "taken", "an account has this address"),),
        ) from taken
    tenant = tenant_create(name=tenant_name, actor=actor)
    Member.objects.create(tenant=tenant, user=user, role=Role.OWNER)
    return tenant


@transaction.atomic
def member_add(*, tenant_id: UUID, email: str, role: str, actor: Actor) -> Member:
    """Give an existing account a role in the tenant, or change the one it has."""
    user = User.objects.filter(email__iexact=email).first()
    if user is None:
        raise errors.InvalidRequest(
            "No account has this address; the person signs up first.",
            errors=(errors.FieldError("/email", "unknown", "no account has this address"),),
        )
    member, _ = Member.objects.update_or_create(
        tenant_id=tenant_id, user=user, defaults={"role": role}
    )
    events.record(kind="tenants.member.set", subject=member, actor=actor, after={"role": str(role)})
    return member


def _tenant(tenant_id: UUID) -> Tenant:
    tenant = Tenant.objects.filter(pk=tenant_id).first()
    if tenant is None:
        raise errors.NotFound
    return tenant


@transaction.atomic
def _move(edge: str, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """Move the tenant and say on its counters whether it may take more.

    The counters are what a placement locks, so it comes wholly before or after this.
    """
    tenant = advance(
        _tenant(tenant_id), edge, actor=actor, reason=reason, changes={"state_reason": reason}
    )
    admitting = tenant.state == TenantState.ACTIVE
    QuotaCounter.objects.filter(tenant=tenant).update(admitting=admitting)
    return tenant


def tenant_approve(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """pending → active."""
    return _move("approve", tenant_id, reason, actor)


def tenant_reject(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """pending → rejected."""
    return _move("reject", tenant_id, reason, actor)


def tenant_suspend(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """active → suspended: creates stop at once; what runs goes on."""
    return _move("suspend", tenant_id, reason, actor)


def tenant_resume(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """suspended → active."""
    return _move("resume", tenant_id, reason, actor)


@transaction.atomic
def project_create(*, tenant_id: UUID, name: str, actor: Actor) -> Project:
    """A project in the tenant; its slug is unique there."""
    kept = checked_name(name)
    slug = slug_of(kept) or f"project-{ids.new_id().hex[-8:]}"
    try:
        with transaction.atomic():
            project = Project.objects.create(tenant_id=tenant_id, name=kept, slug=slug)
    except IntegrityError as taken:
        raise NameTaken(
            f"A project {slug!r} exists already.",
            errors=(errors.FieldError("/name", "taken", "a project has this name"),),
        ) from taken
    events.record(kind="tenants.project.create", subject=project, actor=actor, after={"name": kept})
    return project
