"""What follows from errors of a host's GPUs?  A judgement per device, and no more than it says.

A slot that is kept from new work is blocked in the name of ``health``. What somebody else has
blocked, or drained, is left alone, and only a block of its own is ever lifted here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from gpuaas.kernel import clock, errors, events, sweeping
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.domain.health import (
    HEALTHY,
    HOST_ITSELF,
    OWN_TROUBLE,
    PREVENT_NODE,
    DeviceFacts,
    Judgement,
    SeenXid,
    Told,
    judge,
    judge_host,
)
from placement.domain.identity import BLOCK
from placement.domain.residue import blocking_codes
from placement.domain.xids import xid_of
from placement.models import (
    Claim,
    CleanupProof,
    DeviceHealth,
    GpuDevice,
    IdentityDifference,
    Node,
    Slot,
    TelemetryWindow,
    XidEvent,
)
from placement.models.node import Health
from placement.node_tasks import TelemetryWindow as WireWindow
from placement.selectors.identity import HEALTH
from placement.services.breaker import breaker_allows
from placement.services.identity import WATCH as IDENTITY
from placement.services.nodes import locked, need_reason, recount
from placement.states import LIVE, NodeState, SlotState

PART = HEALTH
OWNER: Final = PART.as_json()
KEPT: Final = 500
"""Error events kept of a host; older ones go."""
LOOKED_BACK: Final = timedelta(days=14)
_TROUBLE: Final = OWN_TROUBLE | {"gpu_lost", "device_missing"}


def xids_take(node: Node, boot_id: str, window: WireWindow) -> bool:
    """Keep the error numbers of a new window, with who had the GPU; whether there was one.

    The node is locked.
    """
    if not window.xids:
        return False
    slots = dict(
        Slot.objects.filter(node=node)
        .exclude(state=SlotState.RETIRED)
        .values_list("gpu_uuid", "index")
    )
    held: dict[int, UUID | None] = {}
    live = Claim.objects.filter(node_num=node.num, state__in=LIVE)
    for index, allocation in live.values_list("slot_index", "allocation_id"):
        # Where several have parts of a GPU, nobody can say whose error it was.
        held[index] = None if index in held else allocation
    XidEvent.objects.bulk_create(
        XidEvent(
            node=node,
            gpu_uuid=one.device or "",
            xid=one.xid,
            count=one.count,
            at=datetime.fromtimestamp(min(one.last_at, 253_402_300_799), UTC),
            boot_id=boot_id,
            allocation=held.get(-1) or held.get(slots.get(one.device or "", -2)),
            policy=xid_of(one.xid).policy,
        )
        for one in window.xids
    )
    newest = XidEvent.objects.filter(node=node).order_by("-created_at", "-id")
    XidEvent.objects.filter(node=node).exclude(
        pk__in=list(newest.values_list("pk", flat=True)[:KEPT])
    ).delete()
    return True


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of a host's GPUs, read once."""

    facts: dict[str, DeviceFacts]
    slots: dict[str, Slot]
    rows: dict[str, DeviceHealth]


def _told(conditions: Iterable[Mapping[str, Any]]) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = {}
    for one in conditions:
        if one["code"] in _TROUBLE and one.get("device"):
            found.setdefault(one["device"], []).append(Told(one["code"], one["detail"]))
    return found


def _resets(node: Node, now: datetime) -> dict[int, datetime]:
    """When a complete cleanup last proved a reset, by slot; -1: of the whole host.

    None that is older than every error that is looked at. They are found by the host's tasks,
    which an index has: of ended claims none is kept by host.
    """
    since = now - LOOKED_BACK
    proofs = CleanupProof.objects.filter(
        task__node=node, task__created_at__gte=since, created_at__gte=since, complete=True
    )
    last = proofs.values("claim__slot_index").annotate(at=Max("created_at"))
    return dict(last.values_list("claim__slot_index", "at"))


def _ecc(node: Node) -> dict[str, int]:
    """Uncorrectable errors of each device in the last window that knew."""
    last = TelemetryWindow.objects.filter(node=node).order_by("-received_at", "-seq").first()
    if last is None:
        return {}
    return {
        one["device"]: series["last"]
        for one in last.body["devices"]
        for series in one["series"]
        if one["device"] and series["metric"] == "ecc_uncorrected" and series["last"] is not None
    }


def _seen(node: Node, conditions: Iterable[Mapping[str, Any]], now: datetime) -> _Seen:
    """Everything that the node's GPUs are judged by; only those of which something is known."""
    told = _told(conditions)
    rows = {row.gpu_uuid: row for row in DeviceHealth.objects.filter(node=node)}
    xids = _errors(node, now)
    ecc = _ecc(node)
    about = told.keys() | xids.keys() | {u for u, n in ecc.items() if n}
    about |= {uuid for uuid, row in rows.items() if row.classification != HEALTHY}
    if not about:
        return _Seen({}, {}, rows)
    slots = {
        slot.gpu_uuid: slot
        for slot in Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED)
    }
    resets = _resets(node, now)
    gpus = _gpus(node)
    present = {uuid for uuid, presence in gpus.items() if presence == "present"}
    facts = {}
    for uuid in sorted(about):
        slot, row = slots.get(uuid), rows.get(uuid)
        if uuid == HOST_ITSELF:
            facts[uuid] = DeviceFacts(
                xids=xids.get(uuid, ()),
                boot=node.boot_id,
                observed=bool(gpus) and len(present) == len(gpus),
                reset_at=resets.get(-1),
                lifted_at=row.lifted_at if row else None,
            )
            continue
        proved = [at for at in (resets.get(slot.index) if slot else None, resets.get(-1)) if at]
        facts[uuid] = DeviceFacts(
            xids=xids.get(uuid, ()),
            conditions=told.get(uuid, ()),
            boot=node.boot_id,
            observed=uuid in present,
            reset_at=max(proved, default=None),
            lifted_at=row.lifted_at if row else None,
            ecc_uncorrected=ecc.get(uuid),
        )
    return _Seen(facts, slots, rows)


def _errors(node: Node, now: datetime) -> dict[str, list[SeenXid]]:
    """The host's error numbers by GPU; by the host itself where none was named that it has.

    A GPU that its driver could not name goes by its address.
    """
    recent = XidEvent.objects.filter(node=node, created_at__gte=now - LOOKED_BACK)
    told = list(recent.order_by("created_at"))
    by_address: dict[str, str] = {}
    if any(":" in one.gpu_uuid for one in told):
        known = GpuDevice.objects.filter(node=node).exclude(pci="")
        by_address = dict(known.values_list("pci", "uuid"))
    found: dict[str, list[SeenXid]] = {}
    for one in told:
        named = by_address.get(one.gpu_uuid, "") if ":" in one.gpu_uuid else one.gpu_uuid
        # The host's clock is its own claim: what follows is reckoned by ours.
        allocation = str(one.allocation or "")
        seen = SeenXid(one.xid, one.created_at, one.boot_id, one.count, allocation)
        found.setdefault(named or HOST_ITSELF, []).append(seen)
    return found


def _gpus(node: Node) -> dict[str, str]:
    """Each GPU's presence in the host's last report of its present boot."""
    if node.observed.get("boot_id") != node.boot_id:
        return {}
    gpus = (node.observed.get("devices") or {}).get("gpus") or ()
    return {one["id"]: one.get("presence") or "unknown" for one in gpus}


def health_judge(node: Node, conditions: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
    """Judge the node's GPUs and block or free their slots; the node is locked.

    ``conditions`` are the host's own. Returned are they with what is about the whole node added
    and those marked that touch certain slots only, and whether any slot was blocked or freed.
    """
    now = clock.db_now()
    kept = [_bare(one) for one in conditions if one.get("by") != "health"]
    seen = _seen(node, kept, now)
    moved, whole = False, []
    for uuid, facts in seen.facts.items():
        judged = (judge_host if uuid == HOST_ITSELF else judge)(facts, now)
        row = seen.rows.get(uuid)
        held = not _write(node, uuid, row, judged, now, told=bool(facts.conditions))
        slot = seen.slots.get(uuid)
        if slot is not None and not held:
            moved = _slot(slot, judged) or moved
        if PREVENT_NODE in judged.consequences and not held:
            about = {} if uuid == HOST_ITSELF else {"device": uuid}
            whole += [
                {"code": f.code, "detail": f.detail, **about, "by": "health"}
                for f in judged.findings
                if f.consequence == PREVENT_NODE and not _said(f.detail, kept)
            ]
        blocked = slot is not None and judged.prevents and not held
        if blocked and PREVENT_NODE not in judged.consequences:
            for one in kept:
                if one.get("device") == uuid and one["code"] in OWN_TROUBLE and slot is not None:
                    one["slots"] = [slot.index]
    return kept + whole, moved


def _bare(condition: Mapping[str, Any]) -> dict[str, Any]:
    """A condition without what an earlier judgement marked it with."""
    own = condition["code"] in OWN_TROUBLE
    return {name: value for name, value in condition.items() if not (own and name == "slots")}


def _said(detail: str, conditions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the host's own condition says it already."""
    return any(one["detail"] == detail for one in conditions)


def _write(
    node: Node,
    uuid: str,
    row: DeviceHealth | None,
    judged: Judgement,
    now: datetime,
    *,
    told: bool,
) -> bool:
    """Keep the judgement; False where the breaker holds what would follow from it.

    ``told``: the host itself says so now. Only what is concluded here from numbers is held.
    """
    follows = list(judged.consequences)
    already = row is not None and any(one.startswith("prevent") for one in row.consequences)
    allowed = (
        told
        or already
        or not judged.prevents
        or breaker_allows(
            node=node,
            kind="health_block",
            about=uuid[:80],
            reason=judged.findings[0].code,
            actor=PART,
            facts={"gpu": uuid, **judged.findings[0].numbers},
        )
    )
    if not allowed:
        follows = [one for one in follows if not one.startswith("prevent")]
    if row is None and judged.classification == HEALTHY and not judged.findings:
        return allowed
    row = row or DeviceHealth(node=node, gpu_uuid=uuid, since=now)
    before = row.classification
    row.classification, row.consequences, row.checked_at = judged.classification, follows, now
    row.findings = [one.as_json() for one in judged.findings]
    if before != judged.classification:
        row.since = now
        events.record(
            kind="placement.devicehealth.judge",
            subject=node,
            actor=PART,
            before={"classification": before},
            after={"classification": judged.classification, "consequences": follows},
            reason=judged.findings[0].code if judged.findings else "healthy",
            facts={"gpu": uuid, "findings": row.findings[:5]},
        )
    row.save()
    return allowed


def _slot(slot: Slot, judged: Judgement) -> bool:
    """Block the slot of a GPU that takes no new work, or lift the block that is ours."""
    if judged.prevents and slot.state == SlotState.APPROVED:
        why = judged.findings[0]
        changes = {"block_reason": why.detail[:200], "block_owner": OWNER}
        advance(slot, "block", actor=PART, reason=why.code, changes=changes, facts=why.numbers)
        return True
    ours = slot.state == SlotState.BLOCKED and slot.block_owner == OWNER
    if ours and not judged.prevents:
        other = IdentityDifference.objects.filter(slot=slot, ended_at__isnull=True, outcome=BLOCK)
        if differs := other.first():
            # Blocked before it differed: what is left of the block is the difference's.
            Slot.objects.filter(pk=slot.pk).update(
                block_reason=differs.detail[:200], block_owner=IDENTITY.as_json()
            )
            return False
        free: dict[str, Any] = {"block_reason": "", "block_owner": None}
        slot = advance(slot, "unblock", actor=PART, reason="healthy again", changes=free)
        advance(slot, "approve", actor=PART, reason="as it was approved before")
        return True
    return False


def health_refresh(node: Node) -> None:
    """Judge the node's GPUs by what is known now, and fold; the node is locked."""
    conditions, moved = health_judge(node, node.conditions)
    health = node.health
    if health != Health.UNKNOWN:
        health = str(Health.DEGRADED if blocking_codes(conditions) else Health.OK)
    changed = (health, conditions) != (node.health, node.conditions)
    if changed:
        node.health, node.conditions = health, conditions
        node.save(update_fields=["health", "conditions"])
        events.record(
            kind="placement.node.health",
            subject=node,
            actor=PART,
            after={"health": health, "conditions": [c["code"] for c in conditions]},
        )
    if moved or changed:
        recount(node)


@transaction.atomic
def health_lift(*, node_id: UUID, gpu_uuid: str, reason: str, actor: Actor) -> DeviceHealth:
    """Set aside what is known against a GPU until now: somebody has looked at it.

    What its host still says of it, and what comes after, counts. ``gpu_uuid`` is ``host`` for
    errors of which nobody knows the GPU. Raises NotFound.
    """
    why = need_reason(reason)
    node = locked(node_id)
    row = DeviceHealth.objects.filter(node=node, gpu_uuid=gpu_uuid).first()
    if row is None:
        raise errors.NotFound
    row.lifted_at, row.lifted_by, row.lift_reason = clock.db_now(), actor.as_json(), why
    row.save(update_fields=["lifted_at", "lifted_by", "lift_reason"])
    events.record(
        kind="placement.devicehealth.lift",
        subject=node,
        actor=actor,
        reason=why,
        facts={"gpu": gpu_uuid, "findings": row.findings[:5]},
    )
    health_refresh(node)
    row.refresh_from_db()
    return row


def health_sweep() -> int:
    """Judge anew the GPUs that were not healthy: a reset, a boot or a clean day may have come."""
    return sweeping.each(
        "placement.health", _unwell, lambda node_id: health_refresh(locked(node_id))
    )


def _unwell(resting: Collection[UUID]) -> list[UUID]:
    rows = DeviceHealth.objects.exclude(classification=HEALTHY).order_by("checked_at")
    # Hosts that are out are left out here: never judged again, they would stay the oldest.
    rows = rows.exclude(node__state__in=[NodeState.RETIRED, NodeState.ENROLLING])
    rows = rows.exclude(node_id__in=resting)
    return list(dict.fromkeys(rows.values_list("node_id", flat=True)[:400]))[:100]
