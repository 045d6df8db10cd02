"""Who belongs to a tenant, in which role?  There is always an owner."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import platform_scope
from tenants.errors import LastOwner
from tenants.models import ApiToken, Member, Role, User
from tenants.services.quota import tenant_locked


def _role(role: str, actor: Actor) -> str:
    """The role, if it exists and the actor may hand it out. Only owners make owners."""
    if role not in Role.values:
        raise errors.InvalidRequest(
            f"There is no role {role!r}.",
            errors=(errors.FieldError("/role", "unknown", ", ".join(Role.values)),),
        )
    if role == Role.OWNER:
        _owners_only(actor)
    return role


def _owners_only(actor: Actor) -> None:
    if not actor.operator and actor.role != Role.OWNER:
        raise errors.PermissionDenied("Only an owner makes, changes or removes an owner.")


def _owner_stays(member: Member, actor: Actor) -> None:
    """Before an owner ceases to be one. Raises LastOwner; the tenant is locked."""
    _owners_only(actor)
    others = Member.objects.filter(tenant_id=member.tenant_id, role=Role.OWNER)
    if not others.exclude(pk=member.pk).exists():
        raise LastOwner


@transaction.atomic
def member_add(*, tenant_id: UUID, email: str, role: str, actor: Actor) -> Member:
    """Give an existing account a role in the tenant, or change the one it has."""
    user = User.objects.filter(email__iexact=email).first()
    if user is None:
        raise errors.InvalidRequest(
            "No account has this address; the person signs up first.",
            errors=(errors.FieldError("/email", "unknown", "no account has this address"),),
        )
    chosen = _role(role, actor)
    with platform_scope():
        tenant_locked(tenant_id)
        member = Member.objects.filter(tenant_id=tenant_id, user=user).first()
        if member is not None:
            return _set(member, chosen, actor)
        member = Member.objects.create(tenant_id=tenant_id, user=user, role=chosen)
        events.record(
            kind="tenants.member.set", subject=member, actor=actor, after={"role": chosen}
        )
    return member


def _set(member: Member, role: str, actor: Actor) -> Member:
    before = member.role
    if before == role:
        return member
    if before == Role.OWNER and role != Role.OWNER:
        _owner_stays(member, actor)
    member.role = role
    member.save(update_fields=["role"])
    events.record(
        kind="tenants.member.set",
        subject=member,
        actor=actor,
        before={"role": before},
        after={"role": role},
    )
    return member


def _locked(member_id: UUID) -> Member:
    """The member as the caller's scope sees it, read again under the tenant's lock."""
    found = Member.objects.filter(pk=member_id).first()
    if found is None:
        raise errors.NotFound
    with platform_scope():
        tenant_locked(found.tenant_id)
        member = Member.objects.filter(pk=member_id).first()
    if member is None:
        raise errors.NotFound
    return member


@transaction.atomic
def member_role_set(*, member_id: UUID, role: str, actor: Actor) -> Member:
    """Another role for a member. Raises LastOwner for the only owner."""
    chosen = _role(role, actor)
    member = _locked(member_id)
    with platform_scope():
        return _set(member, chosen, actor)


@transaction.atomic
def member_remove(*, member_id: UUID, actor: Actor, reason: str = "") -> None:
    """End a membership and the tokens that stood on it. Raises LastOwner for the only owner."""
    member = _locked(member_id)
    with platform_scope():
        if member.role == Role.OWNER:
            _owner_stays(member, actor)
        tokens = ApiToken.objects.filter(
            tenant_id=member.tenant_id, user_id=member.user_id, revoked_at__isnull=True
        ).update(revoked_at=clock.db_now())
        events.record(
            kind="tenants.member.remove",
            subject=member,
            actor=actor,
            before={"role": member.role, "user": str(member.user_id)},
            reason=reason,
            facts={"tokens_revoked": tokens},
        )
        member.delete()
