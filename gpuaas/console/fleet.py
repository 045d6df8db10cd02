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
    """One slot in a strip; ``x`` counts slots. ``roles``: of a slot held in parts, each part's."""

    x: int
    roles: tuple[str, ...]


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
    claims: dict[int, dict[int, list[ClaimFact]]] = {}
    live = Claim.objects.filter(node_num__in=nums, state__in=[str(s) for s in LIVE_CLAIM])
    held = live.order_by("node_num", "slot_index", "span", "id")
    for num, index, state, part in held.values_list(
        "node_num", "slot_index", "state", "part__kind"
    ):
        one = ClaimFact(index, state, "", "", "", part=part or "")
        claims.setdefault(num, {}).setdefault(index, []).append(one)
    return [
        _strip(node, postures[node.pk], slots.get(node.pk, []), claims.get(node.num, {}))
        for node in listed
    ]


def _strip(
    node: Node, posture: str, slots: list[SlotFact], claims: dict[int, list[ClaimFact]]
) -> Strip:
    whole = claims.get(WHOLE_NODE, [])
    counted: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    cells, cut = [], 0
    for n, slot in enumerate(slots):
        held = claims.get(slot.index, whole)
        shown = [shown_state(slot, claim) for claim in held] or [shown_state(slot, None)]
        if not node.schedulable:
            # A slot without a claim on a node that takes no work is not free to anybody.
            shown = ["not_leasable" if state == "free" else state for state in shown]
        cells.append(Cell(n, tuple(role_of(state) for state in shown)))
        in_parts = any(claim.part for claim in held)
        cut += in_parts
        (parts if in_parts else counted).update(shown)
    words = [_tally(counted)] if counted else []
    if cut:
        words.append(f"{cut} in parts ({_tally(parts)})")
    return Strip(
        node=node,
        posture=posture,
        mark=mark_of(posture),
        cells=tuple(cells),
        words=", ".join(words),
        free=counted["free"],
    )


def _tally(counted: Counter[str]) -> str:
    return ", ".join(f"{n} {state.replace('_', ' ')}" for state, n in counted.items())


def posture_counts(postures: Iterable[str]) -> list[tuple[str, Mark, int]]:
    """How many nodes have each of the seven postures."""
    counted = Counter(postures)
    return [(posture, mark_of(posture), counted.get(posture, 0)) for posture in POSTURES]
