"""Does the picture of a node say what its topology file says, and no more?"""

from pathlib import Path
from typing import Any

import pytest

from gpuaas.cli import topology
from gpuaas.cli.output import styled
from nodeagent.topology.load import load_topology_file
from nodeagent.topology.slots import topology_report
from tests.cli.conftest import Run
from tests.cli.fake_server import FakeServer, listing
from tests.topologies import topology_file, topology_files


def report(name: str) -> dict[str, Any]:
    """The report that a node with this hardware sends."""
    answer: dict[str, Any] = topology_report(
        load_topology_file(topology_file(name)), "host-1"
    ).to_json()
    return answer


def drawn(name: str, slots: list[dict[str, Any]] | None = None) -> str:
    """The picture without colours."""
    return "\n".join(styled(line).plain for line in topology.draw(report(name), slots or []))


def test_each_gpu_stands_beside_the_nic_under_its_switch() -> None:
    lines = drawn("azure-ndv5-topo.xml").splitlines()
    assert lines[0].startswith("host-1  2 NUMA · 8 GPU · 8 NIC · NVMe unknown · 8 slots")
    first = next(n for n, line in enumerate(lines) if "GPU 0 " in line)
    assert "switch" in lines[first - 1]
    assert "NIC 0101:00:00.0" in lines[first + 1]
    assert "exclusive to slot 0" in lines[first + 1]


def test_a_shared_nic_is_drawn_as_shared() -> None:
    picture = drawn("aws-p4d-24xl-topo.xml")
    assert picture.count("shared by slots") == 4
    assert "exclusive" not in picture
    assert "shared by slots 6,7" in picture


def test_unknown_is_written_and_zero_is_not() -> None:
    picture = drawn("hwloc-nvidiaDGX2.xml")
    assert "16 GPU · NIC unknown · NVMe unknown · 16 slots" in picture
    assert "0 NIC" not in picture
    assert "GPU-d3977428-7a30-086b-2e20-5c1eeed647c6" in picture
    assert "memory unknown" in picture
    assert "NVSwitch  12 devices" in picture
    assert "GPU 0-15 - NVSwitch" in picture


def test_findings_are_listed_with_their_device() -> None:
    picture = drawn("azure-ncv4-topo.xml")
    assert "used by no slot" in picture
    assert "nvlink_self  0001:00:00.0:" in picture


@pytest.mark.parametrize("path", topology_files(), ids=lambda path: path.stem)
def test_every_device_of_every_file_is_drawn_once(path: Path) -> None:
    found = report(path.name)
    lines = drawn(path.name).splitlines()
    trees = [line.lstrip("│ ") for line in lines if line.lstrip("│ ").startswith(("├─", "└─"))]
    assert sum(line[3:].startswith("GPU ") for line in trees) == len(found["gpus"])
    assert sum(line[3:].startswith("NIC ") for line in trees) == len(found["nics"])


def test_the_inventorys_slot_states_outrank_the_report(run: Run, server: FakeServer) -> None:
    server.on("GET", "/nodes/n1/topology", report("azure-ncv4-topo.xml"))
    slots = [
        {"index": index, "state": state, "display_state": shown}
        for index, (state, shown) in enumerate(
            [("approved", "free"), ("approved", "in_use"), ("blocked", None), ("approved", "free")]
        )
    ]
    server.on("GET", "/nodes/n1/slots", listing(*slots))
    result = run("node", "topology", "n1")
    assert result.exit_code == 0
    assert "4 slots (2 free, 1 in_use, 1 blocked)" in result.stdout
    assert "[slot 1: in_use]" in result.stdout
    assert "[slot 2: blocked]" in result.stdout


def test_as_json_the_report_is_printed_whole(run: Run, server: FakeServer) -> None:
    server.on("GET", "/nodes/n1/topology", report("azure-ncv4-topo.xml"))
    assert '"findings"' in run("node", "topology", "n1", "-o", "json").stdout
