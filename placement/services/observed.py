"""What does a host see of itself, and what follows?  Silence is unknown, never absent."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from django.db import connection, transaction

from gpuaas.kernel import clock, events, sweeping
from gpuaas.kernel.actor import system
from placement.domain.residue import blocking_codes
from placement.errors import ObservedStale
from placement.models import Allocation, Node
from placement.models.allocation import Observed
from placement.models.node import Health
from placement.node_tasks import ObservedAnswer, ObservedReport
from placement.services.agents import node_actor
from placement.services.drift import drift_nudge
from placement.services.evidence import evidence_from_report
from placement.services.health import health_judge
from placement.services.nodes import locked, recount, refold
from placement.services.quiet import DIGEST, Said, report_quiet
from placement.services.residue import residue_take
from placement.services.signatures import Signed, host_of, number_take
from placement.services.slots import above_take
from placement.services.strangers import strangers_add
from placement.states import AllocationState, NodeState

SILENT_AFTER_S = 60
WATCH = system("watch")
HOLDING = (
    AllocationState.PLACED,
    AllocationState.PROVISIONING,
    AllocationState.ACTIVE,
    AllocationState.PREEMPTING,
    AllocationState.RELEASING,
    AllocationState.CLEANUP_BLOCKED,
)


def node_reports(signed: Signed, said: Said | None) -> tuple[Node, ObservedAnswer | None]:
    """The host of a report whose signature holds, and the answer where the report says nothing new.

    None: it is still to be read, and taken in full. Raises what signatures.number_take raises.
    """
    if said is None:
        return host_of(number_take(signed)), None
    node, now, same = report_quiet(signed, said, HOLDING)
    return node, ObservedAnswer(server_time=int(now.timestamp())) if same else None


@transaction.atomic
def node_observed(*, node: Node, message: ObservedReport, digest: str = "") -> ObservedAnswer:
    """Keep the report, compare it with what should be there, and fold the node's health.

    Traces of an earlier tenant block the slots that they touch; those that no slot can be
    told for block the node. What a report says of a GPU is judged with what else is known of it
    (placement.services.health), and blocks its slot alone where that is enough.

    Reports are numbered within a boot; an older one than the last kept changes nothing.
    ``digest``: by which one that says the same is known (placement.services.quiet).
    """
    now = clock.db_now()
    row = locked(node.pk)
    if message.boot_id != row.boot_id:
        raise ObservedStale("The report is of another boot than the node's last poll.")
    if message.seq <= row.observed_seq:
        raise ObservedStale(last_seq=row.observed_seq)
    conditions = [c.to_json() for c in message.conditions]
    seen = {vm.claim_ref: vm for vm in message.vms if vm.claim_ref}
    held = list(Allocation.objects.filter(node=row, state__in=HOLDING))
    known = {str(allocation.pk) for allocation in held}
    strangers_add(row, message, conditions, known)
    present = [a.pk for a in held if str(a.pk) in seen]
    absent = [a.pk for a in held if str(a.pk) not in seen]
    with connection.cursor() as cursor:
        for ids, value in ((present, Observed.PRESENT), (absent, Observed.ABSENT)):
            if ids:
                cursor.execute(
                    "UPDATE placement_allocation SET observed = %s, observed_at = %s, "
                    "observed_detail = '' WHERE id = ANY (%s)",
                    [str(value), now, ids],
                )
    said = sorted(kind.value for kind in message.parts)
    changed_parts = row.part_kinds != said
    row.part_kinds = said
    changed_slots = residue_take(row, message, conditions, actor=node_actor(row))
    row.observed = message.to_json() | ({DIGEST: digest} if digest else {})
    proved = evidence_from_report(row, conditions, actor=node_actor(row))
    conditions, freed = health_judge(row, conditions)
    changed_slots = changed_slots or freed
    # What is wrong with some slots only is theirs: the node as a whole is well.
    health = Health.DEGRADED if blocking_codes(conditions) else Health.OK
    changed = (row.health, row.conditions) != (str(health), conditions)
    row.observed_at, row.observed_seq, row.last_seen_at = now, message.seq, now
    row.conditions, row.health = conditions, health
    row.save(
        update_fields=[
            "observed",
            "observed_at",
            "observed_seq",
            "last_seen_at",
            "conditions",
            "health",
            "part_kinds",
        ]
    )
    if changed:
        events.record(
            kind="placement.node.health",
            subject=row,
            actor=node_actor(row),
            after={"health": str(health), "conditions": [c["code"] for c in conditions]},
        )
    if changed_parts:
        events.record(
            kind="placement.node.parts",
            subject=row,
            actor=node_actor(row),
            after={"part_kinds": said},
        )
    if above_take(row):
        events.record(
            kind="placement.node.wired", subject=row, actor=WATCH, after={"layout": row.layout}
        )
    if changed_slots or changed_parts:
        recount(row)
    elif changed or proved:
        refold(row)
    lost = [a.pk for a in held if a.state == AllocationState.ACTIVE and str(a.pk) not in seen]
    if changed or lost:
        drift_nudge(row.pk)
    return ObservedAnswer(server_time=int(now.timestamp()))


def silence_sweep() -> int:
    """Nodes that have said nothing for too long become unknown: no new work, claims kept."""
    return sweeping.each("placement.silence", _quiet, _unknown)


def _quiet(resting: Collection[UUID]) -> list[UUID]:
    before = clock.db_now() - timedelta(seconds=SILENT_AFTER_S)
    quiet = Node.objects.filter(last_seen_at__lt=before).exclude(
        state__in=[NodeState.RETIRED, NodeState.ENROLLING]
    )
    quiet = quiet.exclude(health=Health.UNKNOWN).exclude(pk__in=resting)
    return list(quiet.values_list("pk", flat=True)[:200])


def _unknown(node_id: UUID) -> bool:
    row = locked(node_id)
    before = clock.db_now() - timedelta(seconds=SILENT_AFTER_S)
    if row.last_seen_at is None or row.last_seen_at >= before:
        return False
    row.health = Health.UNKNOWN
    row.save(update_fields=["health"])
    Allocation.objects.filter(node=row, state__in=HOLDING).update(
        observed=Observed.UNKNOWN, observed_detail="node_silent"
    )
    events.record(
        kind="placement.node.silent",
        subject=row,
        actor=WATCH,
        reason="node_silent",
        facts={"last_seen_at": row.last_seen_at.isoformat()},
    )
    refold(row)
    return True
