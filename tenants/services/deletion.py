"""How does a tenant, or a project, end?  When nothing is held any more, and not before."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.transitions import advance
from tenants.errors import ProjectNotEmpty, TenantHoldsClaims
from tenants.models import (
    ApiToken,
    EnvelopeVersion,
    Invitation,
    Member,
    Project,
    ProjectQuota,
    QuotaCounter,
    QuotaIncrease,
    ResourceClass,
    Role,
    ServiceAccount,
    SshKey,
    Tenant,
)
from tenants.services.cohorts import cohort_move
from tenants.services.envelopes import project_row_locked
from tenants.services.quota import tenant_locked
from tenants.services.tenancy import door_set
from tenants.states import IncreaseState


@transaction.atomic
def tenant_delete(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """→ deleting: nothing new starts, its keys stop working, and what it holds is released.

    It ends as deleted when the last claim has ended by proof. An owner or an operator may.
    """
    if not actor.operator and not (actor.role == Role.OWNER and actor.tenant_id == tenant_id):
        raise errors.PermissionDenied("Only an owner, or an operator, deletes a tenant.")
    with platform_scope():
        tenant = advance(
            tenant_locked(tenant_id),
            "begin_delete",
            actor=actor,
            reason=reason,
            changes={"state_reason": reason},
        )
        door_set(tenant)
        now = clock.db_now()
        revoked = ApiToken.objects.filter(tenant=tenant, revoked_at__isnull=True).update(
            revoked_at=now
        )
        ServiceAccount.objects.filter(tenant=tenant, disabled_at__isnull=True).update(
            disabled_at=now
        )
        Invitation.objects.filter(
            tenant=tenant, accepted_at__isnull=True, revoked_at__isnull=True
        ).update(revoked_at=now)
        EnvelopeVersion.objects.filter(
            tenant=tenant, applied_at__isnull=True, cancelled_at__isnull=True
        ).update(cancelled_at=now)
        for wish in QuotaIncrease.objects.filter(tenant=tenant, state=IncreaseState.ASKED):
            advance(wish, "withdraw", actor=actor, reason="tenant_deleting")
        events.record(
            kind="tenants.tenant.keys_revoked",
            subject=tenant,
            actor=actor,
            facts={"tokens": revoked},
        )
    return tenant


@transaction.atomic
def tenant_delete_finish(*, tenant_id: UUID, actor: Actor) -> Tenant:
    """deleting → deleted, if no counter holds anything; its doors are shut, so none will.

    What it lent leaves its cohort, people and their keys leave it; requests, decisions,
    leases and events stay. Raises TenantHoldsClaims.
    """
    tenant = tenant_locked(tenant_id)
    counters = QuotaCounter.objects.select_for_update(no_key=True).filter(tenant=tenant)
    held = sum(counter.used_milli for counter in counters.order_by("resource_class_id"))
    if held:
        raise TenantHoldsClaims(f"It still holds {held} milli-units.", used_milli=held)
    cohort_move(tenant, None, "tenant_deleting", actor)
    keys, _ = SshKey.objects.filter(tenant=tenant).delete()
    members, _ = Member.objects.filter(tenant=tenant).delete()
    return advance(
        Tenant.objects.get(pk=tenant_id),
        "finish_delete",
        actor=actor,
        facts={"used_milli": 0, "ssh_keys": keys, "members": members},
    )


@transaction.atomic
def project_delete(*, project_id: UUID, actor: Actor, reason: str = "") -> Project:
    """Close a project in which nothing is held; its row stays for what refers to it.

    Every class is closed under its lock first, so that a placement beside this comes before,
    and is seen, or after, and is refused. Raises ProjectNotEmpty.
    """
    project = Project.objects.filter(pk=project_id, deleted_at__isnull=True).first()
    if project is None:
        raise errors.NotFound
    with platform_scope():
        rows: list[ProjectQuota] = [
            project_row_locked(project, kind) for kind in ResourceClass.objects.order_by("pk")
        ]
        held = sum(row.used_milli for row in rows)
        if held:
            raise ProjectNotEmpty(f"{project.name} holds {held} milli-units.", used_milli=held)
        for row in rows:
            row.limit_milli = 0
            row.save(update_fields=["limit_milli"])
        project.deleted_at = clock.db_now()
        project.save(update_fields=["deleted_at"])
        ApiToken.objects.filter(project=project, revoked_at__isnull=True).update(
            revoked_at=project.deleted_at
        )
        events.record(
            kind="tenants.project.delete",
            subject=project,
            actor=actor,
            before={"name": project.name, "slug": project.slug},
            reason=reason,
        )
    return project
