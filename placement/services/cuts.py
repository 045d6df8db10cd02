"""How does an operator decide that a slot is sold whole, in MIG instances, or in shares?"""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from gpuaas.kernel import errors, events
from gpuaas.kernel.actor import Actor
from placement.domain.mig import BoardKind, board_of
from placement.domain.parts import CUTS, KINDS, MIB, MIG, WHOLE
from placement.errors import GpuUnknown, PartUnsupported, SlotInUse
from placement.models import Claim, CutSlot, GpuDevice, Node, Slot
from placement.services.nodes import locked, need_reason, recount
from placement.states import LIVE, SlotState


@transaction.atomic
def slot_cut(*, node_id: UUID, slot_index: int, cut: str, reason: str, actor: Actor) -> Slot:
    """Sell a slot as ``whole``, in ``mig`` instances or in ``share``s from now on.

    Only while nothing live is on it, whole or in part. A cut slot is no part of a slice or of a
    whole node until it is whole again. Repeating it is one. Raises NotFound, InvalidRequest,
    ReasonMissing, SlotInUse; PartUnsupported where the host's agent does not say that it can;
    GpuUnknown where the GPU is not known well enough.
    """
    if cut not in CUTS:
        raise errors.InvalidRequest(
            f"There is no cut {cut!r}.",
            errors=(errors.FieldError("/cut", "unknown", ", ".join(CUTS)),),
        )
    why = need_reason(reason)
    node = locked(node_id)
    slot = Slot.objects.filter(node=node, index=slot_index).exclude(state=SlotState.RETIRED).first()
    if slot is None:
        raise errors.NotFound
    if slot.cut == cut:
        return slot
    _free_or_refuse(node, slot)
    if cut != WHOLE:
        _possible_or_refuse(node, slot, cut)
    before, slot.cut = slot.cut, cut
    slot.save(update_fields=["cut"])
    CutSlot.objects.filter(slot=slot).delete()
    facts: dict[str, object] = {"slot_index": slot.index}
    if cut in KINDS:
        facts |= _laid_out(node, slot, cut)
    events.record(
        kind="placement.node.cut",
        subject=node,
        actor=actor,
        reason=why,
        before={"cut": before},
        after={"cut": cut},
        facts=facts,
    )
    recount(node)
    return slot


def _free_or_refuse(node: Node, slot: Slot) -> None:
    """Nothing live on the slot, read under the node's lock: parts, the slot, or the node."""
    held = Claim.objects.filter(node_num=node.num, state__in=LIVE, slot_index__in=(slot.index, -1))
    count = held.count()
    if count:
        raise SlotInUse(
            f"Slot {slot.index} of {node.name} holds {count} live claims.",
            slot_index=slot.index,
            claims=count,
        )


def _gpu(slot: Slot) -> tuple[BoardKind | None, int | None]:
    """The MIG geometry and the memory of a slot's GPU, as far as they are known."""
    gpu = GpuDevice.objects.filter(uuid=slot.gpu_uuid).first()
    if gpu is None:
        return None, None
    return board_of(gpu.model, gpu.memory_bytes), gpu.memory_bytes


def _possible_or_refuse(node: Node, slot: Slot, cut: str) -> None:
    if slot.state != SlotState.APPROVED or node.family_id is None:
        raise errors.InvalidRequest(
            f"Slot {slot.index} is {slot.state}; an approved slot is cut.",
            errors=(errors.FieldError("/index", "not_approved", slot.state),),
        )
    if cut not in node.part_kinds:
        said = ", ".join(node.part_kinds) or "none"
        raise PartUnsupported(
            f"The agent of {node.name} does not say that it can make {cut} parts (it says {said}).",
            cut=cut,
            supported=list(node.part_kinds),
        )
    board, memory = _gpu(slot)
    if cut == MIG and board is None:
        raise GpuUnknown(
            f"The GPU of slot {slot.index} is no board whose MIG profiles are known.",
            slot_index=slot.index,
            memory_bytes=memory,
        )
    if not memory:
        raise GpuUnknown(
            f"The memory of the GPU of slot {slot.index} is unknown.", slot_index=slot.index
        )


def _laid_out(node: Node, slot: Slot, cut: str) -> dict[str, object]:
    """The row that says what is free on it; what it says is counted by ``recount``."""
    board, memory = _gpu(slot)
    assert memory is not None  # _possible_or_refuse asked
    assert node.family_id is not None
    name = board.name if cut == MIG and board is not None else ""
    CutSlot.objects.create(
        slot=slot,
        node=node,
        node_num=node.num,
        slot_index=slot.index,
        pool_id=node.pool_id,
        family_id=node.family_id,
        cut=cut,
        board=name,
        memory_mib=memory // MIB,
    )
    return {"board": name, "memory_mib": memory // MIB}
