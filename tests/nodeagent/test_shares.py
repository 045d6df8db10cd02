"""Is a task's share of a NUMA node one that this host has itself counted to the GPU?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.helper.bounds import refuse_others_cpus
from nodeagent.host.records import Tenancy
from nodeagent.protocol import SlotDevices, TopologyReport
from nodeagent.shares import Shares
from nodeagent.simhost.cards import with_cards
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.slots import topology_report
from tests.topologies import topology_file

UUID = "GPU-1"


def report(*gone: int) -> TopologyReport:
    """A host of eight cards, four a NUMA node, without some of them."""
    plain = load_topology_file(topology_file("azure-ndv5-topo.xml"))
    named = tuple(replace(gpu, uuid=f"GPU-{gpu.index}") for gpu in plain.gpus)
    tree = replace(plain, gpus=named)
    return topology_report(with_cards(tree, {str(one): None for one in gone}, {}), "h1")


def cpus(told: TopologyReport) -> str:
    """What the report counts to the second card."""
    [found] = [slot.cpuset for slot in told.slots if slot.gpu_uuid == UUID]
    assert found is not None
    return found


def test_what_was_counted_before_another_card_went_still_counts_after_a_restart(
    tmp_path: Path,
) -> None:
    full, fewer = report(), report(3)
    assert cpus(full) != cpus(fewer)
    shares = Shares(tmp_path / "shares.json")
    shares.learn(full)
    assert shares.problem(UUID, 0, cpus(fewer), None) == "names CPUs that are not its own"
    shares.learn(fewer)
    for known in (shares, Shares(tmp_path / "shares.json")):
        assert known.problem(UUID, 0, cpus(full), None) == ""
        assert known.problem(UUID, 0, cpus(fewer), None) == ""
        assert known.problem(UUID, 1, cpus(full), None) == "names CPUs that are not its own"
        assert known.problem(UUID, 0, "0-95", None) == "names CPUs that are not its own"
        assert known.problem("GPU-else", 0, cpus(full), None) == "names CPUs that are not its own"


def test_a_damaged_memory_leaves_the_present_division(tmp_path: Path) -> None:
    path = tmp_path / "shares.json"
    path.write_text('{"GPU-1": 7}')
    shares = Shares(path)
    shares.learn(report())
    assert shares.problem(UUID, 0, cpus(report()), None) == ""
    assert shares.problem(UUID, 0, cpus(report(3)), None) != ""


def test_only_the_newest_divisions_of_a_card_are_kept(tmp_path: Path) -> None:
    shares = Shares(tmp_path / "shares.json")
    plain = report()
    for size in range(1, 41):
        slot = replace(plain.slots[0], gpu_uuid=UUID, cpuset=f"0-{size}")
        shares.learn(replace(plain, slots=(slot,)))
    assert shares.problem(UUID, 0, "0-40", None) == ""
    shares = Shares(tmp_path / "shares.json")
    assert shares.problem(UUID, 0, "0-40", None) == ""
    assert (tmp_path / "shares.json").read_text().count('"0-') == 16


def test_no_machine_gets_a_cpu_that_another_claims_machine_has() -> None:
    def slot(index: int, cpuset: str) -> SlotDevices:
        return SlotDevices(index, f"GPU-{index}", cpuset=cpuset)

    held = Tenancy("other", "slice", "small", "t", "u", (), (slot(0, "0-11"),), "boot", 0)
    refuse_others_cpus("mine", (slot(1, "12-23"),), [held])
    refuse_others_cpus("other", (slot(1, "11-22"),), [held])
    refuse_others_cpus("mine", (slot(1, "11-22"),), [replace(held, present=False)])
    with pytest.raises(BackendError, match="a CPU has another machine"):
        refuse_others_cpus("mine", (slot(1, "11-22"),), [held])
