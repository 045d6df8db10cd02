"""How is a change of the tenant itself decided and written down, and by whose word does it go on?

The same gates, record and counters as for capacity. What an operator says about a request is a
second decision on it. A wish or a tenant that an operator made has no request, and moves
without one.

Locks: the tenant first, then its wish, then the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from admission import rules
from admission.domain.changes import INCREASE, Change, Word, decide_change
from admission.domain.decide import Gate, Verdict
from admission.domain.facts import Quota
from admission.domain.outcome import outcome_of
from admission.domain.policy import judge
from admission.measures import DURATION
from admission.models import CHANGES, AdmissionRequest, Decision
from admission.states import RequestState
from gpuaas.kernel import clock, on_the_spot
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError, error_for
from gpuaas.kernel.transitions import advance
from tenants.models import Envelope, QuotaCounter, Tenant

OPEN = (RequestState.RECEIVED, RequestState.QUEUED)


def requests_about(subject_id: UUID) -> QuerySet[AdmissionRequest]:
    """What was asked about a tenant's coming or going, or about a wish, newest first."""
    rows = AdmissionRequest.objects.filter(subject_id=subject_id, action__in=CHANGES)
    return rows.order_by("-created_at", "-id")


def open_request(subject_id: UUID) -> AdmissionRequest | None:
    """The one that is not decided yet, if there is one."""
    return requests_about(subject_id).filter(state__in=OPEN).first()


def decide_now(
    action: str, actor: Actor, *, may: bool, tenant: Tenant | None, **more: Any
) -> tuple[Change, Verdict]:
    """The facts of a change of this tenant, and what the gates and the active rules say."""
    with on_the_spot.timed(DURATION) as took:
        change, verdict = _decided(action, actor, may=may, tenant=tenant, **more)
        gate = verdict.refusal
        said = "admit" if gate is None else "wait" if gate.waits else "deny"
        took.labels = (action, outcome_of(said, "" if gate is None else gate.code))
    return change, verdict


def _decided(
    action: str, actor: Actor, *, may: bool, tenant: Tenant | None, **more: Any
) -> tuple[Change, Verdict]:
    now, stamp = clock.db_now(), rules.stamp_now()
    change = Change(
        action=action,
        actor=actor.name,
        may=may,
        tenant=tenant.slug if tenant else "",
        tenant_state=tenant.state if tenant else "",
        tier=tenant.tier.name if tenant else "",
        cohort=tenant.cohort.name if tenant and tenant.cohort else "",
        hour=now.hour,
        weekday=now.isoweekday(),
        policy_version=rules.version_of(stamp),
        **more,
    )
    active = rules.active(stamp)
    ask = partial(judge, active, timer=clock.thread_s) if active else None
    return change, decide_change(change, judge=ask)


def keep(
    request: AdmissionRequest,
    change: Change,
    verdict: Verdict,
    *,
    said: str,
    version: int = 0,
) -> Decision:
    """One decision row: ``said`` is admit, wait or deny."""
    refusal = verdict.refusal
    return Decision.objects.create(
        tenant_id=request.tenant_id,
        request=request,
        verdict=said,
        code="" if refusal is None else refusal.code,
        gates=[gate.as_json() for gate in verdict.gates],
        facts=change.seen(),
        policy_version=change.policy_version,
        envelope_version=version,
        digest=change.digest(),
    )


def received(
    action: str, actor: Actor, *, spec: dict[str, Any], tenant: Tenant | None = None, **more: Any
) -> AdmissionRequest:
    """The request's row, just received: it takes no capacity and no quota."""
    return AdmissionRequest.objects.create(
        action=action,
        tenant=tenant,
        tier_id=tenant.tier_id if tenant else None,
        slots=0,
        amount_milli=0,
        wait=True,
        spec=spec,
        actor=actor.as_json(),
        **more,
    )


def _error(gate: Gate, request: AdmissionRequest, decision: Decision) -> ProductError:
    told = {**gate.facts, "decision": str(decision.pk), "request": str(request.pk)}
    return error_for(gate.code, gate.detail, **told).kept()


def denied(
    request: AdmissionRequest, change: Change, verdict: Verdict, gate: Gate, actor: Actor
) -> ProductError:
    """The refusal, written down; to be raised when the transaction has ended."""
    decision = keep(request, change, verdict, said="deny")
    advance(
        request,
        "deny",
        actor=actor,
        reason=gate.code,
        changes={"code": gate.code, "detail": gate.detail},
        facts={"decision": str(decision.pk), **gate.facts},
    )
    return _error(gate, request, decision)


def wait(
    request: AdmissionRequest, change: Change, verdict: Verdict, actor: Actor, **changes: Any
) -> AdmissionRequest:
    """Let it wait for an operator's word, with its decision; ``changes`` go with the move."""
    gate = verdict.refusal
    assert gate is not None
    request = advance(
        request,
        "queue",
        actor=actor,
        reason=gate.code,
        changes={
            "code": gate.code,
            "detail": gate.detail,
            "queued_at": clock.db_now(),
            **changes,
        },
        facts=gate.facts,
    )
    keep(request, change, verdict, said="wait")
    return request


def _word(request: AdmissionRequest, tenant: Tenant, word: Word) -> tuple[Change, Verdict]:
    """The change as it stands now, with what an operator said about it."""
    spec = request.spec
    asked = Actor(kind="user", id=request.actor.get("id", ""), name=request.actor.get("name", ""))
    more: dict[str, Any] = {"email_domain": spec.get("email", "").rpartition("@")[2].lower()}
    if request.action == INCREASE:
        more = {
            "resource_class": spec["resource_class"],
            "asked_milli": spec["nominal_asked_milli"],
            "granted_milli": word.milli or spec["nominal_asked_milli"],
            "before_milli": spec["nominal_before_milli"],
            "quota": quota_of(tenant, request.resource_class_id),
        }
    return decide_now(request.action, asked, may=True, tenant=tenant, word=word, **more)


def quota_of(tenant: Tenant, class_id: UUID | None) -> Quota | None:
    """What the tenant may hold and holds of a class, of its own; None without an envelope."""
    counter = QuotaCounter.objects.filter(tenant=tenant, resource_class_id=class_id).first()
    if counter is None:
        return None
    envelope = Envelope.objects.filter(tenant=tenant, resource_class_id=class_id).first()
    return Quota(
        counter.limit_milli,
        counter.used_milli,
        counter.grandfathered_milli,
        counter.admitting,
        envelope.version if envelope else 0,
        counter.borrow_milli,
        counter.guaranteed_milli,
    )


NOTHING = Verdict(())


@dataclass(frozen=True, slots=True)
class Again:
    """An open request decided again with an operator's word; no request: nothing to decide."""

    request: AdmissionRequest | None = None
    change: Change | None = None
    verdict: Verdict = NOTHING
    refused: ProductError | None = None

    def admit(self, word: Word, actor: Actor) -> None:
        """Write down that it was approved; the move has been made."""
        if self.request is None or self.change is None:
            return
        quota = self.change.quota
        decision = keep(
            self.request,
            self.change,
            self.verdict,
            said="admit",
            version=quota.version if quota else 0,
        )
        advance(
            self.request,
            "admit",
            actor=actor,
            reason=word.reason,
            changes={"code": "", "detail": ""},
            facts={"decision": str(decision.pk)},
        )


def again(subject_id: UUID, tenant: Tenant, word: Word) -> Again:
    """Authority is checked again before an approval; the tenant is locked.

    A rule that forbids it meanwhile keeps it waiting, with that as its reason.
    """
    request = open_request(subject_id)
    if request is None:
        return Again()
    change, verdict = _word(request, tenant, word)
    gate = verdict.refusal
    if gate is None:
        return Again(request, change, verdict)
    decision = keep(request, change, verdict, said="wait")
    request.code, request.detail = gate.code, gate.detail
    request.save(update_fields=["code", "detail"])
    return Again(refused=_error(gate, request, decision))


def refuse(subject_id: UUID, tenant: Tenant, word: Word, actor: Actor) -> None:
    """Deny the open request, if there is one: an operator refused it, whatever rules say."""
    request = open_request(subject_id)
    if request is None:
        return
    change, _ = _word(request, tenant, word)
    verdict = decide_change(change)
    gate = verdict.refusal
    assert gate is not None
    denied(request, change, verdict, gate, actor)


def withdrawn(
    request: AdmissionRequest, code: str, actor: Actor, reason: str = ""
) -> AdmissionRequest:
    """Take a waiting request back; ``code`` says why, when it was not the asker's own wish."""
    changes = {"code": code, "detail": ""}
    return advance(request, "withdraw", actor=actor, reason=reason or code, changes=changes)
