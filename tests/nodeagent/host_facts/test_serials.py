"""Is a card that was swapped while no driver could name it known by its serial number?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from nodeagent.host.discovery import (
    DeviceSight,
    GpuMemory,
    RootSight,
    discover,
    observe_devices,
    see_as_root,
)
from nodeagent.host.facts import absent, present, unknown
from nodeagent.host.helper.wire import SeenSerial, Survey
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import Condition, Presence, TopologyReport, UuidSource
from placement.domain.identity import BLOCK, SeenGpu, SlotIdentity, differences
from tests.nodeagent.host_facts.conftest import PCI
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.test_discovery import fact, report_of
from tests.nodeagent.host_facts.trees import TreeBuilder, chained, config_space

OLD, NEW = 0xABC001, 0xDEF001
NOBODY = RootSight(unreadable="the helper does not answer")
pytestmark = pytest.mark.gcc


@dataclass
class Eyes:
    """An agent without rights on a host, and somebody who tells it what root sees."""

    host: TreeBuilder
    fake: FakeNvml
    nvml: Nvml
    folder: Path
    told: RootSight = NOBODY

    def boots(self, second: bytes, *, held: bool) -> None:
        """The host was off. second: its second card's configuration; held: by VFIO from now on."""
        config = self.host.paths[PCI[1]] / "config"
        config.write_bytes(second)
        self.told = see_as_root(self.host.root)
        # Whoever is not root is shown the first 64 bytes.
        for place in PCI:
            (self.host.paths[place] / "config").write_bytes(bytes(64))
        self.host.rebind(PCI[1], "vfio-pci" if held else "nvidia")
        self.fake.change({"count": "1" if held else "2"})

    @property
    def memory(self) -> GpuMemory:
        """Of an agent that has just been started."""
        return GpuMemory(self.folder / "gpus.json")

    def read(self) -> TopologyReport:
        """A discovery, as the control plane reads it."""
        return report_of(discover(self.host.root, self.nvml, self.memory, lambda: self.told))

    def look(self, report: TopologyReport, before: Sequence[Condition] = ()) -> DeviceSight:
        """A look at what is known, perhaps after one that has found something."""
        return observe_devices(
            report, self.host.root, self.nvml, self.memory, lambda: self.told, before
        )


@pytest.fixture
def eyes(host: TreeBuilder, fake: FakeNvml, nvml: Nvml, tmp_path: Path) -> Eyes:
    """Two cards that their driver has named."""
    made = Eyes(host, fake, nvml, tmp_path)
    made.boots(config_space(OLD), held=False)
    return made


def test_a_card_swapped_for_one_of_its_model_while_vfio_holds_it_is_nobodys_and_named(
    eyes: Eyes,
) -> None:
    before = eyes.read()
    assert fact(before, PCI[1], "device_serial").value == f"{OLD:016x}"
    eyes.boots(config_space(NEW), held=True)
    # What was known before the boot is looked at as well: a look may come first.
    (condition,) = eyes.look(before).conditions
    assert (condition.code, condition.device) == ("gpu_serial_changed", uuid_of(1))
    assert f"serial number {NEW:016x}, before {OLD:016x} ({uuid_of(1)})" in condition.detail
    report = eyes.read()
    assert (report.gpus[1].uuid, report.gpus[1].uuid_source) == (None, UuidSource.UNKNOWN)
    found = {one.code: one.device for one in report.findings}
    assert found["gpu_serial_changed"] == PCI[1]
    assert [one.code for one in eyes.look(report).conditions] == ["gpu_serial_changed"]
    approved = [SlotIdentity(g.index, g.uuid or "", g.pci or "") for g in before.gpus]
    seen = [SeenGpu(g.uuid or "", g.pci or "") for g in report.gpus]
    blocked = [(one.slot_index, one.code) for one in differences(approved, seen)]
    assert blocked == [(1, "uuid_unknown")]
    assert {one.outcome for one in differences(approved, seen)} == {BLOCK}
    # Its driver names it at the hand-over: then it is known as another, and nothing is in doubt.
    eyes.boots(config_space(NEW), held=False)
    eyes.fake.change({"gpu.1.uuid": uuid_of(7)})
    report = eyes.read()
    assert report.gpus[1].uuid == uuid_of(7)
    assert eyes.look(report).conditions == ()


@pytest.mark.parametrize(
    ("now", "root_tells"),
    [
        pytest.param(config_space(OLD), True, id="the same card"),
        pytest.param(config_space(NEW), False, id="nobody who could read it"),
        pytest.param(bytes([0xFF]) * 4096, True, id="a card that does not answer"),
        pytest.param(chained((0x100, 0x14010001), (0x140, 0x10010002)), True, id="a circle"),
        pytest.param(chained((0x100, 0x04010001)), True, id="a pointer before the first"),
        pytest.param(chained((0x100, 0xFFC10001)), True, id="a pointer to where nothing fits"),
        pytest.param(chained((0x100, 0x14010001)), True, id="a pointer to nothing"),
        pytest.param(
            chained((0x100, 0x14010001), (0x140, 0xFFFFFFFF)), True, id="no answer on the way"
        ),
        pytest.param(config_space(NEW)[:0x108], True, id="a file that ends too soon"),
    ],
)
def test_a_serial_number_that_is_not_known_to_be_another_leaves_what_was_remembered(
    eyes: Eyes, now: bytes, root_tells: bool
) -> None:
    eyes.read()
    eyes.boots(now, held=True)
    eyes.told = eyes.told if root_tells else NOBODY
    report = eyes.read()
    assert (report.gpus[1].uuid, report.gpus[1].uuid_source) == (uuid_of(1), UuidSource.REMEMBERED)
    sight = eyes.look(report)
    assert [one.presence for one in sight.devices.gpus] == [Presence.PRESENT] * 2
    assert sight.conditions == ()


def test_a_card_that_was_found_to_be_another_stays_so_while_nobody_reads_its_serial_number(
    eyes: Eyes,
) -> None:
    before = eyes.read()
    eyes.boots(config_space(NEW), held=True)
    first = eyes.look(before)
    told, eyes.told = eyes.told, NOBODY
    second = eyes.look(before, first.conditions)
    assert second == first
    assert [one.presence for one in second.devices.gpus] == [Presence.PRESENT, Presence.UNKNOWN]
    assert [one.code for one in second.conditions] == ["gpu_serial_changed"]
    # The card of before was put back, and somebody reads it.
    eyes.boots(config_space(OLD), held=True)
    assert eyes.told != told
    assert eyes.look(before, second.conditions).conditions == ()


@pytest.mark.parametrize(
    "space",
    [
        pytest.param(bytes(4096), id="no capability"),
        # The pointer's lowest bits are reserved, and may be anything.
        pytest.param(chained((0x100, 0x14310001), (0x140, 0x00010002)), id="others, to the end"),
    ],
)
def test_a_card_that_has_no_serial_number_where_one_was_is_another(
    eyes: Eyes, space: bytes
) -> None:
    eyes.read()
    eyes.boots(space, held=True)
    report = eyes.read()
    assert report.gpus[1].uuid is None
    assert "serial number none, before" in eyes.look(report).conditions[0].detail


def test_a_card_that_was_remembered_without_a_serial_number_is_taken_as_before(eyes: Eyes) -> None:
    told, eyes.told = eyes.told, NOBODY
    eyes.read()
    eyes.boots(config_space(NEW), held=True)
    assert eyes.read().gpus[1].uuid == uuid_of(1)
    # A serial number that was once read is not forgotten while nobody tells it.
    eyes.boots(config_space(OLD), held=False)
    eyes.told = told
    eyes.read()
    eyes.told = NOBODY
    eyes.read()
    eyes.boots(config_space(NEW), held=True)
    assert eyes.read().gpus[1].uuid is None


def test_what_root_has_read_is_carried_whole() -> None:
    facts = {PCI[0]: present("0abc"), PCI[1]: absent("not_supported"), "x:1": unknown("no_answer")}
    told = Survey((), (), "", tuple(SeenSerial.of(*one) for one in facts.items()))
    back = Survey.from_json(told.to_json())
    assert {one.pci: one.fact() for one in back.serials} == facts
