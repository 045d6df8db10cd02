"""How are a host's own GPUs, NICs and NVMes handed to machines, and cleaned?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

from nodeagent.host.cleanup.amd import AmdCare
from nodeagent.host.cleanup.gpu import GpuCare, driver_file
from nodeagent.host.cleanup.looking import Users, holders, mounts, openers
from nodeagent.host.cleanup.nvme import NvmeEraser, namespaces_of
from nodeagent.host.cleanup.pci import PciBus
from nodeagent.host.cleanup.steps import Before, Done, StepFailed
from nodeagent.host.discovery.amd_card import VFIO
from nodeagent.host.discovery.blocks import host_blocks, used
from nodeagent.host.discovery.bus import parts_of
from nodeagent.host.discovery.devices import host_interfaces, hosts_own
from nodeagent.host.discovery.sysfs import Tree
from nodeagent.host.runtime.owners import Owner
from nodeagent.host.runtime.spec import SpecError, StandIn, pci_functions
from nodeagent.protocol import NOT_APPLICABLE, DeviceMode, SlotDevices, TopologyReport

_NVIDIA = "nvidia"


class VfioDevices:
    """Real devices. report: this host's own wiring, where the devices' addresses are looked up."""

    def __init__(
        self,
        root: Path,
        report: Callable[[], TopologyReport],
        gpus: GpuCare,
        eraser: NvmeEraser,
        bus: PciBus,
        amd: AmdCare,
    ) -> None:
        self._root = root
        self._report = report
        self._gpus = gpus
        self._eraser = eraser
        self._bus = bus
        self._amd = amd

    def vet(
        self, slots: Sequence[SlotDevices], given: Collection[str] = (), machine: int | None = None
    ) -> tuple[str, ...]:
        """The GPUs' addresses, where each may go to this machine. Raises StepFailed."""
        gpus = [self._gpu_address(slot) for slot in slots]
        amds = [gpu for gpu in gpus if self._amd.has(gpu)]
        for gpu in gpus:
            if self._bus.driver(gpu) == VFIO:
                self._refuse_anothers(gpu, given, machine)
            elif gpu in amds:
                self._amd.refuse_unprovable(gpu, amds)
        return tuple(sorted(gpus))

    def _refuse_anothers(self, gpu: str, given: Collection[str], machine: int | None) -> None:
        """What a machine that nobody asked for had was not reset after it."""
        if gpu in given:
            return
        found = holders([self._bus.vfio_file(gpu)], self._root / "proc", all_seen=True)
        if not found:
            raise StepFailed(
                f"{gpu} is with {VFIO} already, and nobody knows who had it there: give it back to "
                "its own driver and reset it"
            )
        if machine is None or not all(one.startswith(f"{machine} (") for one in found):
            raise StepFailed(f"{gpu} is with {VFIO} already, and open in {', '.join(found)}")

    def attach(
        self,
        slots: Sequence[SlotDevices],
        owner: Owner | None,
        given: Collection[str] = (),
        machine: int | None = None,
    ) -> tuple[StandIn, ...]:
        """Bind everything to vfio-pci, for the machine's user alone. Raises StepFailed."""
        for slot in slots:
            self._refuse_the_hosts_own(slot)
            self._refuse_shared_group(self._addresses(slot))
            self._refuse_divided(slot)
        amds = [gpu for gpu in map(self._gpu_address, slots) if self._amd.has(gpu)]
        with ExitStack() as held:
            if amds:
                held.enter_context(self._amd.turn)
            self.vet(slots, given, machine)
            for gpu in amds:
                self._amd.let_go(gpu)
            for slot in slots:
                with self._let_go(slot):
                    for address in (*self._addresses(slot), *self._companions(slot)):
                        self._bus.give_to_vfio(address, owner)
        return ()

    def _let_go(self, slot: SlotDevices) -> AbstractContextManager[None]:
        if self._bus.driver(self._gpu_address(slot)) != _NVIDIA:
            return nullcontext()
        self._gpus.let_go(slot.gpu_uuid, self._root)
        # Nor has this process it open, which looks for others only.
        return self._gpus.hands.off()

    def _refuse_the_hosts_own(self, slot: SlotDevices) -> None:
        """What the host has begun to live by since it was approved stays its. Raises StepFailed."""
        tree = Tree(self._root)
        blocks, interfaces = host_blocks(tree), host_interfaces(tree)
        for address in self._nvmes(slot):
            spaces = namespaces_of(self._bus.folder(address))
            own = [space for space in spaces if used(tree, space, blocks)]
            if own:
                why = f" ({blocks.unreadable})" if blocks.unreadable else ""
                raise StepFailed(
                    f"{address} is not given away: the host uses {', '.join(own)}{why}"
                )
        self.no_mount(slot)
        for address in self._nics(slot):
            names = hosts_own(tree, self._bus.folder(address), interfaces)
            if names:
                why = f" ({interfaces.unlisted})" if interfaces.unlisted else ""
                said = f"the host's own traffic goes over {', '.join(sorted(names))}{why}"
                raise StepFailed(f"{address} is not given away: {said}")

    def _refuse_shared_group(self, addresses: Sequence[str]) -> None:
        """VFIO gives whole groups: what shares one would be the machine's. Raises StepFailed."""
        for address in addresses:
            beside = self._bus.group_others(address, addresses, self._sold())
            if beside:
                raise StepFailed(
                    f"{address} shares its IOMMU group with {', '.join(beside)}, which the slot "
                    "does not have: it cannot be given away alone"
                )

    def _refuse_divided(self, slot: SlotDevices) -> None:
        """Parts of a device end with its driver, and some machine may have one. Raises StepFailed.

        A NIC's virtual functions are the host's own to end, but for those that VFIO has.
        """
        tree, gpu = Tree(self._root), self._gpu_address(slot)
        for address in (gpu, *self._nics(slot)):
            parts = parts_of(tree, self._bus.folder(address))
            if address != gpu:
                parts = tuple(one for one in parts if self._bus.driver(one) == VFIO)
            if parts:
                raise StepFailed(
                    f"{address} is not given away: it is divided into {', '.join(parts)}, which "
                    "end with it; end what uses them and remove them first"
                )

    def look(self) -> None:
        """Read on in the kernel's log. Raises OSError."""
        self._gpus.look()

    def users(self) -> Users:
        """Of the GPUs that NVIDIA's driver has, which `let_go` would wait for in vain.

        The driver itself is not asked: whoever asks it has them open.
        """
        files, unknown = {}, []
        for gpu in self._report().gpus:
            if gpu.uuid is None or not self._is_the_drivers(gpu.pci):
                continue
            file = driver_file(self._root, gpu.pci or "")
            if file is None:
                unknown.append(gpu.uuid)
            else:
                files[gpu.uuid] = file
        return replace(openers(files, self._root / "proc"), unknown=tuple(unknown))

    def _is_the_drivers(self, address: str | None) -> bool:
        try:
            return address is not None and self._bus.driver(address) == _NVIDIA
        except StepFailed:
            return False

    def error_counts(self, slots: Sequence[SlotDevices]) -> dict[str, dict[str, int]]:
        """What its driver counts now; nothing of a GPU that cannot be asked."""
        return {slot.gpu_uuid: self._counts(slot) for slot in slots}

    def _counts(self, slot: SlotDevices) -> dict[str, int]:
        amd = self._amds(slot)
        return self._gpus.counts(slot.gpu_uuid) if amd is None else self._amd.counts(amd)

    def detach(self, slot: SlotDevices) -> Done:
        """Give everything back to the host's drivers. Raises StepFailed."""
        drivers = []
        for address in self._addresses(slot):
            group = self._bus.vfio_file(address)
            found = holders([group], self._root / "proc", all_seen=True)
            if found:
                raise StepFailed(f"{address} is still open in {', '.join(found)}")
            drivers.append(f"{address} -> {self._bus.take_back(address)}")
        for address in self._companions(slot):
            drivers.append(f"{address} -> {self._bus.take_back(address)}")
        return Done("driver_rebound", "; ".join(drivers))

    def scrub(self, slot: SlotDevices, before: Before) -> Done:
        """Reset the GPU, which empties its memory. Raises StepFailed."""
        address = self._gpu_address(slot)
        if self._amd.has(address):
            return self._amd.scrub(address, before.counts)
        return self._gpus.scrub(slot.gpu_uuid, address, self._bus, before.counts, self._root)

    def no_process(self, slot: SlotDevices) -> Done:
        """No process has a device file open, and the driver knows of none. Raises StepFailed."""
        amd = self._amds(slot)
        if amd is None:
            files = self._gpus.device_files(slot.gpu_uuid, self._root)
        else:
            files = self._amd.device_files(amd)
        for address in self._nvmes(slot):
            folder = self._bus.folder(address)
            files += [self._root / "dev" / name for name in namespaces_of(folder)]
        found = holders(files, self._root / "proc", all_seen=True)
        if amd is None:
            found += self._gpus.processes(slot.gpu_uuid)
        else:
            found += self._amd.processes(amd)
        if found:
            raise StepFailed(f"a device is open in {', '.join(found)}")
        method = "open_files_and_nvml" if amd is None else "open_files_and_kfd"
        return Done(method, f"{len(files)} device files looked for in all processes")

    def no_mount(self, slot: SlotDevices) -> Done:
        """Nothing of the slot's NVMes is mounted, nor used by another layer. Raises StepFailed."""
        numbers, layers = set(), []
        for address in self._nvmes(slot):
            for space in namespaces_of(self._bus.folder(address)):
                block = self._root / "sys/class/block" / space
                for part in (block, *block.glob(f"{space}p*")):
                    numbers.add((part / "dev").read_text().strip())
                    layers += [f"{part.name} -> {one.name}" for one in (part / "holders").glob("*")]
        places = mounts(numbers, self._root / "proc")
        if places or layers:
            raise StepFailed(f"in use: {', '.join([*places, *layers])}")
        return Done("mount_tables", f"{len(numbers)} block devices in nobody's mount table")

    def sanitise(self, slot: SlotDevices) -> Done:
        """Erase the slot's NVMes. Raises StepFailed."""
        addresses = self._nvmes(slot)
        if not addresses:
            if slot.nvme_mode is DeviceMode.NONE:
                return Done(NOT_APPLICABLE, "the slot has no NVMe device")
            return Done("volume_removed", "no NVMe was handed over; the machine's disk is deleted")
        methods = [self._eraser.erase(self._bus.folder(address)) for address in addresses]
        return Done(methods[0], "; ".join(map(" by ".join, zip(addresses, methods, strict=True))))

    def reset_nics(self, slot: SlotDevices) -> Done:
        """Reset the slot's NICs or virtual functions. Raises StepFailed."""
        nics = slot.all_nics()
        if not nics:
            if slot.nic_mode is DeviceMode.NONE:
                return Done(NOT_APPLICABLE, "the slot has no NIC")
            return Done("virtual_nic_removed", "no NIC was handed over; the virtual one is gone")
        done = [f"{address} by {self._bus.reset(address)}" for address in self._nics(slot)]
        return Done("function_level_reset", "; ".join(done))

    def error_free(self, slot: SlotDevices, before: Before) -> Done:
        """No fatal error of the GPU since it was handed over. Raises StepFailed."""
        address = self._gpu_address(slot)
        if self._amd.has(address):
            return self._amd.error_free(address, before)
        return self._gpus.error_free(slot.gpu_uuid, address, before)

    def _amds(self, slot: SlotDevices) -> str | None:
        """The address of the slot's GPU where it is one of AMD's."""
        try:
            address = self._gpu_address(slot)
        except StepFailed:
            return None
        return address if self._amd.has(address) else None

    def _addresses(self, slot: SlotDevices) -> tuple[str, ...]:
        try:
            return pci_functions([slot], self._report())
        except SpecError as error:
            raise StepFailed(str(error)) from error

    def _companions(self, slot: SlotDevices) -> list[str]:
        return self._bus.companions(self._addresses(slot), self._sold())

    def _sold(self) -> set[str | None]:
        """The addresses of everything that is given away by itself."""
        report = self._report()
        sold = {gpu.pci for gpu in report.gpus} | {nic.pci for nic in report.nics}
        return sold | {nvme.pci for nvme in report.nvmes}

    def _gpu_address(self, slot: SlotDevices) -> str:
        return self._addresses(slot)[0]

    def _nics(self, slot: SlotDevices) -> list[str]:
        known = {nic.id: nic.pci for nic in self._report().nics}
        found = []
        for nic in slot.all_nics():
            address = known.get(nic)
            if address is None:
                raise StepFailed(f"NIC {nic} is not on this host any more")
            found.append(address)
        return found

    def _nvmes(self, slot: SlotDevices) -> list[str]:
        wanted = slot.all_nvmes()
        known = {nvme.id: nvme.pci for nvme in self._report().nvmes}
        found = [known.get(name) for name in wanted]
        if None in found:
            raise StepFailed("an NVMe of the slot is not on this host any more")
        return [address for address in found if address is not None]


def wipe_disks(report: TopologyReport, bus: PciBus, eraser: NvmeEraser) -> Done:
    """Erase every NVMe of a host, its system disk among them. Raises StepFailed.

    A disk that this system itself has mounted is not erased, and then the host is not wiped.
    """
    if not report.nvmes:
        raise StepFailed("there is no NVMe here, and no other disk is known how to erase")
    mounted = [nvme.id for nvme in report.nvmes if nvme.reserved]
    if mounted:
        raise StepFailed(f"in use by the cleaning system itself: {', '.join(mounted)}")
    done = []
    for nvme in report.nvmes:
        if nvme.pci is None:
            raise StepFailed(f"NVMe {nvme.id} has no PCI address")
        done.append(f"{nvme.pci} by {eraser.erase(bus.folder(nvme.pci))}")
    return Done("all_disks_erased", "; ".join(done)[:2000])
