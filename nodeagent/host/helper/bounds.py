"""What on this host may a request be about? Looked up in its wiring, records and processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from nodeagent.backend import BackendError
from nodeagent.host.helper.wire import Release, SeenStray
from nodeagent.host.records import BAREMETAL, Damaged, Records, Tenancy, devices_of
from nodeagent.host.runtime import process
from nodeagent.host.runtime.spec import vm_name
from nodeagent.protocol import (
    BaremetalReleaseParams,
    FailureCode,
    SlotDevices,
    TopologyReport,
    cpu_numbers,
)

RECORD_DAMAGED = "record_damaged"


class Bounds:
    """What is whose. mark: what is among the arguments of every machine that was started here."""

    def __init__(self, records: Records, report: Callable[[], TopologyReport], mark: str) -> None:
        self._records = records
        self._report = report
        self._mark = mark

    def uids(self) -> set[int]:
        """The users of machines of which there is a record: until a cleanup was proven."""
        told = [one.told for one in self.damaged() if one.told is not None]
        return {one.uid for one in (*self._records.all(), *told)}

    def damaged(self) -> list[Damaged]:
        """Records that cannot be read. One that names what is not here may be about anything."""
        own = {slot.gpu_uuid for slot in self._report().slots}
        return [
            one
            if one.told is None or {slot.gpu_uuid for slot in one.told.slots} <= own
            else replace(one, told=None)
            for one in self._records.damaged()
        ]

    def _refuse_damaged(self, indexes: Collection[int], devices: Collection[str]) -> None:
        """Nothing of what a record is about that cannot be read. Raises BackendError."""
        for bad in self.damaged():
            shared = bad.told is None or (set(indexes) & bad.told.indexes)
            if shared or (bad.told is not None and set(devices) & bad.told.devices):
                raise BackendError(RECORD_DAMAGED, _in_the_way(bad), retryable=False)

    def strays(self, known: set[str]) -> Iterator[SeenStray]:
        """Machines without a record.

        Another agent's on the same machine are not ours to report, unless they have our devices.
        """
        places = self._places()
        for machine in process.machines():
            slots = {index for one in machine.functions for index in places.get(one, ())}
            ours = machine.bears(self._mark)
            others = machine.name.startswith("gpuaas-") and not ours
            if (machine.name in known and ours) or (others and not slots):
                continue
            name = machine.name or f"process {machine.pid}"
            beyond = not slots or any(one not in places for one in machine.functions)
            yield SeenStray(name[:120], tuple(sorted(slots)), beyond)

    def _places(self) -> dict[str, set[int]]:
        """Which slots a PCI address belongs to: one, or all that share a NIC or an NVMe."""
        report = self._report()
        places: dict[str, set[int]] = {}
        gpus = {gpu.index: gpu.pci for gpu in report.gpus}
        others = {nic.id: nic.pci for nic in report.nics}
        others |= {nvme.id: nvme.pci for nvme in report.nvmes}
        for slot in report.slots:
            named = (slot.nic, slot.nvme, *slot.extra_nics, *slot.extra_nvmes)
            for pci in (gpus.get(slot.gpu_index), *(others.get(one or "") for one in named)):
                if pci is not None:
                    places.setdefault(pci, set()).add(slot.index)
        return places

    def refuse_unknown(self, slots: tuple[SlotDevices, ...]) -> None:
        """Only this host's own GPUs, with their own devices, whatever the task says.

        Slots follow UUIDs: the control plane keeps a slot's number when cards come and go.
        Raises BackendError.
        """
        own = {slot.gpu_uuid: slot for slot in self._report().slots}
        for slot in slots:
            known = own.get(slot.gpu_uuid)
            if known is None:
                detail = f"slot {slot.slot_index} does not have that GPU here"
                raise BackendError("device_mismatch", detail, retryable=False)
            allowed = {known.nic, known.nvme, *known.extra_nics, *known.extra_nvmes}
            if not {*slot.all_nics(), *slot.all_nvmes()} <= allowed:
                detail = f"slot {slot.slot_index} does not have that device here"
                raise BackendError("device_mismatch", detail, retryable=False)

    def refuse_taken(self, claim: str, slots: tuple[SlotDevices, ...]) -> None:
        """Nothing that another claim, its traces, or a stray machine has. Raises BackendError."""
        wanted = {slot.slot_index for slot in slots}
        self._refuse_damaged(wanted, devices_of(slots))
        gpus, devices = {slot.gpu_uuid for slot in slots}, devices_of(slots)
        for other in self._records.all():
            shared = wanted & other.indexes or devices & other.devices
            if other.claim != claim and shared:
                if other.present:
                    raise BackendError(
                        "device_in_use", "a slot has another machine", retryable=False
                    )
                raise BackendError(
                    FailureCode.RESIDUE_FOUND,
                    f"an earlier tenant's cleanup is not complete on slots {sorted(other.indexes)}",
                    retryable=False,
                )
        refuse_others_cpus(claim, slots, self._records.all())
        places = {slot.index for slot in self._report().slots if slot.gpu_uuid in gpus}
        for stray in self.strays({vm_name(claim)}):
            if places & set(stray.slots):
                detail = f"{stray.name}, which nobody asked for, has a device of a slot"
                raise BackendError("device_in_use", detail, retryable=False)

    def refuse_busy(self, gpus: Collection[str]) -> None:
        """Only this host's own GPUs, and none that a claim, its traces or a stray machine has.

        Raises BackendError.
        """
        own = {slot.gpu_uuid: slot.index for slot in self._report().slots if slot.gpu_uuid}
        unknown = [gpu for gpu in gpus if gpu not in own]
        if unknown:
            raise BackendError("device_mismatch", f"{unknown[0]} is not here", retryable=False)
        for tenancy in self._records.all():
            if {slot.gpu_uuid for slot in tenancy.slots} & set(gpus):
                raise BackendError(
                    "device_in_use", "a claim, or its traces, has one of the GPUs", retryable=False
                )
        self._refuse_damaged((), gpus)
        places = {own[gpu] for gpu in gpus}
        for stray in self.strays({vm_name(one.claim) for one in self._records.all()}):
            if places & set(stray.slots):
                detail = f"{stray.name}, which nobody asked for, has one of the GPUs"
                raise BackendError("device_in_use", detail, retryable=False)

    def own_or_none(self, params: Release, slots: tuple[SlotDevices, ...]) -> Tenancy | None:
        """The claim's record; never another's slots, nor a part of its own. Raises BackendError."""
        wanted = {slot.slot_index for slot in slots}
        devices = devices_of(slots)
        for other in self._records.all():
            shared = wanted & other.indexes or devices & other.devices
            if other.claim != params.allocation_id and shared:
                raise BackendError("device_in_use", "a slot has another machine", retryable=False)
        mine = self._records.get(params.allocation_id)
        for bad in self.damaged():
            if bad.claim == params.allocation_id:
                continue
            # Where nobody knows what it is about, only what has a record of its own is not it.
            if bad.told is None and mine is None:
                raise BackendError(RECORD_DAMAGED, _in_the_way(bad), retryable=True)
            if bad.told is not None and (wanted & bad.told.indexes or devices & bad.told.devices):
                raise BackendError("device_in_use", _in_the_way(bad), retryable=False)
        bare = isinstance(params, BaremetalReleaseParams)
        if mine is not None and (mine.kind == BAREMETAL) is not bare:
            raise BackendError("allocation_differs", "it is of another kind", retryable=False)
        if mine is not None and not mine.indexes <= wanted:
            raise BackendError(
                "allocation_differs", "the machine has more slots than named", retryable=False
            )
        return mine


def _in_the_way(bad: Damaged) -> str:
    about = "may be about any slot"
    if bad.told is not None:
        about = f"is about slots {sorted(bad.told.indexes)}"
    return f"a record of the helper is damaged and {about}: {bad.file} ({bad.why})"[:1000]


def refuse_others_cpus(
    claim: str, slots: tuple[SlotDevices, ...], tenancies: Collection[Tenancy]
) -> None:
    """No CPU that another claim's machine is pinned to. Raises BackendError."""
    wanted = {cpu for slot in slots for cpu in cpu_numbers(slot.cpuset) or ()}
    for other in tenancies:
        theirs = {cpu for slot in other.slots for cpu in cpu_numbers(slot.cpuset) or ()}
        if other.claim != claim and other.present and wanted & theirs:
            raise BackendError("device_in_use", "a CPU has another machine", retryable=False)


def refuse_different(mine: Tenancy, kind: str, slots: tuple[SlotDevices, ...]) -> None:
    """A claim is made once, on the same slots, and not again while it is cleaned up.

    Raises BackendError.
    """
    if not mine.present:
        raise BackendError("claim_ended", "this claim is being cleaned up", retryable=False)
    if mine.kind != kind or mine.slots != slots:
        raise BackendError("allocation_differs", "it exists here with other slots", retryable=False)
