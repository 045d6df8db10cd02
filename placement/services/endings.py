"""What does placement release when a tenant may no longer hold it?

A suspension with the policy ``release``, a deletion, and a lowered envelope whose delay is
over. Each lease ends as any other: releasing first, and released by proof.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from django.db import transaction
from django.db.models import Subquery, Sum

from admission.models import AdmissionRequest
from admission.states import RequestState
from gpuaas.kernel import sweeping, workflow
from gpuaas.kernel.actor import system
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.transitions import advance
from placement.models import Allocation, Claim
from placement.services.intents import intent_dropped
from placement.services.releases import Leaving, releases_each
from placement.states import LIVE, AllocationState, ClaimState, Outcome
from tenants.errors import ENVELOPE_LOWERED, TENANT_DELETING, TenantSuspended
from tenants.models import QuotaCounter, Tenant
from tenants.services.deletion import tenant_delete_finish
from tenants.services.quota import draining
from tenants.states import TenantState

PART = system("endings")
STANDING = (AllocationState.PLACED, AllocationState.PROVISIONING, AllocationState.ACTIVE)


def _release(rows: Iterable[Allocation], outcome: str | None, code: str, detail: str) -> int:
    """Begin the release of each; how many began. One that breaks is raised after the others."""
    return releases_each(
        Leaving(row.pk, PART, code, detail, outcome=outcome, cancel=detail, claims=row.slots)
        for row in rows
    )


def _standing(tenant_id: UUID) -> list[Allocation]:
    """What a tenant has and has not been asked back, by node: a batch locks few nodes."""
    rows = Allocation.objects.filter(tenant_id=tenant_id, state__in=STANDING)
    return list(rows.order_by("node__num", "pk"))


def suspended_release(tenant_id: UUID) -> int:
    """Release what a suspended tenant holds, if that is its policy and it is still suspended."""
    tenant = Tenant.objects.get(pk=tenant_id)
    if tenant.state != TenantState.SUSPENDED or tenant.suspension != "release":
        return 0
    return _release(
        _standing(tenant_id), Outcome.EVICTED, TenantSuspended.code, "the tenant is suspended"
    )


def suspensions_sweep() -> int:
    """Release what suspended tenants still hold whose policy it is: what an event could not."""
    # Each batch is a transaction of its own: one that cannot be given back keeps no other.
    return sweeping.each("placement.suspensions", _suspended, suspended_release, at_once=False)


def _suspended(resting: Collection[UUID]) -> list[UUID]:
    rows = Tenant.objects.filter(state=TenantState.SUSPENDED, suspension="release")
    held = rows.filter(allocations__state__in=STANDING).exclude(pk__in=resting)
    return list(held.distinct().values_list("pk", flat=True))


def deleting_release(tenant_id: UUID) -> int:
    """Take a deleting tenant's requests out of the queue and release what it holds."""
    tenant = Tenant.objects.get(pk=tenant_id)
    if tenant.state != TenantState.DELETING:
        return 0
    waiting = AdmissionRequest.objects.filter(tenant_id=tenant_id, state=RequestState.QUEUED)
    for row in waiting.order_by("pk"):
        with transaction.atomic():
            if row.run_id is not None:
                workflow.cancel(row.run_id, PART, TENANT_DELETING.code)
            advance(row, "withdraw", actor=PART, changes={"code": TENANT_DELETING.code})
            intent_dropped(row.workload_id, Outcome.CANCELLED, TENANT_DELETING.code, PART)
    return _release(_standing(tenant_id), None, TENANT_DELETING.code, "the tenant is being deleted")


def excess_drain(tenant_id: UUID) -> int:
    """Release what a tenant holds beyond limits whose delay is over; how many releases began.

    What is being released already counts, so that repeating this releases no more. One that
    cannot be released keeps no other, and no older one is taken in its place.
    """
    chosen = [row for counter in draining().filter(tenant=tenant_id) for row in _newest(counter)]
    chosen.sort(key=lambda row: (row.node.num, row.pk))
    return _release(
        chosen, Outcome.EVICTED, ENVELOPE_LOWERED.code, "the tenant's envelope was lowered"
    )


def excesses_sweep() -> int:
    """Release what lowered envelopes leave beyond their limits: what an event could not."""
    # Each batch is a transaction of its own: one that cannot be given back keeps no other.
    return sweeping.each("placement.excesses", _exceeding, excess_drain, at_once=False)


def _exceeding(resting: Collection[UUID]) -> list[UUID]:
    rows = draining().exclude(tenant__in=resting)
    held = rows.filter(tenant__allocations__state__in=STANDING)
    return list(dict.fromkeys(held.values_list("tenant", flat=True)))


def _newest(counter: QuotaCounter) -> list[Allocation]:
    """The newest leases of a class without which the tenant is within its limit.

    The excess and what is held are read by one statement: a release whose proof comes between
    two would be counted as excess still, and as going no more.
    """
    excess = QuotaCounter.objects.filter(pk=counter.pk).values("grandfathered_milli")
    claims = (
        Claim.objects.filter(
            tenant=counter.tenant_id,
            resource_class=counter.resource_class_id,
            holder="tenant",
            state__in=LIVE,
        )
        .annotate(excess=Subquery(excess))
        .values_list("allocation_id", "state", "excess")
        .annotate(total=Sum("amount_milli"))
    )
    found = list(claims)
    going = sum(total for _, state, _, total in found if state == ClaimState.RELEASING)
    left = found[0][2] - going if found else 0
    held: dict[UUID, int] = {}
    for lease, state, _, total in found:
        if state != ClaimState.RELEASING:
            held[lease] = held.get(lease, 0) + total
    chosen = []
    rows = Allocation.objects.select_related("node").filter(pk__in=held)
    for row in rows.order_by("-created_at", "-pk"):
        if left <= 0:
            break
        chosen.append(row)
        left -= held[row.pk]
    return [row for row in chosen if row.state in STANDING]


def deletions_sweep() -> int:
    """Bring every deleting tenant on: release what is left, and end those that hold nothing."""
    # Each batch of releases is a transaction of its own: few nodes are locked by one.
    return sweeping.each("placement.deletions", _deleting, _bring_on, at_once=False)


def _deleting(resting: Collection[UUID]) -> list[UUID]:
    rows = Tenant.objects.filter(state=TenantState.DELETING).exclude(pk__in=resting)
    return list(rows.values_list("pk", flat=True))


def _bring_on(tenant_id: UUID) -> bool:
    deleting_release(tenant_id)
    if Claim.objects.filter(tenant_id=tenant_id, holder="tenant", state__in=LIVE).exists():
        return False
    try:
        tenant_delete_finish(tenant_id=tenant_id, actor=PART)
    except ProductError:
        return False  # Another worker ended it, or a claim was committed meanwhile.
    return True
