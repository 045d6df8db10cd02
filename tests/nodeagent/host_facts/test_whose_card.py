"""Whatever hands, drivers and power cuts do to a host: is a card ever called by another's name?

A host of four cards is changed at random, several things at once between two looks: cards change
places, are replaced, pulled and put back, go to machines and come back, are lost, forget their
name; the host boots and is renamed, the agent is started anew. What the discovery then says is held
against what is really in the host, and against what was approved.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nodeagent.host.discovery import GpuMemory, discover, observe_devices
from nodeagent.host.nvml import Nvml
from nodeagent.protocol import Presence, TopologyReport, UuidSource
from nodeagent.topology.slots import topology_report
from placement.domain.identity import (
    BLOCK,
    SeenGpu,
    SlotIdentity,
    differences,
    host_differences,
)
from tests.nodeagent.host_facts import trees
from tests.nodeagent.host_facts.fake import FakeNvml, uuid_of
from tests.nodeagent.host_facts.trees import TreeBuilder, config_space

PLACES = tuple(f"0000:{0x1A + number:02x}:00.0" for number in range(4))


@dataclass(frozen=True)
class Card:
    """One card as it is, wherever it is put."""

    number: int

    @property
    def uuid(self) -> str:
        """Its name."""
        return uuid_of(self.number)


@dataclass
class Rack:
    """A host's truth, and the files and the driver that tell of it."""

    tree: TreeBuilder
    fake: FakeNvml
    folder: Path
    chance: random.Random
    seats: dict[str, Card | None] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    silent: dict[str, str] = field(default_factory=dict)
    boot: int = 1
    hostname: str = "host-1"
    made: int = 4

    def change(self) -> None:
        """One accident."""
        place, other = self.chance.sample(PLACES, 2)
        match self.chance.choice(
            ("seats", "replace", "pull", "give", "take", "lose", "blank", "heal", "boot", "name")
        ):
            case "seats":
                self.seats[place], self.seats[other] = self.seats[other], self.seats[place]
                self._powered_off(place, other)
            case "replace":
                self.seats[place] = Card(self.made)
                self.made += 1
                self._powered_off(place)
            case "pull":
                self.seats[place] = None
                self._powered_off(place)
            case "give":
                self.held.add(place)
            case "take":
                self.held.discard(place)
            case "lose":
                self.silent[place] = "lost"
            case "blank":
                self.silent[place] = "blank"
            case "heal":
                self.silent.pop(place, None)
            case "boot":
                self._powered_off()
            case "name":
                self.hostname = f"host-{self.chance.randrange(3)}"

    def _powered_off(self, *places: str) -> None:
        """Nobody touches a card of a host that runs. What was handed over is handed over again."""
        self.boot += 1
        for place in places:
            self.silent.pop(place, None)

    def look(self, nvml: Nvml) -> TopologyReport:
        """A discovery by an agent that has just been started."""
        lines: dict[str, str | None] = {}
        number = 0
        for place in PLACES:
            card = self.seats[place]
            path = self.tree.root / f"sys/bus/pci/devices/{place}"
            path.unlink(missing_ok=True)
            if card is None:
                continue
            self.tree.link(f"sys/bus/pci/devices/{place}", self.tree.paths[place])
            (self.tree.paths[place] / "config").write_bytes(config_space(0xABC000 + card.number))
            self.tree.rebind(place, "vfio-pci" if place in self.held else "nvidia")
            if place in self.held:
                continue
            blank = self.silent.get(place) == "blank"
            lines[f"gpu.{number}.uuid"] = "N/A" if blank else card.uuid
            lines[f"gpu.{number}.pci"] = f"0000{place}".upper()
            if self.silent.get(place) == "lost":
                lines[f"error.{number}.nvmlDeviceGetHandleByIndex_v2"] = "15"
            number += 1
        self.fake.play(gpus=number).change(lines)
        memory = GpuMemory(self.folder / "gpus.json")
        report = topology_report(discover(self.tree.root, nvml, memory), self.hostname)
        return TopologyReport.from_json(report.to_json())


@pytest.fixture
def rack(tmp_path: Path, fake: FakeNvml) -> Rack:
    """Four cards, as they were approved."""
    tree = TreeBuilder(tmp_path / "root")
    tree.numa(0, "0-31")
    for place in PLACES:
        tree.device(place, trees.GPU, trees.NVIDIA, driver="nvidia", group=PLACES.index(place))
    seats: dict[str, Card | None] = {place: Card(n) for n, place in enumerate(PLACES)}
    return Rack(tree, fake, tmp_path, random.Random(0), seats)


@pytest.mark.gcc
@pytest.mark.parametrize("seed", range(24))
def test_no_card_is_ever_called_by_anothers_name(rack: Rack, nvml: Nvml, seed: int) -> None:
    rack.chance = random.Random(seed)
    first = rack.look(nvml)
    approved = [SlotIdentity(g.index, g.uuid or "", g.pci or "", {}) for g in first.gpus]
    assert [slot.uuid for slot in approved] == [uuid_of(n) for n in range(4)]
    for _ in range(6):
        boot, name = rack.boot, rack.hostname
        for _ in range(rack.chance.randrange(1, 5)):
            rack.change()
        report = rack.look(nvml)
        really = {place: card.uuid for place, card in rack.seats.items() if card is not None}
        _nobody_is_misnamed(report, really)
        _each_slot_is_vouched_for_or_blocked(approved, report, set(really.values()))
        said = host_differences(
            hostname=report.hostname,
            was_hostname=name,
            boot=str(rack.boot),
            was_boot=str(boot),
        )
        assert ("new_boot" in {one.code for one in said}) is (rack.boot != boot)
        assert ("host_renamed" in {one.code for one in said}) is (rack.hostname != name)
        _a_look_agrees(report, rack, nvml, really)


def _nobody_is_misnamed(report: TopologyReport, really: dict[str, str]) -> None:
    names = [gpu.uuid for gpu in report.gpus if gpu.uuid is not None]
    assert len(names) == len(set(names))
    assert {gpu.pci for gpu in report.gpus} == set(really)
    for gpu in report.gpus:
        assert gpu.uuid in (None, really[gpu.pci or ""]), gpu
        assert (gpu.uuid is None) == (gpu.uuid_source is UuidSource.UNKNOWN)


def _each_slot_is_vouched_for_or_blocked(
    approved: list[SlotIdentity], report: TopologyReport, there: set[str]
) -> None:
    seen = [SeenGpu(gpu.uuid or "", gpu.pci or "") for gpu in report.gpus]
    found = differences(approved, seen)
    told = {gpu.uuid for gpu in seen}
    for slot in approved:
        blocks = [one for one in found if one.slot_index == slot.index and one.outcome == BLOCK]
        assert bool(blocks) is (slot.uuid not in told)
        # What is not in the host can never be sold.
        assert blocks or slot.uuid in there


def _a_look_agrees(report: TopologyReport, rack: Rack, nvml: Nvml, really: dict[str, str]) -> None:
    sight = observe_devices(
        report, rack.tree.root, nvml, GpuMemory(rack.folder / "gpus.json", keeps=False)
    )
    present = {one.id for one in sight.devices.gpus if one.presence is Presence.PRESENT}
    assert present <= set(really.values())
