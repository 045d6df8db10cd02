"""Are real devices handed over and taken back, and is each cleanup step shown or refused?"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.host.cleanup.amd import AmdCare
from nodeagent.host.cleanup.gpu import GpuCare
from nodeagent.host.cleanup.looking import holders, mounts
from nodeagent.host.cleanup.nvme import NvmeEraser
from nodeagent.host.cleanup.pci import PciBus
from nodeagent.host.cleanup.steps import Before, Done, StepFailed, device_step
from nodeagent.host.cleanup.vfio import VfioDevices
from nodeagent.host.cleanup.xids import BLOCKING, KernelLog, XidsUnknown, XidWatch
from nodeagent.host.discovery import discover
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import CleanupStep, DeviceMode, SlotDevices
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.trees import (
    ETHERNET,
    GPU,
    MELLANOX,
    NVIDIA,
    NVME,
    SAMSUNG,
    TreeBuilder,
)

CARD, NIC, DISK = "0000:1a:00.0", "0000:1b:00.0", "0000:1c:00.0"
DRIVERS = {CARD: "nvidia", NIC: "mlx5_core", DISK: "nvme"}
NVME_TOOL = """#!{python} -SE
import os, sys, pathlib
place = pathlib.Path(__file__).parent
with open(place / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
what = sys.argv[1]
if what == "id-ctrl":
    sys.stdout.buffer.write(bytes(328) + int({able}).to_bytes(4, "little") + bytes(100))
elif what == "get-log":
    looks = (place / "looks").read_text() if (place / "looks").exists() else ""
    (place / "looks").write_text(looks + ".")
    status = 2 if len(looks) < 2 else {ends}
    sys.stdout.buffer.write(bytes([0, 0, status, 0]) + bytes(16))
elif what == "format" and {ends} == 3:
    sys.exit("the drive refuses")
"""


class Kernel:
    """What the kernel does when a driver's files are written to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written: list[tuple[str, str]] = []
        self.stubborn: set[str] = set()
        self.drivers = dict(DRIVERS)

    def put(self, path: Path, text: str) -> None:
        """A write into sysfs."""
        self.written.append((path.name, text.strip()))
        if path.name == "unbind":
            (self._folder(text) / "driver").unlink()
        elif path.name == "drivers_probe":
            self._probe(text)
        else:
            path.write_text(text)

    def bind(self, address: str, driver: str) -> None:
        """A driver takes a device."""
        target = self.root / "sys/bus/pci/drivers" / driver
        target.mkdir(parents=True, exist_ok=True)
        (target / "unbind").touch()
        link = self._folder(address) / "driver"
        link.unlink(missing_ok=True)
        link.symlink_to(target)

    def _probe(self, address: str) -> None:
        if (self._folder(address) / "driver").is_symlink() or address in self.stubborn:
            return
        wanted = (self._folder(address) / "driver_override").read_text().strip()
        self.bind(address, wanted or self.drivers[address])

    def _folder(self, address: str) -> Path:
        return (self.root / "sys/bus/pci/devices" / address).resolve()


class Host:
    """A host with one GPU, one NIC and one NVMe, in a tree of files."""

    def __init__(self, folder: Path, nvml: Nvml, able: int = 2, ends: int = 1) -> None:
        self.root, self.tools = folder / "root", folder / "tools"
        self.tools.mkdir()
        tree = TreeBuilder(self.root)
        tree.numa(0, "0-15")
        tree.device(CARD, GPU, NVIDIA, group=7)
        tree.device(NIC, ETHERNET, MELLANOX, group=8)
        disk = tree.device(DISK, NVME, SAMSUNG, group=9)
        (disk / "nvme" / "nvme0" / "nvme0n1").mkdir(parents=True)
        self.kernel = Kernel(self.root)
        for address, driver in DRIVERS.items():
            self.kernel.bind(address, driver)
            (self.kernel._folder(address) / "driver_override").write_text("\n")
            (self.kernel._folder(address) / "reset").touch()
            (self.kernel._folder(address) / "reset_method").write_text("flr bus\n")
        (self.root / "dev/vfio").mkdir(parents=True)
        (self.root / "proc").mkdir(exist_ok=True)
        for name in ("vfio/7", "vfio/8", "vfio/9", "nvidia0", "nvme0n1"):
            (self.root / "dev" / name).touch()
        block = self.root / "sys/class/block/nvme0n1"
        (block / "holders").mkdir(parents=True)
        (block / "dev").write_text("259:0\n")
        self.log = folder / "kmsg"
        self.say((0, "Linux version 6.1.0"))
        self.program("nvidia-smi", "#!/bin/sh\nexit 0\n")
        self.program("nvme", NVME_TOOL.format(python=sys.executable, able=able, ends=ends))
        report = topology_report(discover(self.root, nvml), "host-1")
        self.bus = PciBus(self.root, self.kernel.put)
        self.watch = XidWatch(KernelLog(self.log), "boot-1", folder / "xids.json")
        gpus = GpuCare(nvml, self.tools / "nvidia-smi", self.watch, "boot-1")
        eraser = NvmeEraser(self.tools / "nvme", sleep=lambda _: None)
        amd = AmdCare(self.root, self.bus, KernelLog(self.log), lambda: report)
        self.devices = VfioDevices(self.root, lambda: report, gpus, eraser, self.bus, amd)
        own = report.slots[0]
        self.slot = SlotDevices(
            0,
            uuid_of(0),
            nic=report.nics[0].id,
            nvme=report.nvmes[0].id,
            numa=own.numa,
            nic_mode=DeviceMode.EXCLUSIVE,
            nvme_mode=DeviceMode.EXCLUSIVE,
        )

    def say(self, *messages: tuple[int, str], first: int = 0) -> None:
        """The kernel's log from its record `first` on: microseconds and text of each."""
        self.log.write_text(
            "".join(f"4,{first + n},{at},-;{text}\n" for n, (at, text) in enumerate(messages))
        )

    def program(self, name: str, text: str) -> None:
        """A tool of the host's."""
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)

    def calls(self) -> list[str]:
        """How the nvme program was called."""
        return (self.tools / "calls").read_text().splitlines()

    def process(self, pid: int, *, opened: str = "", mounted: str = "") -> None:
        """A process in the tree."""
        folder = self.root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "ns").mkdir()
        (folder / "ns" / "mnt").symlink_to(f"mnt:[{pid}]")
        (folder / "comm").write_text("a-tenants-tool\n")
        (folder / "mountinfo").write_text(f"1 0 {mounted or '8:1'} / /somewhere rw - ext4 x rw\n")
        if opened:
            (folder / "fd" / "3").symlink_to(self.root / "dev" / opened)

    def do(self, step: CleanupStep, before: Before | None = None) -> Done:
        """One step."""
        before = before or Before("boot-1", 0, {})
        return device_step(self.devices, step, self.slot, before)


Make = Callable[..., Host]


@pytest.fixture
def make(tmp_path: Path, fake: FakeNvml, nvml: Nvml) -> Make:
    """Makes the host."""
    fake.play(gpus=1).change({"gpu.0.minor": "0"})
    return lambda **how: Host(tmp_path, nvml, **how)


@pytest.fixture
def host(make: Make) -> Host:
    """The host."""
    return make()


def test_devices_go_to_a_machine_and_come_back_to_their_drivers(host: Host) -> None:
    host.devices.attach([host.slot], None)
    assert [host.bus.driver(one) for one in (CARD, NIC, DISK)] == ["vfio-pci"] * 3
    host.devices.attach([host.slot], None, [CARD])
    done = host.do(CleanupStep.DEVICES_DETACHED)
    assert {one: host.bus.driver(one) for one in DRIVERS} == DRIVERS
    assert done.method == "driver_rebound"
    assert f"{CARD} -> nvidia" in done.detail
    assert host.do(CleanupStep.DEVICES_DETACHED) == done


def test_a_device_that_vfio_does_not_take_is_not_handed_over(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeagent.host.cleanup.pci._SETTLE_S", 0.05)
    host.kernel.stubborn.add(CARD)
    with pytest.raises(StepFailed, match="was not taken by vfio-pci"):
        host.devices.attach([host.slot], None)


def test_a_group_that_a_process_still_holds_is_not_taken_back(host: Host) -> None:
    host.devices.attach([host.slot], None)
    host.process(4242, opened="vfio/7")
    with pytest.raises(StepFailed, match=r"still open in 4242 \(a-tenants-tool\)"):
        host.do(CleanupStep.DEVICES_DETACHED)
    assert host.bus.driver(CARD) == "vfio-pci"


def test_an_address_that_is_none_is_never_a_path(host: Host) -> None:
    for text in ("../../../etc", "0000:1a:00.0/..", "", "0000:1a:00.8"):
        with pytest.raises(StepFailed):
            host.bus.folder(text)


def test_a_gpu_is_reset_by_its_driver_and_found_empty(host: Host, fake: FakeNvml) -> None:
    fake.change({"gpu.0.used": str(500 * 2**20)})
    done = host.do(CleanupStep.GPU_SCRUBBED)
    assert (done.method, done.detail) == (
        "gpu_reset",
        "reset by the driver; 500 MiB in use afterwards",
    )


def test_memory_in_use_after_the_reset_is_no_scrub(host: Host, fake: FakeNvml) -> None:
    fake.change({"gpu.0.used": str(30 * 2**30)})
    with pytest.raises(StepFailed, match="30720 MiB are in use"):
        host.do(CleanupStep.GPU_SCRUBBED)


def test_without_the_driver_nothing_is_shown(host: Host, fake: FakeNvml) -> None:
    fake.change({"error.*.nvmlInit_v2": "9", "error.init": "9", "init": "9", "count": "0"})
    for step in (CleanupStep.GPU_SCRUBBED, CleanupStep.NO_PROCESS, CleanupStep.GPU_ERROR_FREE):
        with pytest.raises(StepFailed, match="NVML"):
            host.do(step)


@pytest.mark.parametrize("opened", ["nvidia0", "nvme0n1"])
def test_a_process_with_a_device_open_fails_the_step(host: Host, opened: str) -> None:
    assert host.do(CleanupStep.NO_PROCESS).method == "open_files_and_nvml"
    host.process(77, opened=opened)
    with pytest.raises(StepFailed, match="77"):
        host.do(CleanupStep.NO_PROCESS)


@pytest.mark.parametrize("step", [CleanupStep.NO_PROCESS, CleanupStep.DEVICES_DETACHED])
def test_a_process_that_may_not_be_looked_into_fails_the_step(
    host: Host, monkeypatch: pytest.MonkeyPatch, step: CleanupStep
) -> None:
    host.devices.attach([host.slot], None)
    host.process(77)
    closed, look = host.root / "proc" / "77" / "fd", Path.iterdir

    def refused(folder: Path) -> Iterator[Path]:
        if folder == closed:
            raise PermissionError(13, "Permission denied")
        return iter(list(look(folder)))

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(StepFailed, match=r"77 .*may not be looked into"):
        host.do(step)


def test_a_process_that_only_the_driver_knows_fails_the_step(host: Host, fake: FakeNvml) -> None:
    fake.change({"gpu.0.process.0": "4711 1048576"})
    with pytest.raises(StepFailed, match="4711"):
        host.do(CleanupStep.NO_PROCESS)


def test_a_mount_in_any_namespace_or_a_layer_above_fails_the_step(host: Host) -> None:
    host.process(1)
    assert host.do(CleanupStep.NO_MOUNT).method == "mount_tables"
    host.process(99, mounted="259:0")
    with pytest.raises(StepFailed, match="/somewhere"):
        host.do(CleanupStep.NO_MOUNT)
    (host.root / "sys/class/block/nvme0n1/holders/dm-0").mkdir()
    with pytest.raises(StepFailed, match="dm-0"):
        host.do(CleanupStep.NO_MOUNT)


@pytest.mark.parametrize(
    ("able", "method", "call"),
    [
        (0b010, "nvme_sanitize_block_erase", "sanitize /dev/nvme0 --sanact=2"),
        (0b111, "nvme_sanitize_block_erase", "sanitize /dev/nvme0 --sanact=2"),
        (0b101, "nvme_sanitize_crypto_erase", "sanitize /dev/nvme0 --sanact=4"),
        (0b100, "nvme_sanitize_overwrite", "sanitize /dev/nvme0 --sanact=3"),
        (0, "nvme_format_user_data_erase", "format /dev/nvme0n1 --ses=1 --force"),
    ],
)
def test_an_nvme_is_erased_by_what_it_can_do(make: Make, able: int, method: str, call: str) -> None:
    host = make(able=able)
    done = host.do(CleanupStep.NVME_SANITISED)
    assert done == Done(method, f"{DISK} by {method}")
    assert call in host.calls()


@pytest.mark.parametrize("able", [2, 0])
def test_an_erasure_that_fails_is_told(make: Make, able: int) -> None:
    with pytest.raises(StepFailed):
        make(able=able, ends=3).do(CleanupStep.NVME_SANITISED)


def test_a_nic_is_reset_and_a_slot_without_one_says_so(host: Host) -> None:
    assert host.do(CleanupStep.NIC_RESET) == Done("function_level_reset", f"{NIC} by flr")
    host.slot = SlotDevices(0, uuid_of(0), nic_mode=DeviceMode.NONE, nvme_mode=DeviceMode.NONE)
    assert host.do(CleanupStep.NIC_RESET).method == "not_applicable"
    assert host.do(CleanupStep.NVME_SANITISED).method == "not_applicable"
    host.slot = SlotDevices(0, uuid_of(0), nic_mode=DeviceMode.SHARED)
    assert host.do(CleanupStep.NIC_RESET).method == "virtual_nic_removed"
    assert host.do(CleanupStep.NVME_SANITISED).method == "volume_removed"


def xid(number: int, at_us: int, address: str = "0000:1a:00") -> tuple[int, str]:
    """A message of the kernel's log."""
    return at_us, f"NVRM: Xid (PCI:{address}): {number}, pid=7, name=x"


@pytest.mark.parametrize("number", sorted(BLOCKING))
def test_a_fatal_xid_since_the_claim_fails_the_step(host: Host, number: int) -> None:
    host.say(xid(31, 50), xid(number, 2_000))
    with pytest.raises(StepFailed, match=f"XID {number}"):
        host.do(CleanupStep.GPU_ERROR_FREE, Before("boot-1", 1_000, {}))


def test_errors_of_programs_of_others_and_of_before_do_not_count(host: Host) -> None:
    host.say(xid(79, 900), xid(13, 2_000), xid(31, 2_001), xid(79, 2_002, "0000:1b:00"))
    with host.log.open("a") as stream:
        stream.write(" a continuation\nbroken\n")
    done = host.do(CleanupStep.GPU_ERROR_FREE, Before("boot-1", 1_000, {}))
    assert done.method == "nvml_and_kernel_log"
    assert "2 XIDs, none fatal" in done.detail


def test_after_a_boot_nobody_knows_what_was_before_and_the_whole_log_counts(host: Host) -> None:
    with pytest.raises(StepFailed, match="has booted since the claim began"):
        host.do(CleanupStep.GPU_ERROR_FREE, Before("an-earlier-boot", 1_000, {}))
    host.say((0, "Linux version 6.1.0"), xid(79, 900))
    with pytest.raises(StepFailed, match=r"has booted since.*XID 79"):
        host.do(CleanupStep.GPU_ERROR_FREE, Before("", 1_000, {}))


def test_a_log_that_was_overwritten_since_the_claim_is_not_a_clean_one(host: Host) -> None:
    host.say((5_000_000, "usb 1-1: new device"), (6_000_000, "eth0: link up"), first=700)
    with pytest.raises(StepFailed, match="overwritten: 4 seconds after the claim began"):
        host.do(CleanupStep.GPU_ERROR_FREE, Before("boot-1", 1_000_000, {}))
    # A claim that began after the oldest record that is left has its whole log.
    done = host.do(CleanupStep.GPU_ERROR_FREE, Before("boot-1", 5_500_000, {}))
    assert "0 XIDs" in done.detail


def test_what_was_read_before_it_was_overwritten_still_counts(host: Host) -> None:
    host.say((0, "Linux version 6.1.0"), xid(13, 2_000))
    host.devices.look()
    # The next records follow on, so nothing is missing although the old ones are gone.
    host.say((3_000, "eth0: link up"), (4_000, "eth0: link down"), first=2)
    done = host.do(CleanupStep.GPU_ERROR_FREE, Before("boot-1", 1_000, {}))
    assert "1 XIDs, none fatal" in done.detail
    host.say(xid(79, 5_000), first=4)
    host.devices.look()
    host.say((6_000, "eth0: link up"), first=5)
    with pytest.raises(StepFailed, match="XID 79"):
        host.do(CleanupStep.GPU_ERROR_FREE, Before("boot-1", 1_000, {}))
    host.say((9_000, "eth0: link up"), first=9)
    with pytest.raises(StepFailed, match="overwritten"):
        host.do(CleanupStep.GPU_ERROR_FREE, Before("boot-1", 1_000, {}))


def test_what_was_read_outlives_the_helper_and_not_the_boot(host: Host, tmp_path: Path) -> None:
    log, kept = KernelLog(host.log), tmp_path / "xids.json"
    host.say((0, "Linux version 6.1.0"), xid(79, 2_000))
    host.devices.look()
    host.say((3_000, "eth0: link up"), first=2)
    assert XidWatch(log, "boot-1", kept).since(CARD, 1_000) == [79]
    with pytest.raises(XidsUnknown, match="overwritten"):
        XidWatch(log, "boot-2", kept).since(CARD, 1_000)
    for damaged in ("{", "[]", '{"boot": 1, "other": 2}'):
        kept.write_text(damaged)
        with pytest.raises(XidsUnknown, match="overwritten"):
            XidWatch(log, "boot-1", kept).since(CARD, 1_000)


def test_an_empty_log_is_not_a_clean_one(host: Host) -> None:
    host.log.write_text("")
    with pytest.raises(StepFailed, match="no records"):
        host.do(CleanupStep.GPU_ERROR_FREE)


@pytest.mark.parametrize("beside", ["0000:44:00.0", "0000:1b:00.0"])
def test_a_device_that_shares_its_group_with_anothers_is_given_to_nobody(
    host: Host, beside: str
) -> None:
    group = host.root / "sys/kernel/iommu_groups/7/devices"
    group.mkdir(parents=True)
    sound = f"{CARD[:-1]}1"
    (TreeBuilder(host.root).device(sound, "0x040300", NVIDIA) / "driver_override").write_text("\n")
    host.kernel.drivers[sound] = "snd_hda_intel"
    for name in (CARD, sound):
        (group / name).touch()
    host.slot = replace(host.slot, nic=None, nic_mode=DeviceMode.NONE)
    host.devices.attach([host.slot], None)
    host.do(CleanupStep.DEVICES_DETACHED)
    if beside == "0000:44:00.0":
        folder = host.root / "sys/bus/pci/devices" / beside
        folder.mkdir()
        (folder / "class").write_text("0x060400\n")
        (group / beside).touch()
        # A bridge goes with what is below it.
        host.devices.attach([host.slot], None)
        host.do(CleanupStep.DEVICES_DETACHED)
        (folder / "class").write_text("0x0c0330\n")
    (group / beside).touch()
    with pytest.raises(StepFailed, match=f"{CARD} shares its IOMMU group with {beside}"):
        host.devices.attach([host.slot], None)
    assert host.bus.driver(CARD) == "nvidia"


def test_a_counter_that_grew_since_the_claim_fails_the_step(host: Host, fake: FakeNvml) -> None:
    before = Before("boot-1", 0, host.devices.error_counts([host.slot])[uuid_of(0)])
    assert "ecc_uncorrected 0" in host.do(CleanupStep.GPU_ERROR_FREE, before).detail
    fake.change({"gpu.0.remapped": "0 1 0 1", "gpu.0.ecc.dbe.total": "2"})
    with pytest.raises(StepFailed, match="ecc_uncorrected 0 -> 2; remapped_rows_failed 0 -> 1"):
        host.do(CleanupStep.GPU_ERROR_FREE, before)


def test_a_counter_that_is_not_known_any_more_fails_the_step(host: Host, fake: FakeNvml) -> None:
    before = Before("boot-1", 0, host.devices.error_counts([host.slot])[uuid_of(0)])
    fake.change({"error.0.nvmlDeviceGetTotalEccErrors": "10"})
    with pytest.raises(StepFailed, match="ecc_uncorrected is not known any more"):
        host.do(CleanupStep.GPU_ERROR_FREE, before)


def test_what_was_not_counted_before_the_claim_may_be_of_it(host: Host, fake: FakeNvml) -> None:
    before = Before("boot-1", 0, {})
    assert "ecc_uncorrected 0" in host.do(CleanupStep.GPU_ERROR_FREE, before).detail
    fake.change({"gpu.0.ecc.dbe.total": "2"})
    with pytest.raises(StepFailed, match="ecc_uncorrected 2, which was not known before"):
        host.do(CleanupStep.GPU_ERROR_FREE, before)
    never = Before("boot-1", 0, None)
    assert "never handed out here" in host.do(CleanupStep.GPU_ERROR_FREE, never).detail


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpu.0.remapped": "0 1 1 0"}, "waits to be remapped"),
        ({"gpu.0.field.230": "1 1"}, "gpu_reset"),
    ],
)
def test_a_gpu_that_waits_for_a_repair_fails_the_step(
    host: Host, fake: FakeNvml, change: dict[str, str | None], said: str
) -> None:
    fake.change(change)
    with pytest.raises(StepFailed, match=said):
        host.do(CleanupStep.GPU_ERROR_FREE)


def test_a_log_that_cannot_be_read_is_not_a_clean_one(host: Host) -> None:
    host.log.unlink()
    with pytest.raises(StepFailed, match="cannot be read"):
        host.do(CleanupStep.GPU_ERROR_FREE)


def test_an_open_file_is_found_under_any_of_its_names(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.touch()
    os.link(path, other)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        opened = os.open(path, os.O_RDONLY)
        os.read(reader, 1)
        os._exit(opened * 0)
    try:
        found: list[str] = []
        for _ in range(500):
            found = found or holders([other])
        assert [one.partition(" ")[0] for one in found] == [str(child)]
    finally:
        os.write(writer, b"x")
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
    assert holders([other]) == []
    assert mounts(["0:0"]) == []
