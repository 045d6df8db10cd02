"""Which rows does one placement write?  Built here, committed by the SQL function."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, connection

from admission.domain.decide import Facts, Verdict
from admission.snapshots import Authority
from gpuaas.kernel import events, ids, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ConcurrentUpdate
from placement.domain.fit import Option, Want
from tenants.domain.names import slug_of
from tenants.errors import EnvelopeExceeded

PROVISION_S = 600
RUN_S = 1800
ADMITTED, PLACED = "admission.admissionrequest.admit", "placement.allocation.place"


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
    queued: bool = False
    allocation_id: UUID = field(default_factory=ids.new_id)
    decision_id: UUID = field(default_factory=ids.new_id)

    @property
    def amount_milli(self) -> int:
        """Quota it takes: per slot, or once for the whole node."""
        return self.authority.units_milli * max(self.want.slots, 1)

    @property
    def price_hour_micro(self) -> int:
        """What it costs an hour."""
        return self.authority.hour_micro * max(self.want.slots, 1)


def hostname_of(name: str, allocation_id: UUID) -> str:
    """A host name from the allocation's own name, unique by the end of its id."""
    return f"{slug_of(name, limit=40) or 'gpu'}-{allocation_id.hex[-8:]}"


def capacity_gate(options: Sequence[Option]) -> dict[str, Any]:
    """The last gate, as it is stored when it let the request through."""
    return {
        "gate": "capacity",
        "passed": True,
        "code": "",
        "detail": f"{len(options)} places compared.",
        "facts": {"places": len(options)},
    }


def _row(i: int, item: Item, options: Sequence[Option], whole_name: str) -> dict[str, Any]:
    who = item.authority
    whole = item.want.whole
    kind = "baremetal.provision" if whole else "slice.vm_provision"
    best = options[0].explained()
    hostname = hostname_of(item.name, item.allocation_id)
    return {
        "i": i,
        "queued": item.queued,
        "whole": whole,
        "options": [[o.num, o.generation, o.mask] for o in options],
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
        "band": who.band,
        "spec": item.spec,
        "actor": item.actor.as_json(),
        "decision": item.decision_id,
        "gates": [*(g.as_json() for g in item.verdict.gates), capacity_gate(options)],
        "runner_up": options[1].explained() if len(options) > 1 else None,
        "why": f"{whole_name}; first choice {json.dumps(best)}",
        "envelope_version": who.quota.version if who.quota else 0,
        "digest": item.facts.digest(),
        "allocation": item.allocation_id,
        "name": item.name,
        "shape": who.shape,
        "image": item.image,
        "hostname": hostname,
        "ssh_keys": list(item.ssh_keys),
        "price": item.price_hour_micro,
        "currency": who.currency,
        "claims": [ids.new_id() for _ in range(max(item.want.slots, 1))],
        "task": ids.new_id(),
        "kind": kind,
        "params": {
            "allocation_id": str(item.allocation_id),
            "image": item.image,
            "ssh_keys": list(item.ssh_keys),
            "hostname": hostname,
        },
        "task_s": PROVISION_S,
        "run": item.run_id,
        "steps": workflow.initial_steps(
            "allocation.create", done=("admit", "place"), running="provision"
        ),
        "run_s": RUN_S,
        "uids": [ids.new_id(), ids.new_id()],
        "correlation": item.actor.request_id,
    }


def commit(
    planned: Iterable[tuple[Item, Sequence[Option]]], *, skip_locked: bool
) -> dict[int, tuple[int, int]]:
    """Write the placements that still hold: item position → (node number, slot mask).

    One round trip. Raises EnvelopeExceeded or ConcurrentUpdate when the batch as a whole
    could not be written; then nothing was. The caller holds the transaction.
    """
    rows = [
        _row(i, item, options, "fewest NUMA nodes and switches, then tightest fit")
        for i, (item, options) in enumerate(planned)
    ]
    heard = {kind: events.subscribers_of(kind) for kind in (ADMITTED, PLACED)}
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT item, num, mask FROM placement_commit(%s::jsonb, %s::jsonb, %s)",
                [json.dumps(rows, cls=DjangoJSONEncoder), json.dumps(heard), skip_locked],
            )
            return {row[0]: (row[1], row[2]) for row in cursor.fetchall()}
    except DatabaseError as error:
        state = getattr(error.__cause__, "sqlstate", "")
        if state == "GP001":
            raise EnvelopeExceeded(
                "The envelope was used up, or closed, while the request was decided."
            ) from error
        if state == "GP002":
            raise ConcurrentUpdate("A queued request left the queue meanwhile.") from error
        raise
