"""A host with AMD's GPUs in a tree of files, and what its kernel does when these are written to."""

from __future__ import annotations

import shutil
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodeagent.host.cleanup.amd import AmdCare
from nodeagent.host.cleanup.amd_library import reset
from nodeagent.host.cleanup.gpu import GpuCare
from nodeagent.host.cleanup.nvme import NvmeEraser
from nodeagent.host.cleanup.pci import PciBus
from nodeagent.host.cleanup.steps import Before, Done, device_step
from nodeagent.host.cleanup.vfio import VfioDevices
from nodeagent.host.cleanup.xids import KernelLog, XidWatch
from nodeagent.host.discovery import discover
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import CleanupStep, DeviceMode, SlotDevices
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts.trees import AMD, TreeBuilder

CARD, MATE = "0000:60:00.0", "0000:61:00.0"
FLOOR, MIB = 290, 2**20
HIVE = "1234567890123"
_ACCELERATOR = "0x120000"
_OWN = ("drm", "ras", "mem_info_vram_used")


def uuid_of(address: str) -> str:
    """What AMD's library calls the GPU."""
    return f"deadbeef-0000-1000-8000-0000000{address[5:7]}000"


class AmdKernel:
    """PCI and amdgpu, as sysfs shows them.

    used: MiB in use by address. errors: what a block's file says. hidden: files that are not there.
    """

    def __init__(self, root: Path, hive: bool) -> None:
        self.root, self._hive = root, hive
        self.written: list[tuple[str, str]] = []
        self.resets: list[tuple[str, str]] = []
        self.broken: set[str] = set()
        self.refuses: set[str] = set()
        self._joined: list[str] = []
        self.methods: dict[str, str] = {}
        self.used: dict[str, int] = {}
        self.errors = {"umc": "ue: 0\nce: 3\nde: 0\n", "gfx": "ue: 0\nce: 0\n"}
        self.pages: dict[str, str] = {}
        self.hidden: set[str] = set()

    def folder(self, address: str) -> Path:
        """A function's folder."""
        return (self.root / "sys/bus/pci/devices" / address).resolve()

    def put(self, path: Path, text: str) -> None:
        """A write into sysfs."""
        self.written.append((path.name, text.strip()))
        if path.name == "unbind":
            self.unbind(text)
        elif path.name == "drivers_probe":
            self._probe(text)
        elif path.name == "reset":
            self._reset(path.parent.name)
        elif path.name == "reset_method":
            self._order(path, text)
        else:
            path.write_text(text)

    def _order(self, path: Path, text: str) -> None:
        if text == "default" and text in self.broken:
            raise OSError(22, "Invalid argument")
        # A card without the file has none to write to.
        if path.exists():
            path.write_text(self.methods[path.parent.name] if text == "default" else text)

    def knows(self, address: str, methods: str) -> None:
        """How it can reset a card, in its own order."""
        self.methods[address] = methods
        (self.folder(address) / "reset_method").write_text(methods)

    def _reset(self, address: str) -> None:
        method = (self.folder(address) / "reset_method").read_text().split()[0]
        if method in self.broken:
            raise OSError(25, "Inappropriate ioctl for device")
        self.resets.append((address, method))
        self.used[address] = FLOOR

    def _probe(self, address: str) -> None:
        if (self.folder(address) / "driver").is_symlink():
            return
        wanted = (self.folder(address) / "driver_override").read_text().strip()
        if wanted or address not in self.refuses:
            self.bind(address, wanted or "amdgpu")

    def bind(self, address: str, driver: str) -> None:
        """A driver takes a GPU."""
        target = self.root / "sys/bus/pci/drivers" / driver
        target.mkdir(parents=True, exist_ok=True)
        (target / "unbind").touch()
        folder = self.folder(address)
        (folder / "driver").symlink_to(target)
        if driver == "amdgpu":
            self.show(address)

    def unbind(self, address: str) -> None:
        """A driver lets go of it."""
        (self.folder(address) / "driver").unlink()
        for name in _OWN:
            path = self.folder(address) / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self._leave(address)

    def show(self, address: str) -> None:
        """What amdgpu shows of it, now."""
        folder, number = self.folder(address), int(address[6:7])
        for name in (f"card{number}", f"renderD{128 + number}"):
            (folder / "drm" / name).mkdir(parents=True, exist_ok=True)
        (folder / "mem_info_vram_used").write_text(f"{self.used.get(address, FLOOR) * MIB}\n")
        shutil.rmtree(folder / "ras", ignore_errors=True)
        (folder / "ras").mkdir()
        for block, text in self.errors.items():
            (folder / "ras" / f"{block}_err_count").write_text(text)
        (folder / "ras" / "gpu_vram_bad_pages").write_text(self.pages.get(address, ""))
        if self._hive:
            self._join(address)
        for name in self.hidden:
            (folder / name).unlink()

    def _join(self, address: str) -> None:
        """As amdgpu_xgmi_sysfs_add_dev_info: a folder at the first, to which the others link."""
        if address in self._joined:
            return
        place = self._at
        self._joined.append(address)
        if place is None:
            place = self.folder(address) / "xgmi_hive_info"
            place.mkdir()
            (place / "xgmi_hive_id").write_text(f"{HIVE}\n")
        elif place.parent != self.folder(address):
            (self.folder(address) / "xgmi_hive_info").symlink_to(place)
        (place / f"node{len(self._joined)}").symlink_to(self.folder(address))

    def _leave(self, address: str) -> None:
        """As amdgpu_xgmi_sysfs_rem_dev_info: the last number goes, whoever it is of."""
        place = self._at
        if address not in self._joined or place is None:
            return
        (place / f"node{len(self._joined)}").unlink()
        self._joined.remove(address)
        link = self.folder(address) / "xgmi_hive_info"
        if link.is_symlink():
            link.unlink()
        if not self._joined:
            shutil.rmtree(place)

    @property
    def _at(self) -> Path | None:
        """Where the folder is: it stays at the first while anybody is in the hive."""
        places = (self.folder(one) / "xgmi_hive_info" for one in (CARD, MATE))
        return next((one for one in places if one.is_dir() and not one.is_symlink()), None)


class AmdHost:
    """Two GPUs with amdgpu, nobody on them. hive: whether they are one; alone: only the first."""

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, *, hive: bool = False, alone: bool = False
    ) -> None:
        patch.setenv("FAKE_NVML_SCENARIO", "")
        self.root, self.places = folder / "root", [CARD] if alone else [CARD, MATE]
        self.hive = hive
        self.tree = TreeBuilder(self.root)
        self.tree.numa(0, "0-15")
        self.kernel = AmdKernel(self.root, hive)
        for number, address in enumerate(self.places):
            self._card(number, address)
        for name in ("kfd", "dri/card0", "dri/renderD128", "dri/card1", "dri/renderD129"):
            (self.root / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "dev" / name).touch()
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "sys/class/kfd/kfd/proc").mkdir(parents=True)
        self.log = folder / "kmsg"
        self.log.write_text("6,0,0,-;Linux version 6.8.0\n")
        self.library = a_library(patch, self.places, hive)
        self.report = topology_report(discover(self.root), "host-1")
        patch.setitem(sys.modules, "amdsmi", None)
        self.bus = PciBus(self.root, self.kernel.put)
        self.devices = self.helper(folder)

    def helper(self, folder: Path) -> VfioDevices:
        """The devices as a helper that has just been started has them."""
        log = KernelLog(self.log)
        watch = XidWatch(log, "boot-1", folder / "xids.json")
        gpus = GpuCare(Nvml(), Path("/bin/false"), watch, "boot-1")
        self.amd = AmdCare(self.root, self.bus, log, lambda: self.report, reset)
        return VfioDevices(
            self.root, lambda: self.report, gpus, NvmeEraser(Path("/bin/false")), self.bus, self.amd
        )

    def _card(self, number: int, address: str) -> None:
        folder = self.tree.device(address, _ACCELERATOR, AMD, group=7 + number)
        (folder / "driver_override").write_text("\n")
        (folder / "reset").touch()
        self.kernel.knows(address, "flr bus\n")
        (self.root / "dev/vfio").mkdir(parents=True, exist_ok=True)
        (self.root / f"dev/vfio/{7 + number}").touch()
        self.kernel.bind(address, "amdgpu")
        node = f"sys/class/kfd/kfd/topology/nodes/{number + 1}"
        self.tree.write(f"{node}/gpu_id", str(5000 + number))
        where = int(address[5:7], 16) << 8
        self.tree.write(f"{node}/properties", f"simd_count 8\nlocation_id {where}\ndomain 0")

    def slot(self, number: int = 0) -> SlotDevices:
        """A slot with one GPU and nothing beside."""
        return SlotDevices(
            number,
            uuid_of(self.places[number]),
            nic_mode=DeviceMode.NONE,
            nvme_mode=DeviceMode.NONE,
        )

    def process(self, pid: int, opened: str) -> None:
        """A process that has a file open."""
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text("a-tenants-tool\n")
        (folder / "fd" / "3").symlink_to(self.root / "dev" / opened)

    def computes(self, pid: int, number: int = 0) -> None:
        """KFD has a process on a GPU."""
        self.tree.write(f"sys/class/kfd/kfd/proc/{pid}/vram_{5000 + number}", "0")

    def counted(self, number: int = 0) -> Before:
        """What was counted when the slot was handed over."""
        slot = self.slot(number)
        return Before("boot-1", 0, self.devices.error_counts([slot])[slot.gpu_uuid])

    def do(self, step: CleanupStep, number: int = 0, before: Before | None = None) -> Done:
        """One step of one slot."""
        before = before or Before("boot-1", 0, None)
        return device_step(self.devices, step, self.slot(number), before)


def a_library(patch: pytest.MonkeyPatch, places: Sequence[str], hive: bool) -> Any:
    """AMD's library, installed: its handles are the addresses."""
    module: Any = types.ModuleType("amdsmi")
    module.amdsmi_init = module.amdsmi_shut_down = lambda: None
    module.amdsmi_get_processor_handles = lambda: list(places)
    module.amdsmi_get_gpu_device_bdf = lambda handle: handle
    module.amdsmi_get_gpu_device_uuid = uuid_of
    module.amdsmi_get_gpu_asic_info = lambda _: {"market_name": "AMD Instinct MI300X"}
    module.amdsmi_get_gpu_vram_usage = lambda _: {"vram_total": 196_592, "vram_used": FLOOR}
    module.amdsmi_get_xgmi_info = lambda _: {"xgmi_hive_id": HIVE} if hive else {}
    patch.setitem(sys.modules, "amdsmi", module)
    return module
