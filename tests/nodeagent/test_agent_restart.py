"""Is a kill at any moment survived: nothing resumed, nothing done twice, nothing forgotten?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodeagent.journal import Entry, Journal, Outcome
from nodeagent.protocol import TaskKind
from nodeagent.simhost.agent import SimAgent
from tests.nodeagent.clock import FakeClock
from tests.nodeagent.conftest import Bench


class DyingClock(FakeClock):
    """Ends the process at one of its waits, as a kill would: nothing is put in order."""

    def __init__(self, clock: FakeClock, waits: int) -> None:
        super().__init__(clock.time)
        self.waits = waits

    async def sleep(self, seconds: float) -> None:
        """Wait, or die."""
        self.waits -= 1
        if self.waits < 0:
            raise SystemExit(137)
        await super().sleep(seconds)


def kill_in_step(bench: Bench, step: int) -> None:
    """Run the agent until it waits for the given step of its work, and kill it there."""
    alive = bench.clock
    bench.clock = DyingClock(alive, step)
    with pytest.raises(SystemExit):
        bench.rounds(3)
    bench.clock = alive


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("bare", [False, True], ids=["slice", "baremetal"])
def test_a_kill_in_each_step_of_provisioning_is_reported_and_can_be_repeated(
    bench: Bench, step: int, bare: bool
) -> None:
    kind = TaskKind.BAREMETAL_PROVISION if bare else TaskKind.VM_PROVISION
    params = bench.bare_provision() if bare else bench.provision(0, 1)
    bench.control.add(kind, params)
    kill_in_step(bench, step)
    before = len(bench.control.order)
    bench.rounds(1)
    assert bench.control.order[before : before + 2] == ["observed", "fail"]
    assert [fail.code for _, fail in bench.control.failed] == ["interrupted"]
    assert bench.control.failed[0][1].retryable
    assert bench.control.completed == []
    bench.control.add(kind, params, epoch=2)
    bench.rounds()
    assert len(bench.control.completed) == 1
    assert len(bench.backend.store.state.vms) == 1


@pytest.mark.parametrize("step", range(7))
@pytest.mark.parametrize("bare", [False, True], ids=["slice", "baremetal"])
def test_a_kill_in_each_step_of_a_cleanup_leaves_no_false_proof(
    bench: Bench, step: int, bare: bool
) -> None:
    kind = TaskKind.BAREMETAL_RELEASE if bare else TaskKind.VM_RELEASE
    params = bench.bare_release() if bare else bench.release(0)
    if bare:
        bench.control.add(TaskKind.BAREMETAL_PROVISION, bench.bare_provision())
    else:
        bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds()
    bench.control.add(kind, params, task_id="task-2")
    kill_in_step(bench, step)
    bench.rounds(1)
    assert [fail.code for _, fail in bench.control.failed] == ["interrupted"]
    assert [task for task, _ in bench.control.completed] == ["task-1"]
    bench.control.add(kind, params, task_id="task-2", epoch=2)
    bench.rounds()
    assert [task for task, _ in bench.control.completed] == ["task-1", "task-2"]
    assert bench.backend.store.state.canaries == {}


def test_a_kill_between_result_and_reply_sends_the_same_result(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    for _ in range(2):
        bench.control.fail_next("/complete", 503)
    bench.rounds(1)
    assert bench.control.completed == []
    bench.rounds(2)
    assert len(bench.control.completed) == 1
    assert bench.control.failed == []


def test_stopping_the_agent_drops_its_work_like_a_kill(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))

    async def story(agent: SimAgent) -> None:
        stop = asyncio.Event()
        await agent.step()
        stop.set()
        await agent.run(stop)

    bench.run(story)
    bench.rounds(1)
    assert [fail.code for _, fail in bench.control.failed] == ["interrupted"]


def _entry(task_id: str, epoch: int = 1) -> Entry:
    return Entry(task_id, epoch, "slice.vm_provision", "alloc-1", "boot-id-1")


def test_a_journal_gives_back_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.accept(_entry("a"))
    journal.accept(_entry("b"))
    journal.finish("b", Outcome("complete", {"x": 1}))
    journal.mark_released("alloc-9")
    again = Journal(tmp_path / "journal")
    assert [entry.task_id for entry in again.unfinished()] == ["a"]
    assert [entry.outcome for entry in again.undelivered()] == [Outcome("complete", {"x": 1})]
    assert again.released("alloc-9")


@pytest.mark.parametrize("cut", range(2, 60, 7))
def test_a_torn_last_line_of_a_journal_is_ignored(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.accept(_entry("a"))
    journal.accept(_entry("b"))
    path.write_bytes(path.read_bytes()[:-cut])
    again = Journal(path)
    assert [entry.task_id for entry in again.unfinished()] == ["a"]
    again.accept(_entry("c"))
    assert [entry.task_id for entry in Journal(path).unfinished()] == ["a", "c"]


def test_a_journal_does_not_grow_without_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    open_task = _entry("open")
    journal.accept(open_task)
    for number in range(400):
        journal.accept(_entry(f"task-{number}"))
        journal.finish(f"task-{number}", Outcome("complete", {"pad": "x" * 3000}))
        journal.acknowledge(f"task-{number}")
    assert path.stat().st_size < 700_000
    assert [entry.task_id for entry in Journal(path).unfinished()] == ["open"]
