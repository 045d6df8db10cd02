"""What is on the GPUs of the fleet?  A fixed number of statements, however many hosts there are.

``fleet_lumps`` counts the GPUs of each host that are alike: that is enough for a legend, and for
a fleet of ten thousand hosts. ``fleet_nodes`` tells every GPU of the hosts that are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from placement.domain.health import HEALTHY
from placement.domain.picture import WHOLE_NODE, ClaimFact, SlotFact, shown_state
from placement.models import Claim, Node, NodeDrain, Slot
from placement.models.node import Health
from placement.selectors.health import classes_of
from placement.selectors.nodes import postures_of, residue_of
from placement.states import LIVE, NodeState, SlotState
from tenants.models import Tenant

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
class Lump:
    """GPUs of one host that are cut, well and held alike, and how many of them."""

    cut: str
    health: str
    tenants: tuple[tuple[str, str], ...]
    platform: bool
    count: int


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


_LUMPS = """
  WITH held AS MATERIALIZED (
       SELECT node_num, slot_index,
              array_agg(DISTINCT tenant_id) FILTER (WHERE holder <> 'platform') AS tenants,
              bool_or(holder = 'platform') AS platform
         FROM placement_claim WHERE state = ANY (%s) GROUP BY 1, 2)
SELECT s.node_id, s.cut, d.classification,
       array_cat(h.tenants, w.tenants), coalesce(h.platform, false) OR coalesce(w.platform, false),
       count(*)
  FROM placement_slot s
  JOIN placement_node n ON n.id = s.node_id
  LEFT JOIN held h ON h.node_num = n.num AND h.slot_index = s.index
  LEFT JOIN held w ON w.node_num = n.num AND w.slot_index = %s
  LEFT JOIN placement_devicehealth d
         ON d.node_id = n.id AND d.gpu_uuid = s.gpu_uuid AND d.classification <> %s
 WHERE s.state <> %s AND n.state <> %s
 GROUP BY 1, 2, 3, 4, 5
"""
_PLACE = ("zone", "block", "rack", "name")


def fleet_lumps() -> list[tuple[FleetNode, list[Lump]]]:
    """Every host that is not retired, by zone, block, rack and name, with its GPUs in lumps."""
    known = Node.objects.exclude(state=NodeState.RETIRED).order_by(*_PLACE)
    rows = list(known.values_list("pk", "name", "zone", "block", "rack", "health", "observed_at"))
    states = [str(state) for state in LIVE]
    held: dict[UUID, list[tuple[str, str | None, list[UUID] | None, bool, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_LUMPS, [states, WHOLE_NODE, HEALTHY, SlotState.RETIRED, NodeState.RETIRED])
        for node_id, *lump in cursor.fetchall():
            held.setdefault(node_id, []).append((lump[0], lump[1], lump[2], lump[3], lump[4]))
    # Read last: nobody holds anything before being a tenant.
    tenants = Tenant.objects.values_list("pk", "slug", "name")
    names = {pk: (slug, name) for pk, slug, name in tenants}
    postures = postures_of([row[0] for row in rows])
    found = []
    for pk, name, zone, block, rack, health, at in rows:
        node = FleetNode(name, zone, block, rack, postures[pk], at, ())
        usual = _usual_health(health, at is not None)
        lumps = [
            Lump(cut, word or usual, tuple(sorted({names[t] for t in who or ()})), platform, n)
            for cut, word, who, platform, n in held.get(pk, ())
        ]
        found.append((node, lumps))
    return found


def fleet_nodes(among: Collection[str] | None = None) -> list[FleetNode]:
    """Hosts that are not retired, by zone, block, rack and name, with their GPUs.

    ``among`` names the hosts that are wanted; None means all of them.
    """
    fields = ("pk", "num", "name", "zone", "block", "rack", "schedulable", "health", "observed_at")
    known = Node.objects.exclude(state=NodeState.RETIRED)
    if among is not None:
        known = known.filter(name__in=among)
    rows = list(known.order_by(*_PLACE).values_list(*fields))
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
    """The device's own class, or else what its host says."""
    return host.classes.get(uuid) or _usual_health(host.health, host.reported)


def _usual_health(of_host: str, reported: bool) -> str:
    """Of a GPU without a class of its own. Without a present report nothing is known: that is
    not well."""
    if not reported or of_host == Health.UNKNOWN:
        return UNKNOWN
    return HOST_DEGRADED if of_host == Health.DEGRADED else HEALTHY
