"""How does a simulated host clean slots, and how does it lie about it when told to?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nodeagent.backend import BackendError, Progress
from nodeagent.clock import Clock
from nodeagent.protocol import (
    PART_CLEANUP_STEPS,
    REQUIRED_CLEANUP_STEPS,
    CleanupStep,
    EvidenceStep,
    FailureCode,
    GpuPart,
    SlotDevices,
    SlotEvidence,
    TaskKind,
    parts_clash,
)
from nodeagent.simhost.devices import OS_DISK, part_id, part_scratch, scratch_volume
from nodeagent.simhost.faults import FALSE_OK, MISSING_STEP, FaultMenu
from nodeagent.simhost.state import SimHostState, StateStore

# The step that a lying host leaves out: the tenant's data stays in the GPU's memory.
_LIED_ABOUT = CleanupStep.GPU_SCRUBBED
# Where a failing cleanup fails: late enough to have done something.
_FAILS_AT = CleanupStep.GPU_SCRUBBED


class Worker(Protocol):
    """The host, as far as a cleanup needs it."""

    store: StateStore
    menu: FaultMenu

    async def work(self, kind: TaskKind, step: str, percent: int, progress: Progress) -> None:
        """Spend a step's time."""


class Cleanup:
    """One cleanup of some slots of one allocation."""

    def __init__(
        self,
        host: Worker,
        kind: TaskKind,
        allocation: str,
        slots: tuple[SlotDevices, ...],
        clock: Clock,
    ) -> None:
        self._host = host
        self._kind = kind
        self._allocation = allocation
        self._slots = slots
        self._clock = clock
        self._steps: dict[int, list[EvidenceStep]] = {slot.slot_index: [] for slot in slots}

    async def run(self, progress: Progress) -> tuple[SlotEvidence, ...]:
        """Do the required steps in order. Raises BackendError with what was proven so far."""
        self._refuse_foreign()
        parted = any(slot.part is not None for slot in self._slots)
        required = REQUIRED_CLEANUP_STEPS[self._kind] + (PART_CLEANUP_STEPS if parted else ())
        for place, step in enumerate(required):
            await self._host.work(self._kind, step.value, place * 100 // len(required), progress)
            if step is _FAILS_AT and self._host.menu.take_failure(self._kind):
                raise BackendError(
                    FailureCode.CLEANUP_FAILED,
                    f"{step} did not succeed",
                    retryable=True,
                    evidence=self._evidence(),
                )
            self._do(step)
        return self._evidence()

    def _refuse_foreign(self) -> None:
        """Never clean a slot that another machine has, nor half of a machine."""
        self._host.store.refresh()
        wanted = {slot.slot_index for slot in self._slots}
        for slot in self._slots:
            beside = self._state.parts_on(slot.slot_index, but=self._allocation)
            if parts_clash(slot.part, beside):
                raise BackendError("device_in_use", "a slot has another machine", retryable=False)
        for key, vm in self._state.vms.items():
            if key == self._allocation and not set(vm.slots) <= wanted:
                raise BackendError(
                    "allocation_differs", "the machine has more slots than named", retryable=False
                )

    def _do(self, step: CleanupStep) -> None:
        lie = self._host.menu.read().lie_cleanup if step is _LIED_ABOUT else ""
        for slot in self._slots:
            clean, method, detail = self._action(step, slot)
            if lie == MISSING_STEP:
                continue
            if lie != FALSE_OK:
                clean()
            self._steps[slot.slot_index].append(
                EvidenceStep(step.value, True, method, detail, int(self._clock.now()))
            )
        self._host.store.save()

    def _action(self, step: CleanupStep, slot: SlotDevices) -> tuple[Callable[[], None], str, str]:
        """What to do for a slot, by which method, and what to say about it."""
        if slot.part is not None:
            return self._part_action(step, slot, slot.part)
        match step:
            case CleanupStep.VM_GONE:
                return self._remove_vm, "domain_list", "no machine of this allocation is defined"
            case CleanupStep.DEVICES_DETACHED:
                return _nothing, "driver_unbound", f"GPU {slot.gpu_uuid} is bound to no machine"
            case CleanupStep.GPU_SCRUBBED:
                return self._wipe(slot.gpu_uuid), "memory_overwrite", "device memory overwritten"
            case CleanupStep.NO_PROCESS:
                return _nothing, "process_list", "no process has the device open"
            case CleanupStep.NO_MOUNT:
                return _nothing, "mount_table", "no file system of the slot is mounted"
            case CleanupStep.NVME_SANITISED:
                scratch = scratch_volume(slot.slot_index)
                nvmes = slot.all_nvmes()
                method = "nvme_format" if nvmes else "volume_discard"
                detail = f"{len(nvmes)} devices formatted" if nvmes else "no NVMe was handed over"
                return self._wipe(scratch, *nvmes), method, detail
            case CleanupStep.NIC_RESET:
                nics = slot.all_nics()
                method = "function_level_reset" if nics else "virtual_nic_removed"
                detail = f"{len(nics)} devices reset" if nics else "no NIC was handed over"
                return self._wipe(*nics), method, detail
            case CleanupStep.GPU_ERROR_FREE:
                return _nothing, "error_counters", "no error was counted since the claim began"
            case CleanupStep.OS_WIPED:
                return self._wipe(OS_DISK), "disk_erase", "system disk erased"
            case CleanupStep.PART_DESTROYED:
                return _nothing, "not_applicable", "the whole GPU was handed over"

    def _part_action(
        self, step: CleanupStep, slot: SlotDevices, part: GpuPart
    ) -> tuple[Callable[[], None], str, str]:
        """The same for a part: nothing else of the GPU is touched."""
        device = part_id(slot.gpu_uuid, part, self._allocation)
        match step:
            case CleanupStep.VM_GONE:
                return self._remove_vm, "domain_list", "no machine of this allocation is defined"
            case CleanupStep.DEVICES_DETACHED:
                return _nothing, "part_detached", f"{device} is given to no machine"
            case CleanupStep.GPU_SCRUBBED:
                return self._wipe(device), "part_memory_overwrite", "memory of the part overwritten"
            case CleanupStep.NVME_SANITISED:
                scratch = part_scratch(slot.slot_index, device)
                return self._wipe(scratch), "volume_discard", "no NVMe was handed over"
            case CleanupStep.NIC_RESET:
                return _nothing, "virtual_nic_removed", "no NIC was handed over"
            case CleanupStep.PART_DESTROYED:
                return self._destroy(device), "part_list", f"{device} does not exist any more"
            case _:
                return _nothing, "part_counters", "nothing of the part is in use, no error counted"

    @property
    def _state(self) -> SimHostState:
        return self._host.store.state

    def _remove_vm(self) -> None:
        self._state.vms.pop(self._allocation, None)

    def _destroy(self, device: str) -> Callable[[], None]:
        def destroy() -> None:
            self._state.parts.pop(device, None)

        return destroy

    def _wipe(self, *devices: str) -> Callable[[], None]:
        def wipe() -> None:
            for device in devices:
                self._state.canaries.pop(device, None)

        return wipe

    def _evidence(self) -> tuple[SlotEvidence, ...]:
        return tuple(SlotEvidence(index, tuple(steps)) for index, steps in self._steps.items())


def _nothing() -> None:
    """The simulated host has no drivers, processes or mounts apart from its machines."""
