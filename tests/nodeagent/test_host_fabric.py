"""Are a machine's GPUs joined by the operator's hook before it starts, and parted afterwards?"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.cleanup.stand_in import StandInDevices
from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.config import Hook, HostConfig, Image, NetworkKind, Tools, VmConfig
from nodeagent.host.hooks import Hooks
from nodeagent.host.records import SLICE, Records, Tenancy
from nodeagent.host.runtime.machines import Machines
from nodeagent.host.runtime.owners import Owners
from nodeagent.host.runtime.spec import StandIn
from nodeagent.protocol import TopologyReport
from tests.nodeagent.host_stage import FAKE_XORRISO, KEY
from tests.nodeagent.test_host_spec import given
from tests.nodeagent.test_host_spec import report as report

HOOK = """#!{python} -SE
import json, pathlib, sys
told = json.loads(sys.stdin.read())
place = pathlib.Path(__file__).parent
with open(place / "asked", "a") as asked:
    asked.write(json.dumps(told) + "\\n")
if (place / "refuses").exists():
    sys.exit("no partition has exactly these GPUs")
print(json.dumps({{"method": "partition"}}))
"""


class Stage:
    """Machines on stand-ins with one hook."""

    def __init__(self, folder: Path, report: TopologyReport) -> None:
        self.folder = folder
        for name, body in (
            ("xorriso", FAKE_XORRISO),
            ("fabric", HOOK.format(python=sys.executable)),
        ):
            (folder / name).write_text(body)
            (folder / name).chmod(0o755)
        config = HostConfig(
            server="https://control.example.org",
            name="host-1",
            helper_folder=folder / "helper",
            run_folder=folder / "run",
            vm=VmConfig(emulate=True, network=NetworkKind.LOOPBACK),
            tools=replace(Tools(), xorriso=folder / "xorriso"),
            images={"base": Image("base", user="ubuntu", kernel=folder / "kernel")},
        )
        hooks = Hooks({"fabric": Hook(folder / "fabric", 30.0)})
        devices = StandInDevices(folder / "stand-ins")
        self.machines = Machines(
            config, lambda: report, devices, hooks, Owners(config.vm), accelerated=False
        )
        slots = tuple(given(report, 5, 2))
        self.tenancy = Tenancy("alloc-1", SLICE, "base", "vm-1", "ubuntu", (KEY,), slots, "boot", 0)

    def asked(self) -> list[dict[str, object]]:
        """What the hook was told."""
        path = self.folder / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()]


def unkept(_: Tenancy) -> None:
    """Files stand in for the GPUs: there is none to note."""


def not_again(tenancy: Tenancy) -> None:
    """It was noted before."""
    raise AssertionError(tenancy)


@pytest.fixture
def stage(tmp_path: Path, report: TopologyReport) -> Stage:
    """A host whose GPUs are joined by a hook."""
    return Stage(tmp_path, report)


def test_the_hook_is_asked_for_exactly_a_machines_gpus_and_to_part_them(
    stage: Stage, report: TopologyReport
) -> None:
    stage.machines.prepare(stage.tenancy, unkept)
    stage.machines.end("alloc-1", stage.tenancy)
    gpus = [
        {"uuid": report.gpus[index].uuid, "pci": report.gpus[index].pci, "slot": index}
        for index in (2, 5)
    ]
    assert stage.asked() == [
        {"action": "activate", "claim": "alloc-1", "gpus": gpus},
        {"action": "deactivate", "claim": "alloc-1", "gpus": gpus},
    ]


def test_the_gpus_that_are_about_to_be_bound_are_on_record_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[object] = []
    records = Records(tmp_path / "tenancies")

    def attach(*told: object) -> tuple[StandIn, ...]:
        done.append(told[2])
        done.append(None if (kept := records.get("alloc-1")) is None else kept.given)
        return ()

    gpus = ("0000:1a:00.0",)
    monkeypatch.setattr(StandInDevices, "vet", lambda *_: gpus)
    monkeypatch.setattr(stage.machines._devices, "attach", attach)
    made = stage.machines.prepare(stage.tenancy, records.put)
    assert (done, made.given) == ([gpus, gpus], gpus)
    # Once more, as after a kill: what was noted is told, and nothing is noted anew.
    stage.machines.prepare(made, not_again)
    assert done == [gpus] * 4


def test_a_record_of_before_gpus_were_noted_is_read_and_one_with_an_odd_address_is_not(
    stage: Stage, tmp_path: Path
) -> None:
    records = Records(tmp_path / "tenancies")
    records.put(stage.tenancy)
    path = tmp_path / "tenancies" / "alloc-1.json"
    told = json.loads(path.read_text())
    del told["given"]
    path.write_text(json.dumps(told))
    assert records.get("alloc-1") == stage.tenancy
    path.write_text(json.dumps(told | {"given": ["../.."]}))
    assert records.get("alloc-1") is None
    assert [one.claim for one in records.damaged()] == ["alloc-1"]


def test_where_no_partition_fits_nothing_is_made(stage: Stage) -> None:
    (stage.folder / "refuses").touch()
    with pytest.raises(BackendError, match="no partition has exactly these GPUs"):
        stage.machines.prepare(stage.tenancy, unkept)
    assert not (stage.folder / "helper" / "machines" / "alloc-1" / "seed.iso").exists()


def test_a_partition_that_does_not_end_keeps_the_proof_away(stage: Stage) -> None:
    stage.machines.prepare(stage.tenancy, unkept)
    (stage.folder / "refuses").touch()
    with pytest.raises(StepFailed, match="fabric was not taken back"):
        stage.machines.end("alloc-1", stage.tenancy)
    (stage.folder / "refuses").unlink()
    assert "its disks are deleted" in stage.machines.end("alloc-1", stage.tenancy).detail
