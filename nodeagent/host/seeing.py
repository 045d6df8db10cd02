"""What does the control plane hear of what is on this host? Pure, from the helper's inspection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from nodeagent.backend import Observation
from nodeagent.host.config import HostConfig
from nodeagent.host.discovery import DeviceSight
from nodeagent.host.helper.wire import Inspection, SeenDamage, SeenTenancy, Trust
from nodeagent.protocol import (
    Address,
    CandidateSlot,
    Condition,
    DeviceMode,
    ObservedDevice,
    ObservedDevices,
    ObservedVm,
    TopologyReport,
    VmState,
)

MOST_CONDITIONS = 256
_LEAST_FREE = 64 * 1024 * 1024


def observation(
    seen: Inspection,
    trust: Trust,
    sight: DeviceSight,
    report: TopologyReport,
    cleaning: Collection[str],
    config: HostConfig,
    free: Mapping[Path, int],
) -> Observation:
    """The report of a host: what the helper and the bus say, put together.

    trust: whether the helper would take a task. cleaning: claims whose cleanup is under way now.
    free: bytes left where records are written.
    """
    holders, unclean = _holders(seen, report)
    strange = _with_strays(seen, report)
    conditions = [*_prerequisites(seen, config), *_strays(seen, report), *sight.conditions]
    if not trust.works:
        said = f"the helper takes no task: {trust.detail}"
        conditions.append(Condition("prerequisite_missing", said[:2000]))
    if seen.burning:
        conditions.append(Condition("burn_in_runs", "the GPUs are under a burn-in's load"))
    conditions += [
        Condition("disk_full", f"{place} has less than {_LEAST_FREE >> 20} MiB left")
        for place, left in free.items()
        if left < _LEAST_FREE
    ]
    conditions += [
        condition
        for tenancy in seen.tenancies
        if not tenancy.present and tenancy.claim not in cleaning
        for condition in _residue(tenancy)
    ]

    conditions += _restarted(seen)
    conditions += [condition for bad in seen.damaged for condition in _damage(bad)]
    # Nobody knows whose they are, where a record may be about any of them.
    lost = any(bad.whole for bad in seen.damaged)

    def held(devices: tuple[ObservedDevice, ...]) -> tuple[ObservedDevice, ...]:
        return tuple(
            replace(
                one,
                holder=holders.get(one.id),
                clean=_clean(one.id, unclean, unknown=lost or one.id in holders.keys() | strange),
            )
            for one in devices
        )

    vms = [_vm(one) for one in seen.tenancies if one.present]
    vms += [
        ObservedVm(bad.claim, bad.name, _state(running=bad.running), bad.slots)
        for bad in seen.damaged
        if bad.claim
    ]
    vms += [ObservedVm(None, one.name, VmState.RUNNING, one.slots) for one in seen.strays]
    return Observation(
        vms=tuple(vms[:MOST_CONDITIONS]),
        devices=ObservedDevices(
            gpus=held(sight.devices.gpus),
            nics=held(sight.devices.nics),
            nvmes=held(sight.devices.nvmes),
        ),
        conditions=tuple(conditions[:MOST_CONDITIONS]),
        intended_use=config.intended_use,
    )


def _vm(seen: SeenTenancy) -> ObservedVm:
    there = seen.state is VmState.RUNNING and seen.host and seen.port and seen.user
    address = Address(seen.host, seen.port, seen.user) if there else None
    return ObservedVm(seen.claim, seen.name, seen.state, seen.slots, address)


def _holders(seen: Inspection, report: TopologyReport) -> tuple[dict[str, str], set[str]]:
    """By device: the claim that has it; and the devices with an earlier tenant's traces."""
    slots = {slot.gpu_uuid: slot for slot in report.slots if slot.gpu_uuid is not None}
    holders: dict[str, str] = {}
    unclean: set[str] = set()
    for bad in seen.damaged:
        for gpu in bad.gpus:
            if gpu in slots and bad.claim:
                holders |= dict.fromkeys(_own_devices(slots[gpu]), bad.claim)
    for tenancy in seen.tenancies:
        for gpu in tenancy.gpus:
            if gpu not in slots:
                continue
            own = _own_devices(slots[gpu])
            if tenancy.present:
                holders |= dict.fromkeys(own, tenancy.claim)
            else:
                unclean |= set(own)
    return holders, unclean


def _with_strays(seen: Inspection, report: TopologyReport) -> set[str]:
    """What a machine that nobody asked for has: what it leaves there nobody knows."""
    touched = {index for one in seen.strays for index in one.slots}
    return {one for slot in report.slots if slot.index in touched for one in _own_devices(slot)}


def _clean(device: str, unclean: Collection[str], *, unknown: bool) -> bool | None:
    return False if device in unclean else None if unknown else True


def _own_devices(slot: CandidateSlot) -> list[str]:
    own = [slot.gpu_uuid]
    if slot.nic_mode is DeviceMode.EXCLUSIVE:
        own += [slot.nic, *slot.extra_nics]
    if slot.nvme_mode is DeviceMode.EXCLUSIVE:
        own += [slot.nvme, *slot.extra_nvmes]
    return [one for one in own if one is not None]


def _prerequisites(seen: Inspection, config: HostConfig) -> list[Condition]:
    if seen.works or not config.images:
        return []
    return [Condition("prerequisite_missing", f"machines cannot run here: {seen.runtime}"[:2000])]


def _strays(seen: Inspection, report: TopologyReport) -> list[Condition]:
    """One condition per GPU whose slot it touches; one of no device where that is not all."""
    gpus = {slot.index: slot.gpu_uuid for slot in report.slots}
    found = []
    for one in seen.strays:
        touched = [gpus.get(index) for index in one.slots]
        said = f"machine {one.name} was not asked for"
        found += [Condition("unknown_vm", said, device=gpu) for gpu in touched if gpu]
        if one.beyond or None in touched:
            found.append(Condition("unknown_vm", said))
    return found


def _state(*, running: bool) -> VmState:
    """Of a machine whose record is damaged: where it is not seen, what became of it is unknown."""
    return VmState.RUNNING if running else VmState.UNKNOWN


def _damage(bad: SeenDamage) -> list[Condition]:
    """One condition per slot that the record names; one of no device where it may be any."""
    whose = f"of allocation {bad.claim} " if bad.claim else ""
    said = (
        f"the helper's record {whose}cannot be read ({bad.why}); it is in {bad.file}. Release the "
        "allocation, put a whole record back, or remove it once nothing of it is on the host"
    )
    ref = bad.claim or None
    if bad.whole:
        return [Condition("record_damaged", f"it may be about any slot: {said}", claim_ref=ref)]
    return [Condition("record_damaged", said, device=gpu, claim_ref=ref) for gpu in bad.gpus]


def _restarted(seen: Inspection) -> list[Condition]:
    """What the host's own restart has ended: what is on its way back, and what cannot come."""
    found = []
    if seen.returning:
        said = (
            f"the host has restarted, and {len(seen.returning)} machines of before are still to be "
            "started again; nothing new begins until then"
        )
        found.append(Condition("machines_returning", said))
    gpus = {one.claim: one.gpus for one in seen.tenancies}
    for one in seen.lost:
        said = (
            "the machine was not started again after the host's restart: "
            f"{one.why}. Mend that and restart gpuaas-helper, or release the allocation"
        )
        found += [
            Condition("machine_not_restarted", said, device=gpu, claim_ref=one.claim)
            for gpu in gpus.get(one.claim, ())
        ]
    return found


def _residue(tenancy: SeenTenancy) -> list[Condition]:
    """One condition per slot, named by the slot's GPU."""
    return [
        Condition(
            "residue_found",
            f"the cleanup of slot {index} is not complete",
            device=gpu,
            claim_ref=tenancy.claim,
        )
        for index, gpu in zip(tenancy.slots, tenancy.gpus, strict=True)
    ]
