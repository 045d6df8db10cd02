"""Does what a driver has said of a GPU stand for as long as it cannot be asked again?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nodeagent.host.config import HostConfig
from nodeagent.host.discovery import gpus
from nodeagent.host.nvml import Nvml
from nodeagent.host.wiring import OwnWiring
from nodeagent.protocol import Presence, TopologyReport
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.test_slow_driver import ended
from tests.nodeagent.host_facts.trees import TreeBuilder

RECOVERY, REMAPPED = "gpu.0.field.230", "gpu.1.remapped"
TROUBLE = {RECOVERY: "1 1", REMAPPED: "0 1 0 1"}
WELL = {RECOVERY: "1 0", REMAPPED: "0 0 0 0"}
SAID = [("gpu_recovery_required", uuid_of(0)), ("gpu_row_remap_failed", uuid_of(1))]
pytestmark = pytest.mark.gcc


def told(wiring: OwnWiring, report: TopologyReport) -> list[tuple[str, str | None]]:
    """What is wrong by a look now: codes and devices."""
    return sorted((one.code, one.device) for one in wiring.look(report).conditions)


@pytest.fixture
def wiring(host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> OwnWiring:
    """An agent's look at a host both of whose GPUs need somebody."""
    fake.change(TROUBLE)
    settings = SimpleNamespace(
        root=host.root, name="host-1", keep=frozenset(), virtual_functions=False
    )
    return OwnWiring(cast(HostConfig, settings), nvml, tmp_path / "agent", True, None)


def test_a_gpu_stays_unwell_while_the_driver_is_let_go_of_for_another(
    wiring: OwnWiring, fake: FakeNvml, nvml: Nvml
) -> None:
    report = wiring.read()
    assert told(wiring, report) == SAID
    with nvml.released():
        fake.change(WELL)
        for _ in range(2):
            sight = wiring.look(report)
            assert {one.presence for one in sight.devices.gpus} == {Presence.PRESENT}
            assert sorted((one.code, one.device) for one in sight.conditions) == SAID
    # Only the driver takes it back.
    assert told(wiring, report) == []


def test_a_gpu_stays_unwell_while_a_call_into_the_driver_hangs(
    wiring: OwnWiring, fake: FakeNvml, nvml: Nvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = wiring.read()
    assert told(wiring, report) == SAID
    monkeypatch.setattr(gpus, "_LOOK_CALL_S", 0.2)
    fake.change({"sleep.0.nvmlDeviceGetName": "1000"})
    assert told(wiring, report) == [("driver_hangs", None), *SAID]
    fake.change({"sleep.0.nvmlDeviceGetName": None, **WELL})
    ended(nvml)
    # What came too late is the next look's answer, and may still be of before.
    wiring.look(report)
    assert told(wiring, report) == []


def test_a_gpu_stays_unwell_where_the_driver_does_not_answer_this_one_question(
    wiring: OwnWiring, fake: FakeNvml
) -> None:
    report = wiring.read()
    assert told(wiring, report) == SAID
    fake.change({RECOVERY: "9 1"})
    assert told(wiring, report) == SAID
    fake.change(WELL)
    assert told(wiring, report) == []


def test_nothing_is_held_against_a_gpu_that_was_well_or_has_no_driver_any_more(
    wiring: OwnWiring, fake: FakeNvml, nvml: Nvml
) -> None:
    report = wiring.read()
    assert told(wiring, report) == SAID
    # Its driver was taken out: every GPU goes to machines, and nobody could ever take it back.
    fake.change({"error.nvmlInitWithFlags": "9"})
    assert told(wiring, report) == []
    fake.change({"error.nvmlInitWithFlags": None, **WELL})
    assert told(wiring, report) == []
    with nvml.released():
        assert told(wiring, report) == []
