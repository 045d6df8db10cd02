"""How does a tenant ask for more quota, or take back what it asked?  By a decided request."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from admission.domain.changes import INCREASE, WAITS, Word
from admission.errors import WithdrawnAlready
from admission.models import CHANGES, AdmissionRequest
from admission.services.changes import (
    again,
    decide_now,
    denied,
    open_request,
    quota_of,
    received,
    refuse,
    wait,
    withdrawn,
)
from admission.states import RequestState
from gpuaas.kernel import errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import platform_scope
from tenants.domain import roles
from tenants.models import Envelope, QuotaIncrease, Role
from tenants.services import increases, tenancy
from tenants.services.quota import class_named, tenant_locked
from tenants.states import IncreaseState


def increase_ask(
    *,
    tenant_id: UUID,
    resource_class: str,
    nominal_asked_milli: int,
    justification: str,
    actor: Actor,
) -> QuotaIncrease:
    """Ask for a larger envelope of a class; one wish a class is open at a time.

    Raises InvalidRequest naming the field; TenantNotActive, IncreaseOpenAlready or a rule's
    refusal after the request and its decision were written.
    """
    increases.increase_checked(
        resource_class=resource_class,
        nominal_asked_milli=nominal_asked_milli,
        justification=justification,
    )
    with transaction.atomic(), platform_scope():
        tenant = tenant_locked(tenant_id)
        kind = class_named(resource_class, pointer="/resource_class")
        envelope = Envelope.objects.filter(tenant=tenant, resource_class=kind).first()
        before = envelope.nominal_milli if envelope else 0
        mine = QuotaIncrease.objects.filter(
            tenant=tenant, resource_class=kind, state=IncreaseState.ASKED
        ).first()
        change, verdict = decide_now(
            INCREASE,
            actor,
            may=actor.operator or _may_ask(actor),
            tenant=tenant,
            resource_class=resource_class,
            asked_milli=nominal_asked_milli,
            before_milli=before,
            open_wish=str(mine.pk) if mine else "",
            quota=quota_of(tenant, kind.pk),
        )
        spec = {
            "resource_class": resource_class,
            "nominal_asked_milli": nominal_asked_milli,
            "nominal_before_milli": before,
            "justification": justification.strip(),
        }
        gate = verdict.refusal
        assert gate is not None
        if gate.code == WAITS:
            wish = increases.increase_ask(
                tenant_id=tenant_id,
                resource_class=resource_class,
                nominal_asked_milli=nominal_asked_milli,
                justification=justification,
                actor=actor,
            )
            request = received(
                INCREASE, actor, spec=spec, tenant=tenant, resource_class=kind, subject_id=wish.pk
            )
            wait(request, change, verdict, actor)
            return wish
        request = received(INCREASE, actor, spec=spec, tenant=tenant, resource_class=kind)
        refused = denied(request, change, verdict, gate, actor)
    raise refused


def _may_ask(actor: Actor) -> bool:
    return roles.may("quota:write", role=actor.role, operator="", scopes=actor.scopes)


def _wish(increase_id: UUID) -> QuotaIncrease:
    wish = QuotaIncrease.objects.filter(pk=increase_id).first()
    if wish is None:
        raise errors.NotFound
    return wish


def increase_approve(
    *,
    increase_id: UUID,
    reason: str,
    actor: Actor,
    nominal_granted_milli: int | None = None,
) -> QuotaIncrease:
    """Grant a wish, or another amount, if no rule forbids that much now.

    The envelope is set with it. Raises InvalidRequest for an amount that grants nothing.
    """
    word = Word(True, actor.name, reason, nominal_granted_milli)
    wish = _wish(increase_id)
    with transaction.atomic(), platform_scope():
        step = again(increase_id, tenant_locked(wish.tenant_id), word)
        if step.refused is None:
            done = increases.increase_approve(
                increase_id=increase_id,
                reason=reason,
                nominal_granted_milli=nominal_granted_milli,
                actor=actor,
            )
            step.admit(word, actor)
            return done
    raise step.refused


def increase_refuse(*, increase_id: UUID, reason: str, actor: Actor) -> QuotaIncrease:
    """Refuse a wish, with the reason that the tenant reads; its request is denied with it."""
    wish = _wish(increase_id)
    with transaction.atomic(), platform_scope():
        tenant = tenant_locked(wish.tenant_id)
        done = increases.increase_refuse(increase_id=increase_id, reason=reason, actor=actor)
        refuse(increase_id, tenant, Word(False, actor.name, reason), actor)
    return done


def increase_withdraw(*, increase_id: UUID, actor: Actor, reason: str = "") -> QuotaIncrease:
    """The tenant no longer asks; its request is withdrawn with it."""
    wish = _wish(increase_id)
    with transaction.atomic(), platform_scope():
        tenant_locked(wish.tenant_id)
        done = increases.increase_withdraw(increase_id=increase_id, actor=actor, reason=reason)
        request = open_request(increase_id)
        if request is not None:
            withdrawn(request, "", actor, reason)
    return done


def change_withdraw(*, request_id: UUID, actor: Actor, reason: str = "") -> AdmissionRequest:
    """Take a signup or a wish back that waits for its approval.

    A signup that is taken back leaves its tenant turned away. Raises PermissionDenied for a
    role that may not ask for such a thing, WithdrawnAlready when it has ended.
    """
    row = AdmissionRequest.objects.filter(pk=request_id, action__in=CHANGES).first()
    if row is None:
        raise errors.NotFound
    if row.state == RequestState.WITHDRAWN:
        return row
    if row.state != RequestState.QUEUED or row.subject_id is None or row.tenant_id is None:
        raise WithdrawnAlready(f"The request is {row.state}.", state=row.state)
    if row.action == INCREASE:
        if not (actor.operator or _may_ask(actor)):
            raise errors.PermissionDenied("The role or the token does not allow it.")
        increase_withdraw(increase_id=row.subject_id, actor=actor, reason=reason)
        return AdmissionRequest.objects.get(pk=request_id)
    if not (actor.operator or actor.role == Role.OWNER):
        raise errors.PermissionDenied("Only an owner, or an operator, takes a signup back.")
    with transaction.atomic(), platform_scope():
        tenant_locked(row.tenant_id)
        tenancy.tenant_reject(tenant_id=row.tenant_id, reason=reason or "withdrawn", actor=actor)
        return withdrawn(AdmissionRequest.objects.get(pk=request_id), "", actor, reason)
