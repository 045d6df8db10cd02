"""How does a tenant's wish for more become an envelope, or not?"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.transitions import advance
from tenants.errors import IncreaseOpenAlready, TenantNotActive
from tenants.models import Envelope, QuotaIncrease, ResourceClass
from tenants.selectors import granted_milli
from tenants.services.envelopes import GONE, envelope_set
from tenants.services.quota import amount, class_named, tenant_locked
from tenants.states import IncreaseState

LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class IncreaseView:
    """A wish beside what the platform has: what is promised to all, and what can be delivered."""

    granted_milli: int
    granted_after_milli: int
    deliverable_milli: int

    @property
    def overcommitted(self) -> bool:
        """Whether, with this granted, more is promised than can be delivered."""
        return self.granted_after_milli > self.deliverable_milli


def increase_view(increase: QuotaIncrease, *, deliverable_milli: int) -> IncreaseView:
    """The numbers an operator decides by. Who asks brings what the fleet can deliver."""
    granted = granted_milli(increase.resource_class_id)
    envelope = Envelope.objects.filter(
        tenant_id=increase.tenant_id, resource_class_id=increase.resource_class_id
    ).first()
    now = envelope.nominal_milli if envelope else 0
    return IncreaseView(
        granted_milli=granted,
        granted_after_milli=granted + max(0, increase.nominal_asked_milli - now),
        deliverable_milli=deliverable_milli,
    )


def increase_checked(
    *, resource_class: str, nominal_asked_milli: int, justification: str
) -> tuple[ResourceClass, int, str]:
    """The class, the amount and the words of a wish. Raises InvalidRequest naming the field."""
    asked = amount(nominal_asked_milli, "/nominal_asked_milli", least=1)
    why = justification.strip()
    if not why or len(why) > LONGEST_TEXT or "\0" in why:
        raise errors.InvalidRequest(
            "Say why more is needed.",
            errors=(
                errors.FieldError("/justification", "required", f"1 to {LONGEST_TEXT} characters"),
            ),
        )
    return class_named(resource_class, pointer="/resource_class"), asked, why


@transaction.atomic
def increase_ask(
    *,
    tenant_id: UUID,
    resource_class: str,
    nominal_asked_milli: int,
    justification: str,
    actor: Actor,
) -> QuotaIncrease:
    """Keep a wish for a larger envelope of a class; one a class is open at a time.

    Admission decides on it first, and keeps the request: ask there.
    """
    kind, asked, why = increase_checked(
        resource_class=resource_class,
        nominal_asked_milli=nominal_asked_milli,
        justification=justification,
    )
    with platform_scope():
        tenant = tenant_locked(tenant_id)
        if tenant.state in GONE:
            raise TenantNotActive(f"The tenant is {tenant.state}.", state=tenant.state)
        mine = QuotaIncrease.objects.filter(
            tenant=tenant, resource_class=kind, state=IncreaseState.ASKED
        )
        if mine.exists():
            raise IncreaseOpenAlready(
                f"{resource_class} has an open wish.", increase=str(mine[0].pk)
            )
        envelope = Envelope.objects.filter(tenant=tenant, resource_class=kind).first()
        before = envelope.nominal_milli if envelope else 0
        if asked <= before:
            raise errors.InvalidRequest(
                f"The tenant may hold {before} already.",
                errors=(
                    errors.FieldError("/nominal_asked_milli", "out_of_range", f"above {before}"),
                ),
            )
        increase = QuotaIncrease.objects.create(
            tenant=tenant,
            resource_class=kind,
            nominal_before_milli=before,
            nominal_asked_milli=asked,
            justification=why,
            asked_by=actor.as_json(),
        )
        events.record(
            kind="tenants.quotaincrease.ask",
            subject=increase,
            actor=actor,
            before={"nominal_milli": before},
            after={"nominal_milli": asked, "resource_class": resource_class},
            reason=why,
        )
    return increase


def _open(increase_id: UUID) -> QuotaIncrease:
    """The wish, its tenant locked first: the order in which an approval takes locks."""
    found = QuotaIncrease.objects.filter(pk=increase_id).first()
    if found is None:
        raise errors.NotFound
    with platform_scope():
        tenant_locked(found.tenant_id)
    return QuotaIncrease.objects.select_related("resource_class").get(pk=increase_id)


@transaction.atomic
def increase_approve(
    *,
    increase_id: UUID,
    reason: str,
    actor: Actor,
    nominal_granted_milli: int | None = None,
) -> QuotaIncrease:
    """Grant what was asked, or another amount, and set the envelope in the same transaction.

    Raises TransitionRefused when it was decided or withdrawn meanwhile.
    """
    increase = _open(increase_id)
    granted = (
        increase.nominal_asked_milli
        if nominal_granted_milli is None
        else amount(nominal_granted_milli, "/nominal_granted_milli", least=1)
    )
    envelope = Envelope.objects.filter(
        tenant_id=increase.tenant_id, resource_class=increase.resource_class
    ).first()
    now = envelope.nominal_milli if envelope else 0
    if nominal_granted_milli is not None and granted <= now:
        raise errors.InvalidRequest(
            f"The tenant may hold {now} already: that would grant nothing. Refuse it instead.",
            errors=(errors.FieldError("/nominal_granted_milli", "out_of_range", f"above {now}"),),
        )
    decided = advance(
        increase,
        "approve",
        actor=actor,
        reason=reason,
        changes={
            "nominal_granted_milli": granted,
            "decided_by": actor.as_json(),
            "decided_at": clock.db_now(),
            "decision_reason": reason,
        },
        facts={"nominal_milli": granted},
    )
    envelope_set(
        tenant_id=increase.tenant_id,
        resource_class=increase.resource_class.name,
        nominal_milli=granted,
        reason=f"quota increase {increase_id}: {reason}",
        actor=actor,
    )
    return decided


@transaction.atomic
def increase_refuse(*, increase_id: UUID, reason: str, actor: Actor) -> QuotaIncrease:
    """Refuse it, with the reason the tenant reads."""
    return advance(
        _open(increase_id),
        "refuse",
        actor=actor,
        reason=reason,
        changes={
            "decided_by": actor.as_json(),
            "decided_at": clock.db_now(),
            "decision_reason": reason,
        },
    )


@transaction.atomic
def increase_withdraw(*, increase_id: UUID, actor: Actor, reason: str = "") -> QuotaIncrease:
    """The tenant no longer asks."""
    increase = _open(increase_id)
    with platform_scope():
        return advance(increase, "withdraw", actor=actor, reason=reason)
