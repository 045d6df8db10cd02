"""Is a GPU whose driver refuses to reset it reset over the bus, and from under nobody?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import CleanupStep
from tests.nodeagent.host_facts.fake import FakeNvml
from tests.nodeagent.host_facts.test_host_cleanup import CARD, Host


@pytest.fixture
def host(tmp_path: Path, fake: FakeNvml, nvml: Nvml) -> Host:
    """A host with one GPU."""
    fake.play(gpus=1).change({"gpu.0.minor": "0"})
    return Host(tmp_path, nvml)


def test_a_gpu_whose_driver_refuses_is_reset_over_the_bus(host: Host) -> None:
    host.program("nvidia-smi", "#!/bin/sh\necho 'in use by another client' >&2\nexit 19\n")
    done = host.do(CleanupStep.GPU_SCRUBBED)
    assert done.method == "bus_reset"
    assert "in use by another client" in done.detail
    # Not under a driver that would not know of it.
    told = [one for one in host.kernel.written if one[0] != "driver_override"]
    assert told == [("unbind", CARD), ("reset", "1"), ("drivers_probe", CARD)]
    assert host.bus.driver(CARD) == "nvidia"


def test_a_gpu_that_its_driver_does_not_take_after_the_reset_is_not_scrubbed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeagent.host.cleanup.pci._SETTLE_S", 0.1)
    host.program("nvidia-smi", "#!/bin/sh\nexit 3\n")
    host.kernel.stubborn.add(CARD)
    with pytest.raises(StepFailed, match=r"reset by flr; nvidia does not take 0000:1a:00\.0 again"):
        host.do(CleanupStep.GPU_SCRUBBED)


def test_a_gpu_of_which_nobody_knows_who_has_it_open_is_not_reset_over_the_bus(
    host: Host, fake: FakeNvml
) -> None:
    host.program("nvidia-smi", "#!/bin/sh\nexit 3\n")
    host.process(78, opened="nvidia0")
    fake.change({"error.0.nvmlDeviceGetUUID": "16"})
    with pytest.raises(StepFailed, match=r"who has .* open is not known"):
        host.do(CleanupStep.GPU_SCRUBBED)
    told = host.root / "proc/driver/nvidia/gpus" / CARD / "information"
    told.parent.mkdir(parents=True)
    told.write_text("Device Minor: \t 0\n")
    with pytest.raises(StepFailed, match=r"it is open in 78 \(a-tenants-tool\)"):
        host.do(CleanupStep.GPU_SCRUBBED)
    assert host.kernel.written == []


def test_a_gpu_that_nobody_can_reset_is_not_scrubbed(host: Host) -> None:
    host.program("nvidia-smi", "#!/bin/sh\nexit 3\n")
    (host.bus.folder(CARD) / "reset").unlink()
    with pytest.raises(StepFailed, match="cannot be reset by itself"):
        host.do(CleanupStep.GPU_SCRUBBED)
    assert host.bus.driver(CARD) == "nvidia"
