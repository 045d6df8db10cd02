"""Which rows does one placement write?  Built here, committed by the SQL function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NoReturn
from uuid import UUID

from django.db import transaction

from admission.domain.decide import Facts, Verdict
from admission.snapshots import Authority
from gpuaas.kernel import events, idempotency, ids, prepared, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ConcurrentUpdate
from gpuaas.kernel.jsontext import as_json
from gpuaas.kernel.models import RunState, WorkflowRun
from placement.domain.compared import FIRST_CHOICE
from placement.domain.fit import Option, Place, Want
from placement.domain.parts import MIG, Part, span_text
from placement.domain.sets import ANYHOW, Closeness
from placement.snapshots import Target
from tenants.domain.names import slug_of
from tenants.errors import QUOTA_REFUSALS, EnvelopeExceeded

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
PROVISION_S = 600
RUN_S = 1800
RUN_KIND: Final = "allocation.create"
RUN_STEP: Final = "provision"
SLOT_ORDER: Final = "fewest NUMA nodes and switches, then tightest fit"
PART_ORDER: Final = "the most broken GPU that holds it, then what is left of use"
ADMITTED, PLACED = "admission.admissionrequest.admit", "placement.allocation.place"
_COMMIT: Final = (
    "SELECT item, num, mask, refused, tenant, "
    "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint FROM placement_commit("
    "%s::jsonb, %s::int[], %s::int[], %s::bigint[], %s::bigint[], %s::jsonb, %s::jsonb, %s, "
    "%s::jsonb, %s::jsonb)"
)
_COMMIT_ONE: Final = (
    "SELECT 0, num, mask, refused, tenant, "
    "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint FROM placement_commit_one("
    "%s::jsonb, %s::int[], %s::bigint[], %s::bigint[], %s::jsonb, %s::jsonb)"
)
SET_FOR_OPERATORS = ("part", "runner_up")
"""Of how close a set came: what names parts of the fleet."""


@dataclass(frozen=True, slots=True)
class Item:
    """One authorised request on its way to a place."""

    authority: Authority
    facts: Facts
    verdict: Verdict
    want: Want
    project_id: UUID
    name: str
    image: str
    ssh_keys: tuple[str, ...]
    spec: dict[str, Any]
    wait: bool
    actor: Actor
    request_id: UUID
    run_id: UUID
    where: Target | None
    places: tuple[Place, ...] | None = None
    """What ``look`` saw of free capacity; None when it has to be looked for."""
    closeness: Closeness = ANYHOW
    set_met: Mapping[str, Any] = field(default_factory=dict)
    """How close the members of a set came, once there is a plan."""
    queued: bool = False
    holds: bool = False
    """Whether it has waited so long that a node is kept free for it."""
    lead: bool = True
    action: str = "allocation.create"
    workload_id: UUID | None = None
    subject_id: UUID | None = None
    allocation_id: UUID = field(default_factory=ids.new_id)
    decision_id: UUID = field(default_factory=ids.new_id)
    task_id: UUID = field(default_factory=ids.new_id)

    @property
    def amount_milli(self) -> int:
        """Quota this one allocation takes: per slot, or once for the whole node."""
        return self.authority.units_milli * max(self.want.slots, 1)

    @property
    def price_hour_micro(self) -> int:
        """What it costs an hour: this one allocation."""
        return self.authority.hour_micro * max(self.want.slots, 1)


def hostname_of(name: str, allocation_id: UUID) -> str:
    """A host name from the allocation's own name, unique by the end of its id."""
    return f"{slug_of(name, limit=40) or 'gpu'}-{allocation_id.hex[-8:]}"


def capacity_gate(item: Item, options: Sequence[Option]) -> dict[str, Any]:
    """The last gate, as it is stored when it let the request through."""
    detail = f"{len(options)} {'place' if len(options) == 1 else 'places'} compared."
    facts: dict[str, Any] = {"places": len(options)}
    wishes = item.where.prefer if item.where is not None else ()
    if wishes:
        met = wishes[options[0].wish].names if options[0].wish < len(wishes) else ()
        wanted = list(dict.fromkeys(name for wish in wishes for name in wish.names))
        missed = [name for name in wanted if name not in met]
        said = f"It is near {', '.join(met)}." if met else "Nothing was free near preferred data."
        if met and missed:
            said = f"{said} Nothing was free that is near {', '.join(missed)} as well."
        detail = f"{detail} {said}"
        facts |= {"preferred": wanted, "preferred_met": list(met)}
    if item.set_met:
        told = {name: item.set_met[name] for name in item.set_met if name not in SET_FOR_OPERATORS}
        where = f"within one {told['level_met']}" if told["level_met"] != "none" else "anywhere"
        detail = (
            f"{told['members']} members of the set on {told['nodes']} "
            f"node{'s' if told['nodes'] != 1 else ''}, {where}."
        )
        facts = told
    return {"gate": "capacity", "passed": True, "code": "", "detail": detail, "facts": facts}


def _second(item: Item, options: Sequence[Option]) -> dict[str, Any] | None:
    """What came second: the next best place, or of a set the next part of the fleet."""
    if item.set_met:
        part = item.set_met["runner_up"]
        return {"part": part} if part else None
    return options[1].explained() if len(options) > 1 else None


def _why(item: Item, options: Sequence[Option]) -> str:
    """Why this place: the order that decided; what only operators see comes last."""
    first = f"{FIRST_CHOICE}{as_json(options[0].explained())}"
    if not item.set_met:
        return f"{PART_ORDER if item.want.part else SLOT_ORDER}{first}"
    return (
        "of the parts that hold the set, the one with least room left"
        f"{first}; in {item.set_met['part'] or 'the whole pool'}"
    )


def _row(i: int, item: Item, options: Sequence[Option]) -> dict[str, Any]:
    who = item.authority
    whole = item.want.whole
    return {
        "i": i,
        "queued": item.queued,
        "whole": whole,
        "tenant": who.tenant_id,
        "project": item.project_id,
        "request": item.request_id,
        "sku": who.sku_id,
        "class": who.class_id,
        "tier_id": who.tier_id,
        "tier": who.tier,
        "pool": who.pool,
        "slots": item.want.slots,
        "amount": item.amount_milli,
        "units": who.units_milli,
        "wait": item.wait,
        "band": item.facts.asked_band,
        "spec": item.spec,
        "actor": item.actor.as_json(),
        "decision": item.decision_id,
        "gates": [*(g.as_json() for g in item.verdict.gates), capacity_gate(item, options)],
        "runner_up": _second(item, options),
        "why": _why(item, options),
        "envelope_version": who.quota.version if who.quota else 0,
        "digest": item.facts.digest(),
        "allocation": item.allocation_id,
        "name": item.name,
        "shape": who.shape,
        "image": item.image,
        "hostname": hostname_of(item.name, item.allocation_id),
        "ssh_keys": list(item.ssh_keys),
        "price": item.price_hour_micro,
        "currency": who.currency,
        "claims": [ids.new_id() for _ in range(max(item.want.slots, 1))],
        "task": item.task_id,
        "kind": "baremetal.provision" if whole else "slice.vm_provision",
        "task_s": PROVISION_S,
        "run": item.run_id,
        "run_s": RUN_S,
        "uids": [ids.new_id(), ids.new_id()],
        "correlation": item.actor.request_id,
        "lead": item.lead,
        "action": item.action,
        "workload": item.workload_id,
        "subject": item.subject_id,
        "replicas": item.facts.replicas,
        "total": item.facts.amount_milli,
        "alone": int(item.want.terms.alone),
        "facts": item.facts.seen() if item.lead else None,
        "policy_version": item.facts.policy_version,
    }


def _part_row(part: Part) -> dict[str, Any]:
    """A part as the commit takes it. An instance is a device of its own; a share is none.

    The GPU itself stays the slot's: nobody holds the whole of it while a part's span is held.
    """
    return {
        "slot": part.slot,
        "span": span_text(part.spans, part.slot),
        "bits": part.bits,
        "milli": part.milli,
        "memory_mib": part.memory_mib,
        "part": part.as_json(),
        "uid": f"{part.start}:{part.size}" if part.kind == MIG else None,
    }


def run_begun(item: Item, at: datetime) -> WorkflowRun:
    """The run of an item that was placed at that time and had not waited, as the commit wrote it:
    nobody needs to read it back."""
    return run_as_begun(
        id=item.run_id,
        tenant_id=item.authority.tenant_id,
        subject_id=item.allocation_id,
        input={"task": str(item.task_id)},
        actor=item.actor.as_json(),
        correlation=item.actor.request_id,
        due_at=at + timedelta(seconds=PROVISION_S),
        deadline_at=at + timedelta(seconds=RUN_S),
        created_at=at,
        updated_at=at,
    )


def run_as_begun(**own: Any) -> WorkflowRun:
    """A run that makes an allocation as the commit writes it, with what is its own."""
    return WorkflowRun(
        kind=RUN_KIND,
        subject_kind="placement.allocation",
        state=RunState.RUNNING,
        step=RUN_STEP,
        attempt=1,
        steps=_steps(),
        lease_epoch=0,
        **own,
    )


def _at(micros: int) -> datetime:
    """A time from microseconds since 1970, which are read faster than a time is."""
    return EPOCH + timedelta(microseconds=micros)


@cache
def _steps_json() -> str:
    return as_json(_steps())


def _steps() -> list[dict[str, Any]]:
    return workflow.initial_steps(RUN_KIND, ("admit", "place"), RUN_STEP)


def _raise(code: str, tenant: str) -> NoReturn:
    idempotency.refuse_carried(code)
    if code == "GP002":
        raise ConcurrentUpdate("A queued request left the queue meanwhile.")
    refusal = QUOTA_REFUSALS.get(code, EnvelopeExceeded)
    raise refusal(f"{refusal.title}, as of the moment of placing.", tenant=tenant)


def commit(
    planned: Iterable[tuple[Item, Sequence[Option]]],
    *,
    skip_locked: bool,
    carried: idempotency.Carried | None = None,
) -> dict[int, tuple[int, int, datetime]]:
    """Write the placements that still hold: item position → (node number, slot mask, when).

    One round trip, at most once in a transaction (of its own unless the caller has one).
    Raises the quota's refusal (with the tenant's id in its facts) or ConcurrentUpdate when the
    batch as a whole could not be written; then nothing was, and the transaction goes on.
    A key that is ``carried`` is used up if, and only if, something is written: raises
    KeyUsedError or IdempotencyKeyInUse when it cannot be.
    """
    batch = list(planned)
    heard = {kind: events.subscribers_of(kind) for kind in (ADMITTED, PLACED)}
    key = carried.as_json() if carried is not None else None
    if _alone(batch) and skip_locked and not any(heard.values()):
        written = _one(*batch[0], key)
    else:
        written = _many(batch, heard, skip_locked, key)
    for _, _, _, code, tenant, _ in written:
        if code is not None:
            _raise(code, tenant)
    if any(heard.values()):
        transaction.on_commit(events.wake_outbox)
    return {item: (num, mask, _at(micros)) for item, num, mask, _, _, micros in written}


def _alone(batch: Sequence[tuple[Item, Sequence[Option]]]) -> bool:
    """Whether it is one fresh request for slots or a node, which is written by itself."""
    if len(batch) != 1:
        return False
    [(item, options)] = batch
    return item.lead and not item.queued and all(option.part is None for option in options)


def _one(item: Item, options: Sequence[Option], key: str | None) -> list[prepared.Row]:
    return prepared.rows(
        _COMMIT_ONE,
        (
            as_json(_row(0, item, options)),
            *_columns((o.num, o.generation, o.mask) for o in options),
            _steps_json(),
            key,
        ),
    )


def _many(
    batch: Sequence[tuple[Item, Sequence[Option]]],
    heard: Mapping[str, Sequence[str]],
    skip_locked: bool,
    key: str | None,
) -> list[prepared.Row]:
    rows, places, parts = [], [], []
    for i, (item, options) in enumerate(batch):
        rows.append(_row(i, item, options))
        places += [(i, o.num, o.generation, o.mask) for o in options]
        parts += [None if o.part is None else _part_row(o.part) for o in options]
    return prepared.rows(
        _COMMIT,
        (
            as_json(rows),
            *_columns(places),
            _steps_json(),
            as_json(heard),
            skip_locked,
            as_json(parts) if any(parts) else None,
            key,
        ),
    )


def _columns(places: Iterable[tuple[int, ...]]) -> Iterator[str]:
    """An array for each column, as the database writes one: read faster than a list is."""
    return ("{" + ",".join(map(str, column)) + "}" for column in zip(*places, strict=True))
