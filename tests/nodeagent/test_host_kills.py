"""Is a kill of a real host's agent survived before and after each step, in both tasks and shapes?

There is one machine or none, a proof or none, and nothing that is left is out of sight. A few of
the kills are made here; `make campaign-agent` makes two hundred, with QEMU where it is installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nodeagent.host.runtime.process import machines
from nodeagent.protocol import REQUIRED_CLEANUP_STEPS, TaskKind, TaskParams
from tests.nodeagent.guest import QEMU, kernel_tree, write_guest
from tests.nodeagent.host_stage import HostStage, host_stage, until

CAMPAIGN = bool(os.environ.get("CAMPAIGN"))
RUNS = 200 if CAMPAIGN else 12
_SLICE_MADE = ("defining", "attaching", "starting", "booting")
_BARE_MADE = ("defining", "imaging", "starting", "booting")


@dataclass(frozen=True)
class Kill:
    """Where the agent dies: before a step is begun, after it was done, or with its result sent."""

    kind: TaskKind
    step: str
    after: bool

    @property
    def bare(self) -> bool:
        """Whether it is about the whole host."""
        return self.kind in (TaskKind.BAREMETAL_PROVISION, TaskKind.BAREMETAL_RELEASE)

    @property
    def makes(self) -> bool:
        """Whether it is in the making, not in the cleaning."""
        return self.kind in (TaskKind.VM_PROVISION, TaskKind.BAREMETAL_PROVISION)


def every_kill() -> list[Kill]:
    """All places, tasks and shapes mixed, so that a part of the list has something of each."""
    rows = []
    for kind, made in (
        (TaskKind.VM_PROVISION, _SLICE_MADE),
        (TaskKind.BAREMETAL_PROVISION, _BARE_MADE),
        (TaskKind.VM_RELEASE, None),
        (TaskKind.BAREMETAL_RELEASE, None),
    ):
        cleaned = (*(step.value for step in REQUIRED_CLEANUP_STEPS.get(kind, ())), "settling")
        steps = made or cleaned
        row = [Kill(kind, step, after) for step in steps for after in (False, True)]
        rows.append([*row, Kill(kind, "complete", False)])
    longest = max(map(len, rows))
    return [row[place * len(row) // longest] for place in range(longest) for row in rows]


@dataclass
class Watch:
    """Kills the agent from within the control plane, while it waits for an answer."""

    stage: HostStage
    kill: Kill
    task_id: str
    first: int | None = None
    done: bool = False

    def __call__(self, task_id: str, step: str, percent: int) -> None:
        """One heartbeat or result."""
        if self.done or task_id != self.task_id or step != self.kill.step:
            return
        self.first = percent if self.first is None else self.first
        if not self.kill.after or percent > self.first:
            self.done = True
            self.stage.kill_agent()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostStage]:
    """One host for all kills: what one leaves behind is in the way of the next."""
    qemu, image = None, ""
    if CAMPAIGN and QEMU.exists():
        qemu, image = QEMU, write_guest(kernel_tree(), tmp_path_factory.mktemp("image"))
    print(f"machines are {'QEMU' if qemu else 'stood in for by a small process'}")
    with host_stage(qemu=qemu, image=image) as made:
        made.control.poll_ms = 50
        made.start_helper()
        made.start_agent()
        yield made


@pytest.mark.parametrize("number", range(RUNS))
def test_a_kill_leaves_one_machine_or_none_and_a_proof_or_none(
    stage: HostStage, number: int
) -> None:
    places = every_kill()
    kill = places[number % len(places) if CAMPAIGN else number * len(places) // RUNS]
    claim = f"claim-{number}"
    making = TaskKind.BAREMETAL_PROVISION if kill.bare else TaskKind.VM_PROVISION
    ending = TaskKind.BAREMETAL_RELEASE if kill.bare else TaskKind.VM_RELEASE
    made = stage.bare_provision(claim) if kill.bare else stage.provision(0, 1, allocation=claim)
    ended = stage.bare_release(claim) if kill.bare else stage.release(0, 1, allocation=claim)
    make, end = f"make-{number}", f"end-{number}"
    if kill.makes:
        die(stage, kill, make, made)
        comes_back(stage, kill, make, claim)
        if number % 2:
            stage.done(making, made, make, epoch=2)
            assert how_many(stage, claim) == (0 if kill.bare else 1)
        stage.done(ending, ended, end)
    else:
        stage.done(making, made, make)
        die(stage, kill, end, ended)
        comes_back(stage, kill, end, claim)
        stage.done(ending, ended, end, epoch=2)
    proven_and_gone(stage, ending, end, claim)


def die(stage: HostStage, kill: Kill, task_id: str, params: TaskParams) -> None:
    """Let the agent come to the place, and kill it there."""
    watch = Watch(stage, kill, task_id)
    stage.control.watch = watch
    stage.control.add(kill.kind, params, task_id=task_id)
    assert until(lambda: watch.done, 30), f"{kill} was never reached"
    stage.control.watch = None


def comes_back(stage: HostStage, kill: Kill, task_id: str, claim: str) -> None:
    """After the restart the task is answered, and what is left is in the first report."""
    assert how_many(stage, claim) <= 1
    reports = len(stage.control.observed)
    stage.start_agent()
    assert until(lambda: stage.answered(task_id), 30)
    assert until(lambda: len(stage.control.observed) > reports, 30)
    codes = [fail.code for task, fail in stage.control.failed if task == task_id]
    if kill.step == "complete":
        assert stage.completed(task_id)
    else:
        assert codes == ["interrupted"]
        assert not any(done == task_id for done, _ in stage.control.completed)
    report = stage.control.observed[reports]
    seen = {vm.claim_ref for vm in report.vms}
    seen |= {one.claim_ref for one in report.conditions if one.code == "residue_found"}
    if how_many(stage, claim) or stage.traces() or stage.records:
        assert claim in seen
    assert "unknown_vm" not in {one.code for one in report.conditions}


def proven_and_gone(stage: HostStage, kind: TaskKind, task_id: str, claim: str) -> None:
    """A whole proof of every slot, and nothing left of the claim."""
    *_, last = (done for task, done in stage.control.completed if task == task_id)
    required = [step.value for step in REQUIRED_CLEANUP_STEPS[kind]]
    assert all([step.step for step in slot.steps] == required for slot in last.evidence)
    assert all(step.ok for slot in last.evidence for step in slot.steps)
    assert last.evidence
    assert last.evidence_signature
    assert how_many(stage, claim) == 0
    assert stage.records == []
    assert stage.traces() == []


def how_many(stage: HostStage, claim: str) -> int:
    """Machines of a claim on this host."""
    run = str(stage.folder / "run")
    return sum(
        one.name == f"gpuaas-{claim}" and any(run in word for word in one.argv)
        for one in machines(Path("/proc"))
    )
