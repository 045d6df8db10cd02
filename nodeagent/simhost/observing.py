"""What does a simulated host's agent see when it looks?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from nodeagent.backend import Observation
from nodeagent.protocol import (
    Address,
    CandidateSlot,
    Condition,
    DeviceMode,
    GpuPart,
    ObservedDevice,
    ObservedDevices,
    ObservedVm,
    Presence,
    TopologyReport,
    VmState,
)
from nodeagent.simhost.devices import gpu_of, on_gpu, scratch_volume
from nodeagent.simhost.state import SimHostState, SimVm


def observe_host(
    state: SimHostState,
    report: TopologyReport,
    missing: Collection[str],
    cleaning: Collection[str],
    intended_use: str | None,
    loaded: Collection[str] = (),
) -> Observation:
    """Look at the host's disk. cleaning: allocations whose cleanup is under way.
    loaded: the GPUs that a burn-in has under load.

    Data without its tenant is a condition, unless its cleanup is still at work on it.
    """
    holders = {device: vm.allocation or None for vm in state.vms.values() for device in vm.devices}
    conditions = [
        Condition("prerequisite_missing", f"slices need {what}, which is not there")
        for what in sorted(missing)
    ]
    if loaded:
        conditions.append(Condition("burn_in_runs", "the GPUs are under a burn-in's load"))
    conditions += _unknown_vms(state, report)
    conditions += _residue(state, report, cleaning)
    return Observation(
        vms=tuple(_vm(vm) for vm in state.vms.values()),
        devices=ObservedDevices(
            gpus=tuple(_device(one.uuid, holders, state) for one in report.gpus if one.uuid),
            nics=tuple(_device(one.id, holders, state) for one in report.nics),
            nvmes=tuple(_device(one.id, holders, state) for one in report.nvmes),
        ),
        conditions=tuple(conditions[:256]),
        intended_use=intended_use,
    )


def _vm(vm: SimVm) -> ObservedVm:
    running = vm.state == "running"
    return ObservedVm(
        claim_ref=vm.allocation or None,
        name=vm.name,
        state=VmState(vm.state),
        slots=tuple(vm.slots),
        part=None if vm.part is None else GpuPart.from_json(vm.part),
        address=Address(vm.host, vm.port, "ubuntu") if running else None,
    )


def _device(device: str, holders: dict[str, str | None], state: SimHostState) -> ObservedDevice:
    if any(gpu_of(part) == device for part in holders):
        # Several may have parts of it: none of them holds the GPU, and it is not clean.
        return ObservedDevice(device, Presence.PRESENT, None, None)
    busy = device in holders or device in state.burning
    clean = None if busy else not on_gpu(device, state.canaries)
    return ObservedDevice(device, Presence.PRESENT, holders.get(device), clean)


def _unknown_vms(state: SimHostState, report: TopologyReport) -> list[Condition]:
    """One condition per GPU that it has; one of no device where it has none that is known."""
    gpus = {gpu.uuid for gpu in report.gpus}
    found = []
    for vm in state.vms.values():
        if vm.allocation:
            continue
        said = f"machine {vm.name} was not asked for"
        held = [Condition("unknown_vm", said, device=one) for one in vm.devices if one in gpus]
        found += held or [Condition("unknown_vm", said)]
    return found


def _residue(
    state: SimHostState, report: TopologyReport, cleaning: Collection[str]
) -> list[Condition]:
    """One condition per slot and earlier tenant, named by the slot's GPU."""
    left: dict[tuple[str | None, str], list[str]] = defaultdict(list)
    owners = {device: slot for slot in report.slots for device in _own_devices(slot)}
    for device, allocation in state.canaries.items():
        if allocation in state.vms or allocation in cleaning:
            continue
        slot = owners.get(_whole(device))
        left[(slot.gpu_uuid if slot else None, allocation)].append(device)
    return [
        Condition(
            "residue_found",
            f"data of an earlier tenant is on {', '.join(sorted(devices))}"[:2000],
            device=gpu,
            claim_ref=allocation,
        )
        for (gpu, allocation), devices in left.items()
    ]


def _whole(device: str) -> str:
    """The device of a slot that a part, or its volume, is of; any other is itself."""
    gpu = gpu_of(device)
    if gpu is not None:
        return gpu
    return ":".join(device.split(":")[:2]) if device.startswith("scratch:") else device


def _own_devices(slot: CandidateSlot) -> list[str]:
    own = [scratch_volume(slot.index)]
    if slot.gpu_uuid is not None:
        own.append(slot.gpu_uuid)
    if slot.nic_mode is DeviceMode.EXCLUSIVE:
        own += [slot.nic or "", *slot.extra_nics]
    if slot.nvme_mode is DeviceMode.EXCLUSIVE:
        own += [slot.nvme or "", *slot.extra_nvmes]
    return own
