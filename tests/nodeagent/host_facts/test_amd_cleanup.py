"""Is one of AMD's GPUs handed over only where it can be cleaned, and shown clean or refused?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodeagent.host.cleanup.gpu import AS_NEW
from nodeagent.host.cleanup.steps import Before, StepFailed
from nodeagent.host.discovery import GpuMemory, discover, observe_devices
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import CleanupStep, Presence, UuidSource
from nodeagent.topology.slots import topology_report
from tests.nodeagent.host_facts.amd_host import CARD, FLOOR, MATE, AmdHost, a_library, uuid_of

Make = Callable[..., AmdHost]
STEPS = (
    CleanupStep.DEVICES_DETACHED,
    CleanupStep.GPU_SCRUBBED,
    CleanupStep.NO_PROCESS,
    CleanupStep.GPU_ERROR_FREE,
)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes the host."""
    monkeypatch.setattr("nodeagent.host.cleanup.amd._LET_GO_S", 0.05)
    monkeypatch.setattr("nodeagent.host.cleanup.pci._SETTLE_S", 0.05)
    return lambda **how: AmdHost(tmp_path, monkeypatch, **how)


@pytest.fixture
def host(make: Make) -> AmdHost:
    """Two GPUs that are in no hive."""
    return make()


def test_a_gpu_goes_to_a_machine_comes_back_and_every_step_is_shown(host: AmdHost) -> None:
    before = host.counted()
    host.devices.attach([host.slot()], None)
    assert [host.bus.driver(one) for one in (CARD, MATE)] == ["vfio-pci", "amdgpu"]
    host.devices.attach([host.slot()], None, [CARD])
    host.kernel.used[CARD] = 100_000
    done = {step: host.do(step, before=before) for step in STEPS}
    assert [one.method for one in done.values()] == [
        "driver_rebound",
        "flr_reset",
        "open_files_and_kfd",
        "amdgpu_ras_counters",
    ]
    assert host.kernel.resets == [(CARD, "flr")]
    assert done[CleanupStep.GPU_SCRUBBED].detail == (
        f"amdsmi: library_missing; without its driver {CARD} by flr; {FLOOR} MiB in use "
        f"afterwards, before the claim {FLOOR} MiB"
    )
    assert "3 device files" in done[CleanupStep.NO_PROCESS].detail
    assert "ras_uncorrected 0" in done[CleanupStep.GPU_ERROR_FREE].detail
    assert host.bus.driver(CARD) == "amdgpu"


def test_the_kernels_own_order_of_resets_is_put_back(host: AmdHost) -> None:
    host.do(CleanupStep.GPU_SCRUBBED)
    order = host.bus.folder(CARD) / "reset_method"
    assert order.read_text() == "flr bus\n"
    told = [text for name, text in host.kernel.written if name == "reset_method"]
    assert told == ["default", "flr", "default"]
    # A kill came in between: what it had put there is not taken for the kernel's own.
    host.kernel.knows(CARD, "acpi flr\n")
    order.write_text("flr")
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "acpi_reset"
    assert order.read_text() == "acpi flr\n"


def test_an_order_that_cannot_be_put_back_undoes_no_reset(host: AmdHost) -> None:
    host.kernel.broken = {"default"}
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "flr_reset"


def test_a_reset_that_fails_is_followed_by_the_next_and_named_where_none_is_left(
    host: AmdHost,
) -> None:
    host.kernel.knows(CARD, "acpi flr bus\n")
    host.kernel.broken = {"acpi"}
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "flr_reset"
    host.kernel.broken = {"acpi", "flr"}
    with pytest.raises(StepFailed, match=r"was not reset \(acpi: .*Inappropriate ioctl.*flr: "):
        host.do(CleanupStep.GPU_SCRUBBED)
    # Not over the bus: that does not reset a card that a driver has had.
    assert host.kernel.resets == [(CARD, "flr")]
    assert host.bus.driver(CARD) == "amdgpu"


def without_file(host: AmdHost) -> None:
    (host.bus.folder(CARD) / "reset").unlink()


def power_state_only(host: AmdHost) -> None:
    host.kernel.knows(CARD, "pm\n")


def unnamed_method(host: AmdHost) -> None:
    (host.bus.folder(CARD) / "reset_method").unlink()


def bus_only(host: AmdHost) -> None:
    host.kernel.knows(CARD, "bus cxl_bus\n")


def uncounted(host: AmdHost) -> None:
    shutil.rmtree(host.bus.folder(CARD) / "ras")


def unpaged(host: AmdHost) -> None:
    (host.bus.folder(CARD) / "ras/gpu_vram_bad_pages").unlink()


def unmeasured(host: AmdHost) -> None:
    (host.bus.folder(CARD) / "mem_info_vram_used").unlink()


NO_RESET = [
    ("no_reset_file", without_file),
    ("reset_proves_nothing", power_state_only),
    ("reset_proves_nothing", bus_only),
    ("reset_method_unknown", unnamed_method),
]
NEVER = [
    *NO_RESET,
    ("errors_not_counted", uncounted),
    ("bad_pages_not_told", unpaged),
    ("memory_not_told", unmeasured),
]
Spoil = Callable[[AmdHost], None]


@pytest.mark.parametrize(("reason", "spoil"), NEVER)
def test_what_could_not_be_cleaned_is_said_at_discovery_and_given_to_no_machine(
    host: AmdHost, reason: str, spoil: Spoil
) -> None:
    spoil(host)
    report = topology_report(discover(host.root), "host-1")
    told = {one.device: one for one in report.facts if one.name == "gpu_cleanable"}
    assert (told[CARD].presence, told[CARD].reason) == (Presence.ABSENT, reason)
    assert (told[MATE].presence, told[MATE].value) == (Presence.PRESENT, "flr")
    found = [one for one in report.findings if one.code == "gpu_not_cleanable"]
    assert [(one.device, reason in one.detail) for one in found] == [(CARD, True)]
    with pytest.raises(StepFailed, match=f"could not be cleaned .*{reason}"):
        host.devices.attach([host.slot()], None)
    assert host.bus.driver(CARD) == "amdgpu"


@pytest.mark.parametrize(("reason", "spoil"), NO_RESET)
def test_without_a_reset_that_counts_nothing_is_scrubbed(
    host: AmdHost, reason: str, spoil: Spoil
) -> None:
    spoil(host)
    with pytest.raises(StepFailed, match="was not reset"):
        host.do(CleanupStep.GPU_SCRUBBED)
    assert (host.kernel.resets, host.bus.driver(CARD)) == ([], "amdgpu")


def test_a_gpu_that_its_driver_does_not_take_again_is_not_scrubbed(host: AmdHost) -> None:
    host.kernel.refuses = {CARD}
    with pytest.raises(StepFailed, match=r"was not taken again by amdgpu \(none\)"):
        host.do(CleanupStep.GPU_SCRUBBED)
    for step in (CleanupStep.GPU_SCRUBBED, CleanupStep.GPU_ERROR_FREE):
        with pytest.raises(StepFailed, match="no driver instead of amdgpu"):
            host.do(step)
    with pytest.raises(StepFailed, match="amdgpu names none"):
        host.do(CleanupStep.NO_PROCESS)


@pytest.mark.parametrize(("used", "floor"), [(FLOOR + 65, FLOOR), (1025, None), (1025, 5000)])
def test_memory_in_use_after_the_reset_is_no_scrub(
    host: AmdHost, monkeypatch: pytest.MonkeyPatch, used: int, floor: int | None
) -> None:
    monkeypatch.setattr("tests.nodeagent.host_facts.amd_host.FLOOR", used)
    before = None if floor is None else Before("boot-1", 0, {"memory_used_mib": floor})
    with pytest.raises(StepFailed, match=f"{used} MiB are in use after the reset"):
        host.do(CleanupStep.GPU_SCRUBBED, before=before)


def test_memory_that_is_not_told_after_the_reset_is_no_scrub(host: AmdHost) -> None:
    host.kernel.hidden = {"mem_info_vram_used"}
    with pytest.raises(StepFailed, match="how much memory is in use is not known: no_file"):
        host.do(CleanupStep.GPU_SCRUBBED)


@pytest.mark.parametrize("opened", ["dri/renderD128", "dri/card0", "kfd"])
def test_nobody_may_have_it_open(host: AmdHost, opened: str) -> None:
    host.process(77, opened)
    for step in (CleanupStep.NO_PROCESS, CleanupStep.GPU_SCRUBBED):
        with pytest.raises(StepFailed, match=r"open in 77 \(a-tenants-tool\)"):
            host.do(step)
    with pytest.raises(StepFailed, match=r"open in 77 .*have it let go"):
        host.devices.attach([host.slot()], None)
    assert (host.kernel.resets, host.bus.driver(CARD)) == ([], "amdgpu")


def test_whoever_has_another_gpu_open_is_not_in_the_way(host: AmdHost) -> None:
    host.process(77, "dri/renderD129")
    host.computes(78, number=1)
    assert host.do(CleanupStep.NO_PROCESS).method == "open_files_and_kfd"
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "flr_reset"


def test_a_process_that_only_the_compute_driver_knows_counts(host: AmdHost) -> None:
    host.computes(4711)
    for step in (CleanupStep.NO_PROCESS, CleanupStep.GPU_SCRUBBED):
        with pytest.raises(StepFailed, match=r"4711 \(computes on the GPU\)"):
            host.do(step)


def test_a_compute_driver_that_does_not_list_the_gpu_leaves_its_users_unknown(
    host: AmdHost,
) -> None:
    (host.root / "sys/class/kfd/kfd/topology/nodes/1/properties").write_text("simd_count 8\n")
    with pytest.raises(StepFailed, match=r"who computes on .* not_in_kfd"):
        host.do(CleanupStep.NO_PROCESS)
    shutil.rmtree(host.root / "sys/class/kfd")
    assert host.do(CleanupStep.NO_PROCESS).method == "open_files_and_kfd"


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ({"umc": "ue: 1\nce: 0\nde: 0\n"}, "ras_uncorrected 1 since"),
        ({"umc": "ue: 0\nce: 0\nde: 2\n"}, "ras_uncorrected 2 since"),
        ({"umc": "ue: 0\nce: 0\n", "gfx": "ue: 4\nce: 0\n"}, "ras_uncorrected 4 since"),
        ({"umc": "Query currently inaccessible\n"}, "ras_uncorrected is not known"),
        ({"umc": "ue: 0\n", "gfx": ""}, "ras_uncorrected is not known"),
        ({"umc": "ue: -1\nce: 0\n"}, "ras_uncorrected is not known"),
        ({"umc": "ue: 0\nce: 0\nxx: 1\n"}, "ras_uncorrected is not known"),
        ({"umc": "ue: 0\nue: 1\n"}, "ras_uncorrected is not known"),
        ({"gfx": "ue: 0\nce: 0\n"}, "ras_uncorrected is not known"),
        ({}, "ras_uncorrected is not known"),
    ],
)
def test_an_error_that_was_not_corrected_or_is_not_counted_is_not_clean(
    host: AmdHost, errors: dict[str, str], said: str
) -> None:
    before = host.counted()
    host.kernel.errors = errors
    host.kernel.show(CARD)
    with pytest.raises(StepFailed, match=said):
        host.do(CleanupStep.GPU_ERROR_FREE, before=before)


RETIRED, WAITS = "0x00000001 : 0x00001000 : R\n", "0x00000002 : 0x00001000 : P\n"


@pytest.mark.parametrize(
    ("earlier", "now", "said"),
    [
        (RETIRED, RETIRED, ""),
        ("", RETIRED, "bad_pages 0 -> 1"),
        (RETIRED, RETIRED + WAITS, "1 bad pages wait to be taken out; bad_pages 1 -> 2"),
        (RETIRED, "", "bad_pages 1 -> 0: not all are told"),
        ("", "a page\n", "bad_pages is not known"),
    ],
)
def test_pages_that_were_taken_out_since_the_claim_are_not_clean(
    host: AmdHost, earlier: str, now: str, said: str
) -> None:
    host.kernel.pages[CARD] = earlier
    host.kernel.show(CARD)
    before = host.counted()
    host.kernel.pages[CARD] = now
    host.kernel.show(CARD)
    if not said:
        detail = host.do(CleanupStep.GPU_ERROR_FREE, before=before).detail
        assert "bad_pages 1, bad_pages_waiting 0; 1 pages before" in detail
        return
    with pytest.raises(StepFailed, match=said):
        host.do(CleanupStep.GPU_ERROR_FREE, before=before)


def test_what_was_not_counted_before_the_claim_is_not_clean_after_it(host: AmdHost) -> None:
    for counts in ({}, {"memory_used_mib": FLOOR}, AS_NEW):
        with pytest.raises(StepFailed, match="bad_pages was not known before the claim"):
            host.do(CleanupStep.GPU_ERROR_FREE, before=Before("boot-1", 0, counts))
    never, whole = Before("boot-1", 0, None), Before("boot-1", 0, AS_NEW, whole_host=True)
    for before in (never, whole):
        done = host.do(CleanupStep.GPU_ERROR_FREE, before=before)
        assert "its pages of before are not known" in done.detail


def tells(host: AmdHost, library: Any, kind: str) -> list[str]:
    """The library resets by this kind, and the kernel's log tells of it; gives what was reset."""
    done: list[str] = []

    def reset(handle: str) -> None:
        done.append(handle)
        lines = host.log.read_text().splitlines()
        for text in (kind, "GPU reset(1) succeeded!"):
            lines.append(f"6,{len(lines)},9,-;amdgpu {handle}: {text}")
        host.log.write_text("\n".join(lines) + "\n")

    library.amdsmi_reset_gpu = reset
    return done


@pytest.mark.parametrize("kind", ["amdgpu: MODE1 reset", "amdgpu: BACO reset", "MODE1 reset"])
def test_the_library_resets_where_it_is_and_the_log_confirms_it(
    host: AmdHost, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    done = tells(host, a_library(monkeypatch, host.places, hive=False), kind)
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "amdsmi_gpu_reset"
    assert (done, host.kernel.resets) == ([CARD], [])


@pytest.mark.parametrize("kind", ["amdgpu: MODE2 reset", "amdgpu: MODE1 reset failed", "PCI reset"])
def test_a_reset_that_may_keep_the_memory_is_done_over_the_bus(
    host: AmdHost, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    done = tells(host, a_library(monkeypatch, host.places, hive=False), kind)
    scrubbed = host.do(CleanupStep.GPU_SCRUBBED)
    assert (done, scrubbed.method, host.kernel.resets) == ([CARD], "flr_reset", [(CARD, "flr")])
    assert f"the kernel's log has no MODE1 or BACO reset of {CARD}" in scrubbed.detail
    power_state_only(host)
    with pytest.raises(StepFailed, match=f"no MODE1 or BACO reset of {CARD}; and .* was not reset"):
        host.do(CleanupStep.GPU_SCRUBBED)


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        ("silent", f"the kernel's log has no reset of {CARD}"),
        ("raises", "it refused: RuntimeError no permission"),
        ("older", "it refused: AttributeError"),
        ("blind", "it does not list the GPU"),
        ("logless", "the kernel's log cannot be read"),
    ],
)
def test_a_reset_that_only_the_library_claims_is_done_over_the_bus(
    host: AmdHost, monkeypatch: pytest.MonkeyPatch, breaks: str, said: str
) -> None:
    library = a_library(monkeypatch, [] if breaks == "blind" else host.places, hive=False)

    def reset(_: str) -> None:
        if breaks == "raises":
            raise RuntimeError("no permission")

    if breaks != "older":
        library.amdsmi_reset_gpu = reset
    if breaks == "logless":
        host.log.unlink()
    # A reset of before says nothing of this one.
    elif breaks == "silent":
        host.log.write_text(f"6,5,9,-;amdgpu {CARD}: amdgpu: GPU reset(1) succeeded!\n")
    done = host.do(CleanupStep.GPU_SCRUBBED)
    assert (done.method, said in done.detail) == ("flr_reset", True)


def test_a_hive_is_reset_as_a_whole_once_nobody_else_has_any_of_it(make: Make) -> None:
    host = make(hive=True)
    host.devices.attach([host.slot(0), host.slot(1)], None)
    host.do(CleanupStep.DEVICES_DETACHED, 0)
    with pytest.raises(StepFailed, match=f"in one hive with {MATE}, which a machine has"):
        host.do(CleanupStep.GPU_SCRUBBED, 0)
    assert host.kernel.resets == []
    host.do(CleanupStep.DEVICES_DETACHED, 1)
    host.process(77, "dri/renderD129")
    with pytest.raises(StepFailed, match=f"{MATE} is open in 77"):
        host.do(CleanupStep.GPU_SCRUBBED, 0)
    shutil.rmtree(host.root / "proc/77")
    done = host.do(CleanupStep.GPU_SCRUBBED, 0)
    assert host.kernel.resets == [(CARD, "flr"), (MATE, "flr")]
    assert f"with its hive {CARD}, {MATE}" in done.detail
    assert [host.bus.driver(one) for one in host.places] == ["amdgpu"] * 2


def test_nothing_goes_to_a_machine_while_a_hive_is_reset(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make(hive=True)
    put, held = host.kernel.put, []

    def watched(path: Path, text: str) -> None:
        held.append(host.amd.turn.locked())
        put(path, text)

    monkeypatch.setattr(host.bus, "_put", watched)
    host.devices.attach([host.slot(0), host.slot(1)], None)
    handed = len(held)
    for number in (0, 1):
        host.do(CleanupStep.DEVICES_DETACHED, number)
    taken = len(held)
    host.do(CleanupStep.GPU_SCRUBBED, 0)
    assert len(held) > taken > handed > 0
    assert all(held[:handed] + held[taken:])
    assert not host.amd.turn.locked()


def test_a_gpu_that_is_known_to_be_in_another_hive_is_left_alone(make: Make) -> None:
    host = make(hive=True)
    host.report = replace(
        host.report,
        gpus=tuple(
            replace(gpu, nvlink_domain=f"xgmi-{number}")
            for number, gpu in enumerate(host.report.gpus)
        ),
    )
    host.kernel.unbind(MATE)
    host.kernel.bind(MATE, "vfio-pci")
    host.do(CleanupStep.GPU_SCRUBBED)
    assert host.kernel.resets == [(CARD, "flr")]
    assert host.bus.driver(MATE) == "vfio-pci"


def test_one_of_a_hive_goes_to_no_machine_alone_and_discovery_says_so(make: Make) -> None:
    host = make(hive=True)
    with pytest.raises(StepFailed, match=f"{CARD} is in one hive with {MATE}"):
        host.devices.attach([host.slot()], None)
    report = topology_report(discover(host.root), "host-1")
    told = [one.reason for one in report.facts if one.name == "gpu_cleanable"]
    assert told == ["hive_shared"] * 2


def test_a_gpu_that_is_a_hive_by_itself_is_like_any_other(make: Make) -> None:
    host = make(hive=True, alone=True)
    host.devices.attach([host.slot()], None)
    host.do(CleanupStep.DEVICES_DETACHED)
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "flr_reset"


def test_a_gpu_that_was_with_vfio_from_the_start_goes_to_no_machine(host: AmdHost) -> None:
    host.kernel.unbind(CARD)
    host.kernel.bind(CARD, "vfio-pci")
    with pytest.raises(StepFailed, match="is with vfio-pci already"):
        host.devices.attach([host.slot()], None)
    # Not because just anybody has it open either.
    host.process(77, "vfio/7")
    with pytest.raises(StepFailed, match=r"is with vfio-pci already, and open in 77"):
        host.devices.attach([host.slot()], None, (), 78)
    # But a machine that has it goes on after the helper's own restart.
    assert host.devices.attach([host.slot()], None, (), 77) == ()


def test_a_gpu_that_was_found_fit_is_taken_for_it_after_the_helpers_own_restart(
    host: AmdHost, tmp_path: Path
) -> None:
    given = host.devices.vet([host.slot()])
    host.devices.attach([host.slot()], None, given)
    host.devices = host.helper(tmp_path)
    assert host.devices.attach([host.slot()], None, given) == ()
    assert host.devices.vet([host.slot()], given) == given == (CARD,)


def test_a_gpu_that_a_machine_has_is_remembered_by_whoever_begins_anew(
    host: AmdHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_library(monkeypatch, host.places, hive=False)
    discover(host.root, None, GpuMemory(tmp_path / "gpus.json"))
    host.devices.attach([host.slot()], None)
    a_library(monkeypatch, [MATE], hive=False)
    memory = GpuMemory(tmp_path / "gpus.json")
    report = topology_report(discover(host.root, None, memory), "host-1")
    assert [(gpu.uuid, gpu.uuid_source) for gpu in report.gpus] == [
        (uuid_of(CARD), UuidSource.REMEMBERED),
        (uuid_of(MATE), UuidSource.AMDSMI),
    ]
    told = {one.device: one.reason for one in report.facts if one.name == "gpu_cleanable"}
    assert told == {CARD: "driver_vfio", MATE: None}
    sight = observe_devices(report, host.root, None, memory)
    assert [one.presence for one in sight.devices.gpus] == [Presence.PRESENT] * 2
    host.report = report
    host.devices = host.helper(tmp_path)
    host.do(CleanupStep.DEVICES_DETACHED)
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "flr_reset"


def test_while_gpus_are_let_go_of_amds_library_is_not_asked(
    host: AmdHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    a_library(monkeypatch, host.places, hive=False).amdsmi_init = lambda: asked.append("it")
    nvml = Nvml()
    with nvml.released():
        discover(host.root, nvml)
    assert asked == []
    discover(host.root, nvml)
    assert asked == ["it"]
