"""How does a tenant come and go?  As a request with a decision, like any other action.

The tenant's own services make the move; here it is decided first, in the same transaction.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from admission.domain.changes import DELETION, INCREASE, SIGNUP, WAITS, Word
from admission.models import AdmissionRequest, Decision
from admission.services.changes import (
    OPEN,
    again,
    decide_now,
    denied,
    keep,
    received,
    refuse,
    wait,
    withdrawn,
)
from admission.states import RequestState
from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import error_for
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.transitions import advance
from tenants.errors import TENANT_DELETING
from tenants.models import Role, Tenant
from tenants.services import deletion, tenancy
from tenants.services.quota import tenant_locked

HOUR = timedelta(hours=1)
MOST_REFUSED_AN_HOUR = 200
REFUSED_KEPT = timedelta(days=30)
BATCH = 1000


def tenant_signup(
    *, email: str, password: str, full_name: str, tenant_name: str, actor: Actor
) -> Tenant:
    """A new account that owns a new tenant, which waits for approval; decided before either is.

    The password has been validated. Refused by a rule, only the request and its decision are
    kept, on the platform's side, and not even they once ``MOST_REFUSED_AN_HOUR`` were: strangers
    fill no tables. Raises what ``tenants`` says about names and addresses.
    """
    name = tenancy.checked_name(tenant_name, "/tenant_name")
    domain = email.rpartition("@")[2].lower()
    with transaction.atomic(), platform_scope():
        change, verdict = decide_now(SIGNUP, actor, may=True, tenant=None, email_domain=domain)
        request = received(SIGNUP, actor, spec={"name": name, "email": email})
        gate = verdict.refusal
        if gate is not None and gate.code == WAITS:
            tenant = tenancy.tenant_signup(
                email=email,
                password=password,
                full_name=full_name,
                tenant_name=name,
                actor=actor,
            )
            whose = {"tenant": tenant, "tier": tenant.tier, "subject_id": tenant.pk}
            wait(request, change, verdict, actor, **whose)
            return tenant
        assert gate is not None
        if refused_signups().filter(created_at__gt=clock.db_now() - HOUR).count() < (
            MOST_REFUSED_AN_HOUR
        ):
            refused = denied(request, change, verdict, gate, actor)
        else:
            transaction.set_rollback(True)
            refused = error_for(gate.code, gate.detail, **gate.facts)
    raise refused


def refused_signups() -> QuerySet[AdmissionRequest]:
    """Signups that a rule refused: they have no tenant."""
    return AdmissionRequest.objects.filter(
        action=SIGNUP, tenant__isnull=True, state=RequestState.DENIED
    )


def refused_signups_sweep() -> int:
    """Forget refused signups that are older than ``REFUSED_KEPT``; returns how many.

    Their events stay: they say who was refused, by which rule.
    """
    with transaction.atomic(), platform_scope():
        old = refused_signups().filter(created_at__lt=clock.db_now() - REFUSED_KEPT)
        over = list(old.order_by("created_at").values_list("pk", flat=True)[:BATCH])
        Decision.objects.filter(request__in=over).delete()
        AdmissionRequest.objects.filter(pk__in=over).delete()
    return len(over)


def tenant_approve(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """Let a pending tenant in, if no rule forbids it now; its signup is admitted with it."""
    word = Word(True, actor.name, reason)
    with transaction.atomic(), platform_scope():
        step = again(tenant_id, tenant_locked(tenant_id), word)
        if step.refused is None:
            tenant = tenancy.tenant_approve(tenant_id=tenant_id, reason=reason, actor=actor)
            step.admit(word, actor)
            return tenant
    raise step.refused


def tenant_reject(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """Turn a pending tenant away; its signup is denied with it."""
    with transaction.atomic(), platform_scope():
        before = tenant_locked(tenant_id)
        tenant = tenancy.tenant_reject(tenant_id=tenant_id, reason=reason, actor=actor)
        refuse(tenant_id, before, Word(False, actor.name, reason), actor)
    return tenant


def tenant_delete(*, tenant_id: UUID, reason: str, actor: Actor) -> Tenant:
    """Begin a tenant's deletion: an owner or an operator asks for it, and no rule forbids it.

    What waits for it, its open wishes among them, is withdrawn. Raises PermissionDenied,
    TransitionRefused or a rule's refusal, after the request and its decision were written.
    """
    with transaction.atomic(), platform_scope():
        tenant = tenant_locked(tenant_id)
        may = actor.operator or (actor.role == Role.OWNER and actor.tenant_id == tenant_id)
        change, verdict = decide_now(DELETION, actor, may=may, tenant=tenant)
        request = received(
            DELETION, actor, spec={"reason": reason}, tenant=tenant, subject_id=tenant_id
        )
        gate = verdict.refusal
        if gate is None:
            gone = deletion.tenant_delete(tenant_id=tenant_id, reason=reason, actor=actor)
            wishes = AdmissionRequest.objects.filter(tenant=tenant, action=INCREASE, state__in=OPEN)
            for wish in wishes.order_by("pk"):
                withdrawn(wish, TENANT_DELETING.code, actor)
            decision = keep(request, change, verdict, said="admit")
            facts = {"decision": str(decision.pk)}
            advance(request, "admit", actor=actor, reason=reason, facts=facts)
            return gone
        refused = denied(request, change, verdict, gate, actor)
    raise refused
