"""What does a real GPU need beyond a new driver, when it goes to a machine and comes back?"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.host.assemble import clean_here
from nodeagent.host.cleanup.steps import Before, StepFailed
from nodeagent.host.config import HostConfig, Tools
from nodeagent.host.discovery import discover
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import CleanupStep
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.test_host_cleanup import CARD, DRIVERS, NIC, Host
from tests.nodeagent.host_facts.trees import NVIDIA, TreeBuilder

SOUND = "0000:1a:00.1"
# Notes how it was called; closes what its neighbour holds when persistence is put off.
SMI = """#!/bin/sh
echo "$1" >>"{folder}/smi"
case "$1" in
--persistence-mode=0) rm -f "{proc}/77/fd/3" ;;
{more}
esac
"""


@pytest.fixture
def host(tmp_path: Path, fake: FakeNvml, nvml: Nvml) -> Host:
    """A host with one GPU, a NIC and a disk."""
    fake.play(gpus=1).change({"gpu.0.minor": "0", "gpu.0.persistence": "1"})
    made = Host(tmp_path, nvml)
    an_smi(made)
    return made


def an_smi(host: Host, more: str = "") -> None:
    """The program that sets GPUs, with more of its cases."""
    text = SMI.format(folder=host.tools, proc=host.root / "proc", more=more)
    host.program("nvidia-smi", text)


def asked(host: Host) -> list[str]:
    """What the program was asked for, in order."""
    path = host.tools / "smi"
    return path.read_text().splitlines() if path.exists() else []


def before(host: Host) -> Before:
    """As a record has it from when the slot was handed over."""
    return Before("boot-1", 0, host.devices.error_counts([host.slot])[uuid_of(0)])


def test_the_persistence_daemon_lets_go_before_the_driver_is_taken_away(host: Host) -> None:
    host.process(77, opened="nvidia0")
    was = before(host)
    host.devices.attach([host.slot], None)
    assert (asked(host), host.bus.driver(CARD)) == (["--persistence-mode=0"], "vfio-pci")
    host.do(CleanupStep.DEVICES_DETACHED)
    host.do(CleanupStep.GPU_SCRUBBED, was)
    assert asked(host)[1:] == ["--gpu-reset", "--persistence-mode=1"]


def test_persistence_that_was_off_stays_off(host: Host, fake: FakeNvml) -> None:
    fake.change({"gpu.0.persistence": "0"})
    was = before(host)
    host.devices.attach([host.slot], None)
    host.do(CleanupStep.DEVICES_DETACHED)
    host.do(CleanupStep.GPU_SCRUBBED, was)
    assert asked(host) == ["--gpu-reset"]


def test_a_gpu_that_somebody_has_open_keeps_its_driver_and_says_who(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeagent.host.cleanup.gpu._LET_GO_S", 0.2)
    an_smi(host, "*) echo 'no daemon answers' >&2; exit 9 ;;")
    host.process(78, opened="nvidia0")
    with pytest.raises(StepFailed, match=r"is open in 78 \(a-tenants-tool\)"):
        host.devices.attach([host.slot], None)
    assert {one: host.bus.driver(one) for one in DRIVERS} == DRIVERS
    (host.root / "proc/78/fd/3").unlink()
    host.devices.attach([host.slot], None)
    assert host.bus.driver(CARD) == "vfio-pci"


def test_a_gpu_that_its_claim_has_already_is_not_asked_again(host: Host, fake: FakeNvml) -> None:
    given = host.devices.vet([host.slot])
    assert given == (CARD,)
    host.devices.attach([host.slot], None, given)
    fake.change({"count": "0"})
    assert host.devices.vet([host.slot], given) == given
    host.devices.attach([host.slot], None, given)
    assert asked(host) == ["--persistence-mode=0"]


def test_a_gpu_that_a_machine_which_nobody_asked_for_had_goes_to_no_other(host: Host) -> None:
    host.kernel.bind(CARD, "vfio-pci")
    with pytest.raises(StepFailed, match=f"{CARD} is with vfio-pci already.*reset it"):
        host.devices.vet([host.slot])
    with pytest.raises(StepFailed, match=f"{CARD} is with vfio-pci already.*reset it"):
        host.devices.attach([host.slot], None, ["0000:99:00.0"], 77)
    host.process(77, opened="vfio/7")
    with pytest.raises(StepFailed, match=r"already, and open in 77 \(a-tenants-tool\)"):
        host.devices.attach([host.slot], None)
    # A machine of before these were noted has it, and goes on.
    assert host.devices.vet([host.slot], (), 77) == (CARD,)
    host.process(78, opened="vfio/7")
    with pytest.raises(StepFailed, match=r"already, and open in .*78 \(a-tenants-tool\)"):
        host.devices.attach([host.slot], None, (), 77)


@pytest.mark.parametrize("group", [7, 17])
def test_the_sound_of_a_graphics_card_goes_with_it_where_it_is_in_its_group(
    host: Host, group: int
) -> None:
    tree = TreeBuilder(host.root)
    tree.device(SOUND, "0x040300", NVIDIA, group=group)
    for address, number in ((CARD, 7), (SOUND, group)):
        members = host.root / f"sys/kernel/iommu_groups/{number}/devices"
        members.mkdir(exist_ok=True)
        (members / address).symlink_to(host.bus.folder(address))
    host.kernel.bind(SOUND, "snd_hda_intel")
    (host.bus.folder(SOUND) / "driver_override").write_text("\n")
    drivers = {**DRIVERS, SOUND: "snd_hda_intel"}
    host.kernel.drivers = drivers
    host.devices.attach([host.slot], None)
    given = group == 7
    assert host.bus.driver(SOUND) == ("vfio-pci" if given else "snd_hda_intel")
    done = host.do(CleanupStep.DEVICES_DETACHED)
    assert {one: host.bus.driver(one) for one in drivers} == drivers
    assert (f"{SOUND} -> snd_hda_intel" in done.detail) is given


@pytest.mark.parametrize(
    ("left", "option", "name"),
    [
        ({"gpu.0.ecc": "0"}, "--ecc-config=1", "ecc_mode"),
        ({"gpu.0.ecc": "1 0"}, "--ecc-config=1", "ecc_mode"),
        ({"gpu.0.mig": "1 1"}, "--multi-instance-gpu=0", "mig_mode"),
        ({"gpu.0.mig": "0 1"}, "--multi-instance-gpu=0", "mig_mode"),
    ],
)
def test_what_a_tenant_has_set_on_its_gpu_is_set_back_before_the_reset(
    host: Host, fake: FakeNvml, left: dict[str, str], option: str, name: str
) -> None:
    was = before(host)
    fake.change(left)
    with pytest.raises(StepFailed, match=f"{name} is not as it was before the claim"):
        host.do(CleanupStep.GPU_ERROR_FREE, was)
    done = host.do(CleanupStep.GPU_SCRUBBED, was)
    assert asked(host)[:2] == [option, "--gpu-reset"]
    assert f"{name} was changed, set back" in done.detail
    fake.change({"gpu.0.ecc": "1", "gpu.0.mig": "0 0"})
    assert "none fatal" in host.do(CleanupStep.GPU_ERROR_FREE, was).detail


def test_a_mode_that_cannot_be_set_back_blocks_the_slot(host: Host, fake: FakeNvml) -> None:
    was = before(host)
    fake.change({"gpu.0.ecc": "0"})
    an_smi(host, "--ecc-config=1) echo 'not permitted' >&2; exit 4 ;;")
    assert "not permitted" in host.do(CleanupStep.GPU_SCRUBBED, was).detail
    with pytest.raises(StepFailed, match="ecc_mode is not as it was"):
        host.do(CleanupStep.GPU_ERROR_FREE, was)


def test_a_record_of_before_that_does_not_say_how_it_was_set_changes_nothing(
    host: Host, fake: FakeNvml
) -> None:
    fake.change({"gpu.0.ecc": "0"})
    host.do(CleanupStep.GPU_SCRUBBED, Before("boot-1", 0, {"ecc_uncorrected": 0}))
    assert asked(host) == ["--gpu-reset"]


def test_a_gpu_that_only_a_reset_brings_back_is_reset(host: Host, fake: FakeNvml) -> None:
    was = before(host)
    fake.change({"error.0.nvmlDeviceGetUUID": "16"})
    with pytest.raises(StepFailed, match="NVML knows 0 GPUs"):
        host.do(CleanupStep.GPU_SCRUBBED, was)
    assert asked(host) == ["--gpu-reset"]


def test_a_gpu_is_not_reset_over_the_bus_while_somebody_has_it_open(host: Host) -> None:
    an_smi(host, "*) echo 'in use by another client' >&2; exit 19 ;;")
    host.process(78, opened="nvidia0")
    with pytest.raises(StepFailed, match=r"another client; it is open in 78 \(a-tenants-tool\)"):
        host.do(CleanupStep.GPU_SCRUBBED)
    assert ("reset", "1") not in host.kernel.written
    (host.root / "proc/78/fd/3").unlink()
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "bus_reset"


def test_a_gpu_that_its_persistence_daemon_has_open_is_reset_by_its_driver(host: Host) -> None:
    held = host.root / "proc/77/fd/3"
    an_smi(host, f"--gpu-reset) [ ! -e {held} ] || {{ echo 'in use' >&2; exit 19; }} ;;")
    host.process(77, opened="nvidia0")
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "gpu_reset"
    assert asked(host) == ["--gpu-reset", "--persistence-mode=0", "--gpu-reset"]


def a_cleaning_system(host: Host) -> HostConfig:
    """What a whole host is started into for its cleanup."""
    shutil.copy(host.log, host.root / "dev" / "kmsg")
    tools = replace(Tools(), nvidia_smi=host.tools / "nvidia-smi")
    return HostConfig(
        "https://c", "h", root=host.root, helper_folder=host.tools / "helper", tools=tools
    )


def test_a_whole_host_goes_to_the_next_tenant_with_its_gpus_uncut(
    host: Host, fake: FakeNvml
) -> None:
    config, slot = a_cleaning_system(host), host.slot.to_json()
    fake.change({"gpu.0.mig": "1 1"})
    with pytest.raises(StepFailed, match="mig_mode is not as it was"):
        clean_here(config, {"action": "gpu_error_free", "slot": slot})
    done = clean_here(config, {"action": "gpu_scrubbed", "slot": slot})
    assert "mig_mode was changed, set back" in done.detail
    assert asked(host) == ["--multi-instance-gpu=0", "--gpu-reset"]


def test_a_card_that_knows_no_mig_is_uncut(host: Host, fake: FakeNvml) -> None:
    fake.change({"gpu.*.mig": None})
    told = {"action": "gpu_error_free", "slot": host.slot.to_json()}
    assert "none fatal" in clean_here(a_cleaning_system(host), told).detail


def divide(host: Host, card: str, number: int, driver: str) -> str:
    """Makes a virtual function of a card, which this driver takes."""
    address = f"{card[:-1]}{number}"
    tree = TreeBuilder(host.root)
    part = tree.device(address, "0x030200", NVIDIA, group=40 + number, driver=driver)
    (part / "physfn").symlink_to(f"../{card}")
    (host.bus.folder(card).resolve() / f"virtfn{number}").symlink_to(f"../{address}")
    return address


def divided(host: Host, nvml: Nvml) -> list[str | None]:
    """The GPUs that a discovery finds divided."""
    found = discover(host.root, nvml).findings
    return [one.device for one in found if one.code == "gpu_divided"]


def test_a_gpu_that_is_divided_for_other_machines_goes_to_none_whole(
    host: Host, nvml: Nvml
) -> None:
    assert divided(host, nvml) == []
    part = divide(host, CARD, 4, "nvidia")
    assert divided(host, nvml) == [CARD]
    with pytest.raises(StepFailed, match=f"{CARD} is not given away: it is divided into {part}"):
        host.devices.attach([host.slot], None)
    assert {one: host.bus.driver(one) for one in DRIVERS} == DRIVERS
    (host.bus.folder(CARD) / "virtfn4").unlink()
    mediated = host.bus.folder(CARD) / "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
    mediated.mkdir()
    (mediated / "mdev_type").symlink_to("../mdev_supported_types/nvidia-222")
    assert divided(host, nvml) == [CARD]
    with pytest.raises(StepFailed, match="is divided into 83b8f4f2"):
        host.devices.attach([host.slot], None)
    shutil.rmtree(mediated)
    host.devices.attach([host.slot], None)
    assert host.bus.driver(CARD) == "vfio-pci"


def test_a_nic_of_which_a_machine_has_a_virtual_function_is_not_taken_from_it(host: Host) -> None:
    divide(host, NIC, 2, "mlx5_core")
    part = divide(host, NIC, 3, "vfio-pci")
    with pytest.raises(StepFailed, match=f"{NIC} is not given away: it is divided into {part},"):
        host.devices.attach([host.slot], None)
    assert {one: host.bus.driver(one) for one in DRIVERS} == DRIVERS
    host.kernel.bind(part, "mlx5_core")
    host.devices.attach([host.slot], None)
    assert host.bus.driver(NIC) == "vfio-pci"
