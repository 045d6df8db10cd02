"""Does the helper itself have no GPU open while it takes one from its driver or resets it?"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nodeagent.host.cleanup.hands import Hands
from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import CleanupStep
from tests.nodeagent.host_facts.fake import FakeNvml
from tests.nodeagent.host_facts.test_host_cleanup import CARD, Host


def test_whoever_asks_is_waited_for_and_nobody_begins_meanwhile() -> None:
    hands, told = Hands(), []
    asking, may_end = threading.Event(), threading.Event()

    def ask() -> None:
        with hands.on():
            asking.set()
            may_end.wait(20)
            told.append("asked")

    first = threading.Thread(target=ask)
    first.start()
    assert asking.wait(20)
    with pytest.raises(StepFailed, match="has GPUs open"), hands.off(within_s=0.1):
        raise AssertionError
    may_end.set()
    with hands.off():
        told.append("taken away")
        with pytest.raises(StepFailed, match="taken away or reset for"), hands.on(within_s=0.05):
            raise AssertionError
    first.join(20)
    with hands.on():
        assert told == ["asked", "taken away"]


def test_what_is_asked_elsewhere_in_the_process_is_waited_for_as_well() -> None:
    left = [1, 1, 0]
    with Hands(lambda: left.pop(0)).off():
        assert left == []


@pytest.fixture
def host(tmp_path: Path, fake: FakeNvml, nvml: Nvml) -> Host:
    """A host with one GPU, of which another claim is just asking."""
    fake.play(gpus=1).change({"gpu.0.minor": "0"})
    return Host(tmp_path, nvml)


def test_no_gpu_is_reset_or_taken_from_its_driver_while_another_claim_asks(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = host.devices._gpus.hands
    off = hands.off
    monkeypatch.setattr(hands, "off", lambda: off(within_s=0.1))
    with hands.on():
        with pytest.raises(StepFailed, match="this helper itself has GPUs open"):
            host.do(CleanupStep.GPU_SCRUBBED)
        with pytest.raises(StepFailed, match="this helper itself has GPUs open"):
            host.devices.attach([host.slot], None)
    assert host.bus.driver(CARD) == "nvidia"
    assert host.do(CleanupStep.GPU_SCRUBBED).method == "gpu_reset"
    host.devices.attach([host.slot], None)
    assert host.bus.driver(CARD) == "vfio-pci"
