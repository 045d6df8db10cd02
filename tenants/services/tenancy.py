"""How does a tenant come to be, change and stop?"""

from __future__ import annotations

from uuid import UUID

from django.db import IntegrityError, transaction

from gpuaas.kernel import errors, events, ids
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.constraints import is_taken
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
from tenants.services.members import member_add
from tenants.services.quota import quota_return, tenant_locked
from tenants.states import TenantState

__all__ = [
    "checked_name",
    "door_set",
    "envelope_set",
    "member_add",
    "project_create",
    "quota_return",
    "suspension_choose",
    "tenant_approve",
    "tenant_create",
    "tenant_reject",
    "tenant_resume",
    "tenant_signup",
    "tenant_suspend",
]

DEFAULT_TIER = "standard"
FIRST_PROJECT = "default"
SUSPENSIONS = ("keep", "release")


def checked_name(raw: str, pointer: str = "/name") -> str:
    """The cleaned name, or InvalidRequest naming the field."""
    try:
        return clean_name(raw)
    except BadName as bad:
        raise errors.InvalidRequest(
            f"The name is refused: {bad}.",
            errors=(errors.FieldError(pointer, "name_refused", f"{bad}"),),
        ) from bad


def person_named(full_name: str) -> str:
    """A person's name, cleaned like any other; empty if none was given."""
    return checked_name(full_name, "/full_name") if full_name else ""


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
    person = person_named(full_name)
    try:
        with transaction.atomic():
            user = User.objects.create_user(email, password, full_name=person)
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            "An account with this address exists already; sign in instead.",
            errors=(errors.FieldError("/email", "taken", "an account has this address"),),
        ) from taken
    tenant = tenant_create(name=tenant_name, actor=actor)
    Member.objects.create(tenant=tenant, user=user, role=Role.OWNER)
    return tenant


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
    door_set(tenant)
    return tenant


def door_set(tenant: Tenant) -> None:
    """Bring every counter's door to the tenant's state, locking class by class as charges do."""
    counters = QuotaCounter.objects.select_for_update(no_key=True).filter(tenant=tenant)
    for counter in counters.order_by("resource_class_id"):
        counter.admitting = tenant.state == TenantState.ACTIVE
        counter.save(update_fields=["admitting"])


def tenant_approve(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """pending → active."""
    return _move("approve", tenant_id, reason, actor)


def tenant_reject(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """pending → rejected."""
    return _move("reject", tenant_id, reason, actor)


@transaction.atomic
def tenant_suspend(
    *, tenant_id: UUID, reason: str, actor: Actor, suspension: str | None = None
) -> Tenant:
    """active → suspended: creates stop at once; what runs goes on, or is released.

    ``suspension`` (``keep`` or ``release``) replaces the tenant's policy before it is used.
    """
    if suspension is not None:
        suspension_choose(tenant_id=tenant_id, suspension=suspension, reason=reason, actor=actor)
    return _move("suspend", tenant_id, reason, actor)


@transaction.atomic
def suspension_choose(*, tenant_id: UUID, suspension: str, reason: str, actor: Actor) -> Tenant:
    """What a suspension does to running work: ``keep`` it or ``release`` it."""
    if suspension not in SUSPENSIONS:
        raise errors.InvalidRequest(
            f"There is no policy {suspension!r}.",
            errors=(errors.FieldError("/suspension", "unknown", ", ".join(SUSPENSIONS)),),
        )
    tenant = tenant_locked(tenant_id)
    before, tenant.suspension = tenant.suspension, suspension
    if before != suspension:
        tenant.save(update_fields=["suspension"])
        events.record(
            kind="tenants.tenant.suspension",
            subject=tenant,
            actor=actor,
            before={"suspension": before},
            after={"suspension": suspension},
            reason=reason,
        )
    return tenant


def tenant_resume(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """suspended → active."""
    return _move("resume", tenant_id, reason, actor)


@transaction.atomic
def project_create(*, tenant_id: UUID, name: str, actor: Actor) -> Project:
    """A project in the tenant; its slug is unique among those that are not deleted."""
    kept = checked_name(name)
    slug = slug_of(kept) or f"project-{ids.new_id().hex[-8:]}"
    try:
        with transaction.atomic():
            project = Project.objects.create(tenant_id=tenant_id, name=kept, slug=slug)
    except IntegrityError as taken:
        if not is_taken(taken):
            raise
        raise NameTaken(
            f"A project {slug!r} exists already.",
            errors=(errors.FieldError("/name", "taken", "a project has this name"),),
        ) from taken
    events.record(kind="tenants.project.create", subject=project, actor=actor, after={"name": kept})
    return project
