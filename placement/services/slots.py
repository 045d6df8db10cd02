"""How does a report of a host's topology become slots, without ever changing approved ones?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.transitions import advance
from placement.domain.identity import (
    CARD_ADDED,
    CARD_ELSEWHERE,
    CARD_SWAPPED,
    IOMMU_SHARED,
    Difference,
    shared,
)
from placement.domain.links import links_between, with_links
from placement.domain.wiring import ABOVE, NONE, with_above, with_cards, with_untold
from placement.models import GpuDevice, Node, Slot
from placement.models.inventory import NicMode
from placement.models.node import Intended
from placement.node_tasks import HOST_BRIDGE, TopologyReport
from placement.services.candidates import beside, slot_fields
from placement.services.capabilities import evidence_from_discovery
from placement.services.division import as_approved
from placement.services.identity import WATCH, identity_compare
from placement.states import NodeState, SlotState

_LINKS_UNTOLD = frozenset({"nvlink_unreadable", "nvlink_target_unknown"})
_CARD_OF_FUNCTION = "sriov_card"
OPEN = (SlotState.CANDIDATE, SlotState.VERIFIED)


def layout_of(slots: Iterable[Slot], topology: Mapping[str, Any]) -> tuple[str, int]:
    """The node's compact layout (placement.domain.wiring) and its exclusive-NIC mask.

    ``topology`` is the last report, of which the links between GPUs are: nobody approves those.
    """
    slots = list(slots)
    tops = _tops(slots, topology)
    parts: dict[int, str] = {}
    names: dict[str, int] = {}
    mask = 0

    def short(value: str) -> str:
        return str(names.setdefault(value, len(names))) if value else ""

    for slot in slots:
        numa = "" if slot.numa is None else str(slot.numa)
        nic = NONE if slot.nic_mode == NicMode.NONE else short(slot.nic)
        above = tops.get(slot.switch)
        switch = short(slot.switch) + (f"{ABOVE}{short(above)}" if above else "")
        parts[slot.index] = f"{numa}.{switch}.{short(slot.nvlink_domain)}.{nic}"
        if slot.nic_mode == NicMode.EXCLUSIVE:
            mask |= 1 << slot.index
    last = max(parts, default=-1)
    layout = "|".join(parts.get(k, "...") for k in range(last + 1))
    return _as_reported(layout, slots, topology), mask


def _as_reported(layout: str, slots: Iterable[Slot], topology: Mapping[str, Any]) -> str:
    """The layout with what only a report tells: functions of one card, and links, read or not."""
    layout = with_cards(layout, _cards(slots, topology))
    layout = with_untold(layout, _untold(slots, topology))
    return with_links(layout, _by_slot(slots, topology))


def _tops(slots: Iterable[Slot], topology: Mapping[str, Any]) -> dict[str, str]:
    """The uppermost switch above each slot's own, where that joins it with other slots' switches.

    Whatever switch two slots share, they share the uppermost. The root of a CPU's buses is none.
    """
    parents = {one["id"]: one.get("parent") for one in topology.get("switches", ())}
    tops = {}
    for leaf in {slot.switch for slot in slots if slot.switch}:
        chain, above = [leaf], parents.get(leaf)
        while above and above not in chain and not above.startswith(HOST_BRIDGE):
            chain.append(above)
            above = parents.get(above)
        tops[leaf] = chain[-1]
    joined = Counter(tops.values())
    return {leaf: top for leaf, top in tops.items() if top != leaf and joined[top] > 1}


def _by_slot(
    slots: Iterable[Slot], topology: Mapping[str, Any]
) -> dict[tuple[int, int], int] | None:
    """The links that were read, by pairs of slots."""
    links = links_between(topology)
    if links is None:
        return None
    at = {slot.gpu_uuid: slot.index for slot in slots}
    return {
        (min(at[one], at[other]), max(at[one], at[other])): count
        for (one, other), count in links.items()
        if one in at and other in at
    }


def _untold(slots: Iterable[Slot], topology: Mapping[str, Any]) -> set[int]:
    """The slots of whose GPUs the last report does not know with which others they are linked."""
    places = {
        one.get("device")
        for one in topology.get("findings", ())
        if one.get("code") in _LINKS_UNTOLD and one.get("device")
    }
    uuids = {gpu.get("uuid") for gpu in topology.get("gpus", ()) if gpu.get("pci") in places}
    return {slot.index for slot in slots if slot.gpu_uuid in uuids}


def _cards(slots: Iterable[Slot], topology: Mapping[str, Any]) -> dict[int, set[str]]:
    """By slot, the cards that the virtual functions among its NICs are of."""
    card_of = {
        fact.get("device"): fact["value"]
        for fact in topology.get("facts", ())
        if fact.get("name") == _CARD_OF_FUNCTION and fact.get("value")
    }
    found = {}
    for slot in slots if card_of else ():
        nics = (slot.devices.get("nic"), *slot.devices.get("extra_nics", ()))
        found[slot.index] = {card_of[nic] for nic in nics if nic in card_of}
    return found


def links_take(node: Node) -> None:
    """Bring the links of the node's layout to its last report, of which GPUs nobody could read any,
    and whose NICs are functions of one card; the caller saves both fields.

    All else of a layout is as the slots were approved. What was decided by other links is decided
    anew: the generation rises.
    """
    rows = Slot.objects.filter(node=node, index__lt=node.slot_count)
    slots = list(rows.exclude(state=SlotState.RETIRED))
    layout = _as_reported(node.layout, slots, node.topology)
    if layout != node.layout:
        node.layout, node.generation = layout, node.generation + 1


def above_take(node: Node) -> bool:
    """Give a layout the switches above those of its slots where code from before they were known
    wrote it without; whether it did, and saved that. The row is locked.

    All else of it stays as it was approved. What was decided by less is decided anew.
    """
    switches = node.topology.get("switches", ())
    parents = [parent for one in switches if (parent := one.get("parent"))]
    if ABOVE in node.layout or all(parent.startswith(HOST_BRIDGE) for parent in parents):
        return False
    rows = Slot.objects.filter(node=node, index__lt=node.slot_count).exclude(switch="")
    slots = list(rows.exclude(state=SlotState.RETIRED))
    own = {slot.index: slot.switch for slot in slots}
    layout = with_above(node.layout, own, _tops(slots, node.topology))
    if layout == node.layout:
        return False
    node.layout, node.generation = layout, node.generation + 1
    node.save(update_fields=["layout", "generation"])
    return True


def lay_out(node: Node) -> None:
    """Set the node's slot count, layout and mask as its slots now are; the caller saves them."""
    slots = list(Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED).order_by("index"))
    node.slot_count = max((slot.index for slot in slots), default=-1) + 1
    node.layout, node.exclusive_mask = layout_of(slots, node.topology)


def _elsewhere(node: Node, report: TopologyReport) -> set[str]:
    """Reported UUIDs that another node already has: an identity conflict.

    A retired node has none: its GPUs may come back in another host, or under another name.
    """
    uuids = [gpu.uuid for gpu in report.gpus if gpu.uuid is not None]
    others = GpuDevice.objects.filter(uuid__in=uuids).exclude(node=node)
    return set(others.exclude(node__state=NodeState.RETIRED).values_list("uuid", flat=True))


def _keep_devices(node: Node, report: TopologyReport, elsewhere: set[str]) -> None:
    """Keep what the GPUs are, but for those that another node has."""
    now = clock.db_now()
    for gpu in report.gpus:
        if gpu.uuid is None or gpu.uuid in elsewhere:
            continue
        GpuDevice.objects.update_or_create(
            uuid=gpu.uuid,
            defaults={
                "node": node,
                "uuid_source": gpu.uuid_source.value,
                "index": gpu.index,
                "pci": gpu.pci or "",
                "model": gpu.model or "",
                "memory_bytes": gpu.memory_bytes,
                "numa": gpu.numa,
                "switch": gpu.switch or "",
                "seen_at": now,
            },
        )


def _sold(node: Node, report: TopologyReport) -> dict[str, Slot]:
    """The slots of other nodes that have the reported GPUs already."""
    uuids = [slot.gpu_uuid for slot in report.slots if slot.gpu_uuid]
    rows = Slot.objects.select_related("node").filter(gpu_uuid__in=uuids).exclude(node=node)
    return {slot.gpu_uuid: slot for slot in rows.exclude(state=SlotState.RETIRED)}


def _known(node: Node, report: TopologyReport, actor: Actor) -> dict[str, Slot]:
    """The node's slots by UUID. A candidate whose GPU is reported no longer is taken back.

    Where the GPU at its number cannot say who it is, that is unknown, and the candidate stays.
    """
    told = {slot.gpu_uuid for slot in report.slots}
    nameless = {slot.index for slot in report.slots if slot.gpu_uuid is None}
    known = {}
    for slot in Slot.objects.filter(node=node).exclude(state=SlotState.RETIRED):
        if slot.state in OPEN and slot.gpu_uuid not in told and slot.index not in nameless:
            advance(slot, "retire", actor=actor, reason="no longer reported")
        else:
            known[slot.gpu_uuid] = slot
    return known


def slots_take(
    node: Node, report: TopologyReport, *, actor: Actor, again: bool = False
) -> list[str]:
    """Turn a report into verified candidates; the node is locked. Returns what differs.

    Slots follow the UUIDs of their GPUs and keep their numbers, whatever numbers a report has.
    Candidates follow the report. Approved slots stay as they are: a difference is kept under its
    name for an operator to decide, and returned in words; what a discovery divides otherwise only
    because other cards came or went is none. ``again``: the report was taken before;
    then it is no new evidence.
    """
    if not again:
        evidence_from_discovery(node, report.to_json(), actor=actor)
    elsewhere = _elsewhere(node, report)
    report, left_out = as_approved(node, report)
    # A host that is only ever given as a whole hands no device to a machine.
    besides = {} if node.intended == Intended.BAREMETAL else beside(report)
    found = identity_compare(node, report, elsewhere=elsewhere, besides=besides, actor=actor)
    _keep_devices(node, report, elsewhere)
    said = [f"GPU {uuid} belongs to another node" for uuid in sorted(elsewhere)]
    said += [_words(one) for one in found if one.code not in (CARD_ADDED, CARD_ELSEWHERE)]
    # A card in another's place is offered once somebody has accepted that the other is gone.
    waiting = {one.discovered["gpu_uuid"] for one in found if one.code == CARD_SWAPPED}
    known, sold = _known(node, report, actor), _sold(node, report)
    taken = {slot.index for slot in known.values()}
    for candidate in report.slots:
        uuid = candidate.gpu_uuid
        if uuid is None:
            said.append(f"slot {candidate.index}: the GPU has no UUID; it is not sold")
            continue
        if uuid in elsewhere or uuid in waiting:
            continue
        held = sold.get(uuid)
        if held is not None:
            said.append(
                f"slot {candidate.index}: its GPU {uuid} is slot {held.index} of "
                f"{held.node.name}; retire that node or put the GPU back, then discover again"
            )
            continue
        slot = known.get(uuid)
        if uuid in left_out and slot is not None and slot.approved_at is not None:
            said.append(
                f"slot {slot.index}: other slots have all CPUs or memory beside its GPU {uuid}; "
                "put the card back, or give one of them up, then discover again"
            )
            continue
        if uuid in left_out:
            said.append(
                f"slot {candidate.index}: approved slots have all CPUs or memory beside its GPU "
                f"{uuid}; retire one of them, then discover again"
            )
            if slot is not None:
                advance(slot, "retire", actor=actor, reason="nothing is left beside its GPU")
            continue
        if slot is None:
            index = candidate.index if candidate.index not in taken else _free(taken)
            taken.add(index)
            fields = slot_fields(candidate, index, node.num)
            slot = Slot.objects.create(node=node, index=index, **fields)
        elif slot.state in OPEN:
            fields = slot_fields(candidate, slot.index, node.num)
            for name, value in fields.items():
                setattr(slot, name, value)
            slot.save(update_fields=list(fields))
        if uuid in besides:
            if slot.state in OPEN:
                why = shared(besides[uuid])
                said.append(f"slot {slot.index}: {why} ({IOMMU_SHARED})"[:480])
                changes = {"block_reason": why[:200], "block_owner": WATCH.as_json()}
                advance(slot, "block", actor=actor, reason=IOMMU_SHARED, changes=changes)
        elif slot.state == SlotState.CANDIDATE:
            advance(slot, "verify", actor=actor, reason="reported")
    return said


def _free(taken: set[int]) -> int:
    """The lowest number that no slot has."""
    return next(index for index in range(len(taken) + 1) if index not in taken)


def _words(one: Difference) -> str:
    where = "the host" if one.slot_index is None else f"slot {one.slot_index}"
    # As much as a finding of the report may hold, where it is shown too.
    return f"{where}: {one.detail}"[:460] + f" ({one.code})"
