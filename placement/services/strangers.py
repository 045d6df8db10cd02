"""Which machines on a host did nobody ask for, and what do they touch?

A host says of a stray machine which GPUs it has. Of a machine that bears the name of an allocation
which has nothing there any more, the slots are known by it. What a machine touches is blocked, slot
by slot; a machine of which that is unknown blocks its whole host. None is ever ended unasked.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from placement.models import Node
from placement.node_tasks import ObservedReport
from placement.selectors.nodes import slot_list

UNKNOWN_VM: Final = "unknown_vm"


def strangers_add(
    node: Node,
    message: ObservedReport,
    conditions: list[dict[str, Any]],
    known: Collection[str],
) -> None:
    """Add a condition for each machine that ``known`` allocations do not explain.

    What the host says of a machine by itself is not said again.
    """
    told = {one["detail"] for one in conditions if one["code"] == UNKNOWN_VM}
    strange = [
        vm
        for vm in message.vms
        if vm.claim_ref not in known and not (vm.claim_ref is None and _by_itself(vm.name) in told)
    ]
    if not strange:
        return
    gpus = {slot.index: slot.gpu_uuid for slot in slot_list(node)}
    for vm in strange:
        # The slots of a machine of ours have our numbers; those of any other have the host's.
        touched = [gpus.get(index, "") for index in vm.slots] if vm.claim_ref else []
        devices = touched if touched and all(touched) else [None]
        conditions += [
            {"code": UNKNOWN_VM, "detail": f"{vm.name} is not ours", "device": device}
            for device in devices
        ]


def _by_itself(name: str) -> str:
    """What a host says of a stray machine. Compared whole: a name may be a part of another's."""
    return f"machine {name} was not asked for"
