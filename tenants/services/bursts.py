"""When may a tenant go beyond its borrowing limit, and what happens when that ends?"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from gpuaas.kernel import clock, errors, sweeping
from gpuaas.kernel import events as kernel_events
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from tenants.domain.bursts import Window, is_open, is_over
from tenants.errors import BurstWithoutCohort, TenantNotActive
from tenants.models import BurstRule, OnExcess
from tenants.services.envelopes import GONE
from tenants.services.quota import PART, Excess, amount, class_named, enforce, tenant_locked
from tenants.services.tenancy import checked_name
from tenants.states import BurstState


def window_of(rule: BurstRule) -> Window:
    """The rule's window as the pure functions take it."""
    return Window(rule.opens_at, rule.closes_at, rule.every_s)


@transaction.atomic
def burst_create(
    *,
    tenant_id: UUID,
    resource_class: str,
    name: str,
    extra_milli: int,
    opens_at: datetime,
    closes_at: datetime,
    actor: Actor,
    every_s: int | None = None,
    on_close: str = OnExcess.GRANDFATHER,
    reason: str = "",
) -> BurstRule:
    """Let the tenant borrow more from its cohort in a window, once or every ``every_s`` seconds.

    ``on_close`` says what happens to what is held beyond the limit then. A window that is
    open already opens at once.
    """
    tenant = tenant_locked(tenant_id)
    if tenant.state in GONE:
        raise TenantNotActive(f"The tenant is {tenant.state}.", state=tenant.state)
    if tenant.cohort_id is None:
        raise BurstWithoutCohort
    fault = Window(opens_at, closes_at, every_s).fault()
    if fault:
        raise errors.InvalidRequest(
            f"The window is refused: {fault}.",
            errors=(errors.FieldError("/closes_at", "out_of_range", fault),),
        )
    if on_close not in OnExcess.values:
        raise errors.InvalidRequest(
            f"There is no policy {on_close!r}.",
            errors=(errors.FieldError("/on_close", "unknown", ", ".join(OnExcess.values)),),
        )
    rule = BurstRule.objects.create(
        tenant=tenant,
        resource_class=class_named(resource_class, pointer="/resource_class"),
        name=checked_name(name),
        extra_milli=amount(extra_milli, "/extra_milli", least=1),
        opens_at=opens_at,
        closes_at=closes_at,
        every_s=every_s,
        on_close=on_close,
    )
    kernel_events.record(
        kind="tenants.burstrule.create",
        subject=rule,
        actor=actor,
        after={
            "resource_class": resource_class,
            "extra_milli": extra_milli,
            "opens_at": opens_at,
            "closes_at": closes_at,
            "every_s": every_s,
            "on_close": on_close,
        },
        reason=reason,
    )
    return _turn(rule, actor)


@transaction.atomic
def burst_end(*, burst_id: UUID, reason: str, actor: Actor) -> BurstRule:
    """End a rule for good; an open window closes as it would have by itself."""
    found = BurstRule.objects.filter(pk=burst_id).first()
    if found is None:
        raise errors.NotFound
    tenant_locked(found.tenant_id)
    rule = BurstRule.objects.get(pk=burst_id)
    return _close(rule, "end", actor, reason)


def bursts_turn() -> int:
    """Open and close what the clock says; returns how many rules moved.

    Those of one tenant in their order: one that breaks stops its own tenant's, and no other's.
    """

    def steps(tenant_id: UUID) -> Iterable[int]:
        for rule in _open_rules().filter(tenant=tenant_id):
            if _move(rule, clock.db_now()):
                yield _turn_one(rule.pk)

    return sweeping.in_order("tenants.bursts", _tenants_to_turn, steps)


def _open_rules() -> QuerySet[BurstRule]:
    return BurstRule.objects.exclude(state=BurstState.ENDED).select_related("tenant").order_by("pk")


def _tenants_to_turn(resting: Collection[UUID]) -> list[UUID]:
    now = clock.db_now()
    rules = _open_rules().exclude(tenant__in=resting)
    return list(dict.fromkeys(rule.tenant_id for rule in rules if _asks(rule, now)))


def _asks(rule: BurstRule, now: datetime) -> bool:
    """Whether a rule is to be looked at: it moves, or cannot even be read, which its turn says."""
    try:
        return bool(_move(rule, now))
    except Exception:
        return True


@transaction.atomic
def _turn_one(rule_id: UUID) -> int:
    found = BurstRule.objects.get(pk=rule_id)
    tenant_locked(found.tenant_id)
    rule = BurstRule.objects.get(pk=rule_id)
    if rule.state == BurstState.ENDED:
        return 0
    return int(_turn(rule, PART).state != rule.state)


def _move(rule: BurstRule, now: datetime) -> str:
    """The edge that the clock asks for, or an empty string."""
    window = window_of(rule)
    if is_over(window, now) or rule.tenant.state in GONE:
        return "end"
    if is_open(window, now):
        return "open" if rule.state == BurstState.SCHEDULED else ""
    return "close" if rule.state == BurstState.OPEN else ""


def _turn(rule: BurstRule, actor: Actor) -> BurstRule:
    """Move one rule to where the clock says; its tenant is locked."""
    edge = _move(rule, clock.db_now())
    if not edge:
        return rule
    if edge != "open":
        return _close(rule, edge, actor, "")
    opened = advance(rule, "open", actor=actor)
    enforce(opened.tenant, opened.resource_class, actor=actor)
    return opened


def _close(rule: BurstRule, edge: str, actor: Actor, reason: str) -> BurstRule:
    was_open = rule.state == BurstState.OPEN
    closed = advance(rule, edge, actor=actor, reason=reason)
    if was_open:
        enforce(closed.tenant, closed.resource_class, actor=actor, excess=Excess(closed.on_close))
    return closed
