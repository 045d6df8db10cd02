"""What does the whole fleet look like at a glance?  A few queries, however many GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from gpuaas.ui.marks import Mark, mark_of, role_of
from placement.domain.capacity import POSTURES
from placement.domain.picture import WHOLE_NODE, ClaimFact, SlotFact, shown_state
from placement.models import Claim, Node, NodeDrain, Slot
from placement.selectors import postures_of, residue_of
from placement.states import LIVE_CLAIM, SlotState


@dataclass(frozen=True, slots=True)
class Cell:
    """One slot in a strip; ``x`` counts slots."""

    x: int
    role: str


@dataclass(frozen=True, slots=True)
class Strip:
    """One node in the grid."""

    node: Node
    posture: str
    mark: Mark
    cells: tuple[Cell, ...]
    words: str
    free: int


def strips_of(nodes: Iterable[Node]) -> list[Strip]:
    """Every node with its posture and the state of each slot. Five statements in all."""
    listed = list(nodes)
    ids = [node.pk for node in listed]
    nums = [node.num for node in listed]
    postures = postures_of(ids)
    slots: dict[UUID, list[SlotFact]] = {}
    drains: dict[UUID, set[int | None]] = {}
    rows = NodeDrain.objects.filter(node_id__in=ids, ended_at__isnull=True)
    for node_id, index in rows.values_list("node_id", "slot_index"):
        drains.setdefault(node_id, set()).add(index)
    traces = residue_of(ids)
    known = Slot.objects.filter(node_id__in=ids).exclude(state=SlotState.RETIRED)
    fields = ("node_id", "index", "state", "gpu_uuid", "gpu_index")
    for node_id, index, state, uuid, gpu in known.order_by("index").values_list(*fields):
        drained = drains.get(node_id, set())
        fact = SlotFact(
            index,
            state,
            uuid,
            gpu,
            draining=None in drained or index in drained,
            residue=index in traces.get(node_id, {}),
        )
        slots.setdefault(node_id, []).append(fact)
    claims: dict[int, dict[int, ClaimFact]] = {}
    live = Claim.objects.filter(node_num__in=nums, state__in=[str(s) for s in LIVE_CLAIM])
    for num, index, state in live.values_list("node_num", "slot_index", "state"):
        claims.setdefault(num, {})[index] = ClaimFact(index, state, "", "", "")
    return [
        _strip(node, postures[node.pk], slots.get(node.pk, []), claims.get(node.num, {}))
        for node in listed
    ]


def _strip(node: Node, posture: str, slots: list[SlotFact], claims: dict[int, ClaimFact]) -> Strip:
    whole = claims.get(WHOLE_NODE)
    shown = [shown_state(slot, claims.get(slot.index, whole)) for slot in slots]
    if not node.schedulable:
        # A slot without a claim on a node that takes no work is not free to anybody.
        shown = ["not_leasable" if state == "free" else state for state in shown]
    counted = Counter(shown)
    return Strip(
        node=node,
        posture=posture,
        mark=mark_of(posture),
        cells=tuple(Cell(n, role_of(state)) for n, state in enumerate(shown)),
        words=", ".join(f"{n} {state.replace('_', ' ')}" for state, n in counted.items()),
        free=counted.get("free", 0),
    )


def posture_counts(strips: Iterable[Strip]) -> list[tuple[str, Mark, int]]:
    """How many nodes have each of the seven postures."""
    counted = Counter(strip.posture for strip in strips)
    return [(posture, mark_of(posture), counted.get(posture, 0)) for posture in POSTURES]
