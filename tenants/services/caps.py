"""Which limits does a tenant have beside its envelopes, and who is told when money runs short?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction

from gpuaas.kernel import clock, errors, events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import platform_scope
from tenants.domain.caps import Caps, soft_passed
from tenants.models import Shape, TenantCaps
from tenants.services.quota import amount, tenant_locked

COUNTS = ("allocations", "slots_per_request", "waiting", "best_band")
MONEY = ("spend_soft_micro", "spend_hard_micro")
LISTS = ("shapes", "zones")
MOST_COUNT = 1_000_000
SOFT = "tenants.caps.spend_soft"


def caps_view(row: TenantCaps | None) -> Caps:
    """The limits as the pure functions take them; no row is no limit."""
    if row is None:
        return Caps()
    numbers = {name: getattr(row, name) for name in (*COUNTS, *MONEY)}
    return Caps(**numbers, shapes=tuple(row.shapes), zones=tuple(row.zones))


def _checked(name: str, value: Any) -> Any:
    pointer = f"/{name}"
    if name in LISTS:
        words = [] if value is None else value
        if not isinstance(words, list | tuple) or not all(isinstance(w, str) for w in words):
            raise errors.InvalidRequest(
                f"{name} is a list of names.",
                errors=(errors.FieldError(pointer, "invalid", "a list of names"),),
            )
        strange = [word for word in words if name == "shapes" and word not in Shape.values]
        if strange or any(not word or len(word) > 40 for word in words):
            raise errors.InvalidRequest(
                f"{name} has unknown entries.",
                errors=(errors.FieldError(pointer, "unknown", ", ".join(Shape.values)),),
            )
        return sorted(set(words))
    if value is None:
        return None
    least = 1 if name == "slots_per_request" else 0
    number = amount(value, pointer, least=least)
    most = {"slots_per_request": 4096, "best_band": 1000}.get(name, MOST_COUNT)
    if name in COUNTS and number > most:
        raise errors.InvalidRequest(
            f"{name} is at most {most}.",
            errors=(errors.FieldError(pointer, "out_of_range", f"{least} to {most}"),),
        )
    return number


@transaction.atomic
def caps_set(
    *,
    tenant_id: UUID,
    changes: Mapping[str, Any],
    reason: str,
    actor: Actor,
    version: int | None = None,
) -> TenantCaps:
    """Change the named caps; None lifts one. ``version`` must be the one that was seen, if given.

    Raises InvalidRequest naming the field, PreconditionFailed for another version.
    """
    tenant = tenant_locked(tenant_id)
    unknown = sorted(set(changes) - {*COUNTS, *MONEY, *LISTS})
    if unknown:
        raise errors.InvalidRequest(
            "There is no such cap.",
            errors=tuple(errors.FieldError(f"/{n}", "unknown", "no such cap") for n in unknown),
        )
    row = TenantCaps.objects.filter(tenant=tenant).first()
    if version is not None and version != (row.version if row else 0):
        raise errors.PreconditionFailed(version=row.version if row else 0)
    row = row or TenantCaps(tenant=tenant, version=0)
    checked = {name: _checked(name, value) for name, value in changes.items()}
    before = {name: getattr(row, name) for name in checked}
    for name, value in checked.items():
        setattr(row, name, value)
    soft, hard = row.spend_soft_micro, row.spend_hard_micro
    if soft is not None and hard is not None and soft > hard:
        raise errors.InvalidRequest(
            "The soft cap is above the hard one.",
            errors=(errors.FieldError("/spend_soft_micro", "out_of_range", f"at most {hard}"),),
        )
    row.version += 1
    row.save()
    events.record(
        kind="tenants.caps.set",
        subject=tenant,
        actor=actor,
        before=before,
        after=checked,
        reason=reason,
        facts={"version": row.version},
    )
    return row


@transaction.atomic
def spend_warn(*, tenant_id: UUID, committed_micro: int, actor: Actor) -> bool:
    """Tell once a month that the soft cap has been passed; returns whether it was told now."""
    with platform_scope():
        row = TenantCaps.objects.select_for_update(no_key=True).filter(tenant_id=tenant_id).first()
        if row is None or not soft_passed(caps_view(row), committed_micro):
            return False
        month = clock.db_now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if Event.objects.filter(tenant_id=tenant_id, kind=SOFT, at__gte=month).exists():
            return False
        events.record(
            kind=SOFT,
            subject=row.tenant,
            actor=actor,
            tenant_id=tenant_id,
            facts={"committed_micro": committed_micro, "cap_micro": row.spend_soft_micro},
        )
    return True
