"""What is on every GPU of the fleet?  Seven statements, however many hosts there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from placement.domain.health import HEALTHY
from placement.domain.picture import WHOLE_NODE, ClaimFact, SlotFact, shown_state
from placement.models import Claim, Node, NodeDrain, Slot
from placement.models.node import Health
from placement.selectors.health import classes_of
from placement.selectors.nodes import postures_of, residue_of
from placement.states import LIVE, NodeState, SlotState

HOST_DEGRADED, UNKNOWN = "host_degraded", "unknown"


@dataclass(frozen=True, slots=True)
class FleetGpu:
    """One GPU: the word for its slot, its own health, and whose work is on it.

    ``tenants`` are slugs with names, more than one where parts are held; ``platform``: a part
    or all of it waits for a cleanup's proof, which no tenant pays for. ``parts``: parts held.
    """

    index: int
    uuid: str
    cut: str
    state: str
    health: str
    tenants: tuple[tuple[str, str], ...]
    platform: bool
    parts: int


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One host in its place; no GPUs where none has been discovered yet."""

    name: str
    zone: str
    block: str
    rack: str
    posture: str
    reported_at: datetime | None
    gpus: tuple[FleetGpu, ...]


@dataclass(frozen=True, slots=True)
class _Hold:
    fact: ClaimFact
    slug: str
    platform: bool
    part: bool


@dataclass(frozen=True, slots=True)
class _Host:
    """What the words for one host's GPUs depend on besides the slot."""

    schedulable: bool
    health: str
    reported: bool
    drained: frozenset[int | None]
    residue: Mapping[int, str]
    classes: Mapping[str, str]
    holds: Mapping[int, list[_Hold]]


def fleet_nodes() -> list[FleetNode]:
    """Every host that is not retired, by zone, block, rack and name, with its GPUs."""
    fields = ("pk", "num", "name", "zone", "block", "rack", "schedulable", "health", "observed_at")
    known = Node.objects.exclude(state=NodeState.RETIRED)
    rows = list(known.order_by("zone", "block", "rack", "name").values_list(*fields))
    ids = [row[0] for row in rows]
    postures, traces, classes = postures_of(ids), residue_of(ids), classes_of(ids)
    drains, slots, holds = _drains(ids), _slots(ids), _holds([row[1] for row in rows])
    found = []
    for pk, num, name, zone, block, rack, schedulable, health, at in rows:
        host = _Host(
            schedulable=schedulable,
            health=health,
            reported=at is not None,
            drained=frozenset(drains.get(pk, ())),
            residue=traces.get(pk, {}),
            classes=classes.get(pk, {}),
            holds=holds.get(num, {}),
        )
        gpus = tuple(_gpu(host, *slot) for slot in slots.get(pk, ()))
        found.append(FleetNode(name, zone, block, rack, postures[pk], at, gpus))
    return found


def _drains(ids: list[UUID]) -> dict[UUID, set[int | None]]:
    found: dict[UUID, set[int | None]] = {}
    rows = NodeDrain.objects.filter(node_id__in=ids, ended_at__isnull=True)
    for node_id, index in rows.values_list("node_id", "slot_index"):
        found.setdefault(node_id, set()).add(index)
    return found


def _slots(ids: list[UUID]) -> dict[UUID, list[tuple[int, str, str, int, str]]]:
    found: dict[UUID, list[tuple[int, str, str, int, str]]] = {}
    rows = Slot.objects.filter(node_id__in=ids).exclude(state=SlotState.RETIRED).order_by("index")
    fields = ("node_id", "index", "state", "gpu_uuid", "gpu_index", "cut")
    for node_id, *slot in rows.values_list(*fields):
        found.setdefault(node_id, []).append((slot[0], slot[1], slot[2], slot[3], slot[4]))
    return found


def _holds(nums: list[int]) -> dict[int, dict[int, list[_Hold]]]:
    found: dict[int, dict[int, list[_Hold]]] = {}
    rows = Claim.objects.filter(node_num__in=nums, state__in=LIVE)
    fields = ("node_num", "slot_index", "state", "holder", "tenant__slug", "tenant__name", "part")
    for num, index, state, holder, slug, name, part in rows.values_list(*fields):
        fact = ClaimFact(index, state, holder, name, "")
        hold = _Hold(fact, slug, holder == "platform", part is not None)
        found.setdefault(num, {}).setdefault(index, []).append(hold)
    return found


def _gpu(host: _Host, index: int, state: str, uuid: str, gpu: int, cut: str) -> FleetGpu:
    holds = [*host.holds.get(index, ()), *host.holds.get(WHOLE_NODE, ())]
    fact = SlotFact(
        index,
        state,
        uuid,
        gpu,
        draining=None in host.drained or index in host.drained,
        residue=index in host.residue,
    )
    parts = sum(hold.part for hold in holds)
    whole = next((hold.fact for hold in holds if not hold.part), None)
    word = shown_state(fact, whole, parted=parts > 0)
    if word == "free" and not host.schedulable:
        # A slot without a claim on a node that takes no work is not free to anybody.
        word = "not_leasable"
    return FleetGpu(
        index=index,
        uuid=uuid,
        cut=cut,
        state=word,
        health=_health(host, uuid),
        tenants=tuple(sorted({(h.slug, h.fact.tenant) for h in holds if not h.platform})),
        platform=any(hold.platform for hold in holds),
        parts=parts,
    )


def _health(host: _Host, uuid: str) -> str:
    """The device's own class. Without a present report nothing is known: that is not well."""
    if uuid in host.classes:
        return host.classes[uuid]
    if not host.reported or host.health == Health.UNKNOWN:
        return UNKNOWN
    return HOST_DEGRADED if host.health == Health.DEGRADED else HEALTHY
