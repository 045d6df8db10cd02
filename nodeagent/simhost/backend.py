"""How does a simulated host do what a real one does, and show the faults it was told to?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nodeagent.backend import BackendError, HostRebooted, Observation, Progress
from nodeagent.clock import Clock
from nodeagent.protocol import (
    Address,
    BaremetalProvisionParams,
    BaremetalReleaseParams,
    BurnInParams,
    BurnInResult,
    FailureCode,
    PartKind,
    ProvisionResult,
    SignedTask,
    SlotDevices,
    SlotEvidence,
    TaskKind,
    TopologyReport,
    Unwanted,
    VmProvisionParams,
    VmReleaseParams,
    VmState,
    VmSummary,
    parts_clash,
    task_slots,
)
from nodeagent.simhost.burning import burn_in, end_burn_in
from nodeagent.simhost.cleanup import Cleanup
from nodeagent.simhost.devices import OS_DISK, device_ids, part_id
from nodeagent.simhost.faults import FaultMenu
from nodeagent.simhost.hardware import read_config, read_hardware
from nodeagent.simhost.observing import observe_host
from nodeagent.simhost.state import SimHostState, SimVm, StateStore, address

_SLICE_WORK = ("defining", "attaching", "starting", "booting")
_BAREMETAL_WORK = ("defining", "imaging", "starting", "booting")
_SLICE_OF_SLEEP_S = 1.0


class SimBackend:
    """One simulated host. step_s: seconds that each step of work takes."""

    capabilities = frozenset(TaskKind)

    def __init__(self, folder: Path, clock: Clock, *, step_s: float = 0.05) -> None:
        self.folder = folder
        self.config = read_config(folder)
        self.store = StateStore(folder, self.config.name)
        self.menu = FaultMenu(folder)
        self._clock = clock
        self._step_s = step_s
        self._topology: TopologyReport | None = None
        self._cleaning: set[str] = set()

    @property
    def ready(self) -> bool:
        """As soon as it is there."""
        return True

    @property
    def part_kinds(self) -> frozenset[PartKind]:
        """What its description says."""
        return frozenset(map(PartKind, self.config.part_kinds))

    @property
    def hostname(self) -> str:
        """The host's name in the fleet."""
        return self.config.name

    def boot_id(self) -> str:
        """Changes with every simulated boot."""
        self.store.refresh()
        return self.store.state.boot_id

    def facts(self) -> dict[str, Any]:
        """What the join tells."""
        report = self.topology()
        return {"simulated": True, "gpus": len(report.gpus), "boots": self.store.state.boots}

    def topology(self) -> TopologyReport:
        """The wiring, read once per start."""
        if self._topology is None:
            self._topology = read_hardware(self.folder, self.config)
        return self._topology

    def running(self) -> SimHostState:
        """What is on its disk now."""
        self.store.refresh()
        return self.store.state

    async def observe(self) -> Observation:
        """What is on the host's disk now."""
        self.store.refresh()
        return observe_host(
            self.store.state,
            self.topology(),
            self.menu.read().missing_prerequisites,
            self._cleaning,
            self.config.intended_use,
            self.store.state.loaded(self._clock.now()),
        )

    async def believes(self, control_key: str) -> bool | None:
        """Nobody does anything as root here."""
        return None

    async def take(self, task: SignedTask) -> None:
        """Nothing here runs with other rights than the agent, whose own checks are the last."""

    async def discover(self, progress: Progress) -> TopologyReport:
        """Read the topology file again."""
        kind = TaskKind.DISCOVER
        await self.work(kind, "reading", 10, progress)
        if self.menu.take_failure(kind):
            raise BackendError(
                FailureCode.BACKEND_ERROR, "the devices could not be read", retryable=True
            )
        self.config, self._topology = read_config(self.folder), None
        return self.topology()

    async def provision(
        self,
        kind: TaskKind,
        params: VmProvisionParams | BaremetalProvisionParams,
        progress: Progress,
        signed: SignedTask,
    ) -> ProvisionResult:
        """Define, attach, start and boot; what is already done is not done again."""
        self._check_prerequisites(kind)
        slots = task_slots(params)
        for place, step in enumerate(_BAREMETAL_WORK if _is_bare(kind) else _SLICE_WORK):
            await self.work(kind, step, place * 25, progress)
            if step == "defining":
                self._define(kind, params, slots)
            elif step in ("attaching", "imaging"):
                self._leave_canaries(params.allocation_id)
            elif step == "starting":
                if self.menu.take_failure(kind):
                    raise BackendError(
                        FailureCode.BACKEND_ERROR, "the machine did not start", retryable=True
                    )
                self._vm(params.allocation_id).state = "running"
                self.store.save()
        vm = self._vm(params.allocation_id)
        return ProvisionResult(
            allocation_id=params.allocation_id,
            address=Address(vm.host, vm.port, "ubuntu"),
            boot_id=self.boot_id(),
            vm=VmSummary(vm.name, VmState(vm.state), vm.image),
        )

    async def burn_in(
        self, params: BurnInParams, progress: Progress, load: Unwanted, signed: SignedTask
    ) -> BurnInResult:
        """Load the GPUs, on disk, and say how they stood it."""
        return await burn_in(self, params, self._clock, progress, load)

    async def end_burn_in(self, load: Unwanted) -> None:
        """Take the load away, unless the menu says that it cannot be."""
        end_burn_in(self, load, self._clock.now())

    async def release(
        self,
        kind: TaskKind,
        params: VmReleaseParams | BaremetalReleaseParams,
        progress: Progress,
        signed: SignedTask,
    ) -> tuple[SlotEvidence, ...]:
        """Clean each slot; the evidence says what was done, or, under a fault, what was claimed."""
        self._cleaning.add(params.allocation_id)
        try:
            cleanup = Cleanup(self, kind, params.allocation_id, task_slots(params), self._clock)
            return await cleanup.run(progress)
        finally:
            self._cleaning.discard(params.allocation_id)

    async def work(self, kind: TaskKind, step: str, percent: int, progress: Progress) -> None:
        """Spend a step's time, telling how it goes.

        Raises HostRebooted where the menu says so, or where a person rebooted the host meanwhile.
        """
        boot_id = self.boot_id()
        await progress(step, percent)
        if self.menu.take_reboot(kind, step):
            self.store.reboot()
        left = self._step_s + self.menu.read().slow_s
        while left > 0:
            await self._clock.sleep(min(left, _SLICE_OF_SLEEP_S))
            left -= _SLICE_OF_SLEEP_S
            if left > 0:
                await progress(step, percent)
        # Also takes in what was changed on the disk, before the step changes anything itself.
        if self.boot_id() != boot_id:
            self._cleaning.clear()
            raise HostRebooted(self.hostname)

    def _check_prerequisites(self, kind: TaskKind) -> None:
        missing = self.menu.read().missing_prerequisites
        if missing and not _is_bare(kind):
            raise BackendError(
                FailureCode.PREREQUISITE_MISSING,
                f"slices need {', '.join(missing)}",
                retryable=True,
            )

    def _define(
        self,
        kind: TaskKind,
        params: VmProvisionParams | BaremetalProvisionParams,
        slots: tuple[SlotDevices, ...],
    ) -> None:
        """Put the machine on disk. Another's machine or another's data on a slot stops it."""
        self.store.refresh()
        state, allocation = self.store.state, params.allocation_id
        indexes = sorted(slot.slot_index for slot in slots)
        existing = state.vms.get(allocation)
        if existing is not None:
            if existing.slots != indexes:
                raise BackendError(
                    "allocation_differs", "it exists here with other slots", retryable=False
                )
            return
        if set(state.loaded(self._clock.now())) & {slot.gpu_uuid for slot in slots}:
            raise BackendError("burn_in_runs", "a slot is being burnt in", retryable=True)
        if any(parts_clash(slot.part, state.parts_on(slot.slot_index)) for slot in slots):
            raise BackendError("device_in_use", "a slot has another machine", retryable=False)
        devices = [device for slot in slots for device in device_ids(slot, allocation)]
        if _is_bare(kind):
            devices.append(OS_DISK)
        dirty = [
            device for device in devices if state.canaries.get(device, allocation) != allocation
        ]
        dirty += state.left_on([slot.gpu_uuid for slot in slots])
        if dirty:
            raise BackendError(
                FailureCode.RESIDUE_FOUND,
                f"data of an earlier tenant is still on {', '.join(dirty)}",
                retryable=False,
            )
        host, port = address(state.name, allocation)
        state.vms[allocation] = SimVm(
            name=("host-" if _is_bare(kind) else "vm-") + allocation[:36],
            allocation=allocation,
            kind=kind.value,
            state="defined",
            image=params.image,
            slots=indexes,
            devices=devices,
            host=host,
            port=port,
            part=next((slot.part.to_json() for slot in slots if slot.part), None),
        )
        for slot in slots:
            if slot.part is not None:
                state.parts[part_id(slot.gpu_uuid, slot.part, allocation)] = slot.part.to_json()
        self.store.save()

    def _leave_canaries(self, allocation: str) -> None:
        """The tenant's data, as far as anybody else is concerned."""
        for device in self._vm(allocation).devices:
            self.store.state.canaries[device] = allocation
        self.store.save()

    def _vm(self, allocation: str) -> SimVm:
        vm = self.store.state.vms.get(allocation)
        if vm is None:
            raise BackendError(
                FailureCode.BACKEND_ERROR, "the machine vanished while it was made", retryable=True
            )
        return vm


def _is_bare(kind: TaskKind) -> bool:
    return kind in (TaskKind.BAREMETAL_PROVISION, TaskKind.BAREMETAL_RELEASE)
