"""Is a real host safe with a full disk, a lost lease, a strange machine, or a dead helper?"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.host.records import Records
from nodeagent.journal import Entry, Journal
from nodeagent.protocol import TaskKind
from tests.nodeagent.host_stage import HostStage, host_stage, until


@pytest.fixture
def stage() -> Iterator[HostStage]:
    """A host with small stand-in machines, its two halves running."""
    with host_stage() as made:
        made.control.poll_ms = 50
        made.start_helper()
        made.start_agent()
        yield made


def test_a_full_disk_begins_nothing_and_the_host_is_still_heard(stage: HostStage) -> None:
    assert until(lambda: bool(stage.control.observed))
    assert stage.agent is not None
    resource.prlimit(stage.agent.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    queued = stage.control.add(TaskKind.VM_PROVISION, stage.provision(0), task_id="make")
    assert until(lambda: queued.leases_left == 0)
    seen = len(stage.control.order)
    assert until(lambda: len(stage.control.order) > seen + 2)
    assert stage.records == []
    assert stage.machine("alloc-1") is None
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(stage.agent.pid, resource.RLIMIT_FSIZE, unlimited)
    queued.leases_left = 1
    assert until(lambda: stage.completed("make"), 40)
    assert stage.machine("alloc-1") is not None


def test_a_helper_with_a_full_disk_says_so_and_leaves_no_half_record(stage: HostStage) -> None:
    assert until(lambda: bool(stage.control.observed))
    assert stage.helper is not None
    resource.prlimit(stage.helper.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(0), task_id="make")
    assert until(lambda: stage.answered("make"))
    _, fail = stage.control.failed[-1]
    assert (fail.code, fail.retryable) == ("backend_error", True)
    assert stage.records == []
    assert [path.name for path in (stage.folder / "helper" / "tenancies").iterdir()] == []


def test_a_runtime_folder_that_takes_nothing_starts_no_machine_and_is_tried_again(
    stage: HostStage,
) -> None:
    assert until(lambda: bool(stage.control.observed))
    machines = stage.folder / "run" / "machines"
    # A file in the folder's place refuses as a full file system does, and to root too.
    machines.write_text("")
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(0), task_id="make")
    assert until(lambda: stage.answered("make"))
    _, fail = stage.control.failed[-1]
    assert (fail.code, fail.retryable) == ("start_failed", True)
    assert stage.machine("alloc-1") is None
    assert [one.claim for one in stage.records] == ["alloc-1"]
    machines.unlink()
    stage.done(TaskKind.VM_PROVISION, stage.provision(0), "make", epoch=2)
    assert stage.machine("alloc-1") is not None
    stage.done(TaskKind.VM_RELEASE, stage.release(0), "end")
    assert (stage.records, stage.traces()) == ([], [])


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_journal_that_could_not_be_written_keeps_what_comes_after(
    tmp_path: Path, room: int
) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.accept(Entry("a", 1, "kind", None, "boot-id-1"))
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, old[1]))
    try:
        with pytest.raises(OSError, match="large"):
            journal.accept(Entry("b", 1, "kind", None, "boot-id-1"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert journal.entry("b") is None
    journal.accept(Entry("c", 1, "kind", None, "boot-id-1"))
    assert [entry.task_id for entry in Journal(path).unfinished()] == ["a", "c"]


def test_a_late_machine_is_seen_and_only_that_one_is_released(stage: HostStage) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(4, allocation="other"), "other")
    kept = stage.machine("other")
    for _ in range(3):
        stage.control.fail_next("/complete", 409, code="lease_lost")
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(0, 1), task_id="late")
    assert until(lambda: stage.machine("alloc-1") is not None)
    assert until(
        lambda: {vm.claim_ref for vm in stage.control.observed[-1].vms} == {"alloc-1", "other"}
    )
    stage.control.answers.clear()
    stage.control.add(
        TaskKind.VM_PROVISION, stage.provision(1, 2, allocation="next"), task_id="next"
    )
    assert until(lambda: stage.answered("next"))
    assert stage.control.failed[-1][1].code == "device_in_use"
    stage.done(TaskKind.VM_RELEASE, stage.release(0, 1), "orphan")
    assert stage.machine("alloc-1") is None
    assert stage.machine("other") == kept
    assert [one.claim for one in stage.records] == ["other"]
    assert stage.traces() == [4]


def test_a_release_of_more_than_ones_own_touches_nothing(stage: HostStage) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(0, allocation="mine"), "mine")
    stage.done(TaskKind.VM_PROVISION, stage.provision(1, allocation="yours"), "yours")
    before = stage.machine("mine"), stage.machine("yours")
    both = stage.release(0, 1, allocation="mine")
    stage.control.add(TaskKind.VM_RELEASE, both, task_id="both")
    assert until(lambda: stage.answered("both"))
    assert stage.control.failed[-1][1].code == "device_in_use"
    assert (stage.machine("mine"), stage.machine("yours")) == before
    assert stage.traces() == [0, 1]


def test_a_machine_that_nobody_asked_for_is_reported_and_left_alone(stage: HostStage) -> None:
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    socket = f"unix:{stage.folder}/run/machines/stray/qmp.sock"
    stray = subprocess.Popen([*program, "-name", "guest=gpuaas-stray", "-qmp", socket])
    try:
        assert until(
            lambda: (
                bool(stage.control.observed)
                and "unknown_vm" in {one.code for one in stage.control.observed[-1].conditions}
            )
        )
        assert [vm.claim_ref for vm in stage.control.observed[-1].vms] == [None]
        assert stray.poll() is None
    finally:
        stray.kill()
        stray.wait()


def test_without_its_helper_a_host_says_nothing_rather_than_that_nothing_is_there(
    stage: HostStage,
) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(0), "make")
    stage.kill_helper()
    (stage.folder / "run" / "helper.sock").unlink()
    seen = len(stage.control.observed)
    # What was looked at before may still be told; what was not looked at never is.
    assert not until(lambda: any(not one.vms for one in stage.control.observed[seen:]), 2)
    seen = len(stage.control.observed)
    assert not until(lambda: len(stage.control.observed) > seen, 1)
    stage.start_helper()
    assert until(lambda: len(stage.control.observed) > seen, 40)
    assert [vm.claim_ref for vm in stage.control.observed[-1].vms] == ["alloc-1"]


def test_a_helper_killed_in_the_middle_of_a_cleanup_is_repeated_to_a_whole_proof(
    stage: HostStage,
) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(0, 1), "make")
    killed: list[int] = []

    def watch(task_id: str, step: str, percent: int) -> None:
        if step == "gpu_scrubbed" and not killed:
            assert stage.helper is not None
            stage.helper.send_signal(signal.SIGKILL)
            killed.append(percent)

    stage.control.watch = watch
    stage.control.add(TaskKind.VM_RELEASE, stage.release(0, 1), task_id="end")
    assert until(lambda: stage.answered("end"))
    assert stage.control.failed[-1][1].code == "helper_away"
    assert stage.control.failed[-1][1].retryable
    stage.control.watch = None
    stage.start_helper()
    stage.done(TaskKind.VM_RELEASE, stage.release(0, 1), "end", epoch=2)
    assert (stage.records, stage.traces()) == ([], [])


def test_an_incomplete_cleanup_stays_in_sight_and_keeps_the_slot_from_the_next(
    stage: HostStage,
) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(0), "make")
    held = (stage.folder / "helper" / "stand-ins" / "slot-0.img").open("rb")
    with held:
        stage.control.add(TaskKind.VM_RELEASE, stage.release(0), task_id="end")
        assert until(lambda: stage.answered("end"))
        code, detail = stage.control.failed[-1][1].code, stage.control.failed[-1][1].detail
        assert code == "cleanup_failed"
        assert "devices_detached on slot 0: still open in" in detail
        steps = stage.control.failed[-1][1].evidence[0].steps
        assert [(step.step, step.ok) for step in steps] == [
            ("vm_gone", True),
            ("devices_detached", False),
        ]
        assert until(
            lambda: [one.code for one in stage.control.observed[-1].conditions] == ["residue_found"]
        )
        gpus = stage.control.observed[-1].devices.gpus
        assert [gpu.clean for gpu in gpus] == [False, *[True] * 7]
        stage.control.add(
            TaskKind.VM_PROVISION, stage.provision(0, allocation="next"), task_id="next"
        )
        assert until(lambda: stage.answered("next"))
        assert stage.control.failed[-1][1].code == "residue_found"
    stage.done(TaskKind.VM_RELEASE, stage.release(0), "end", epoch=2)
    assert (stage.records, stage.traces()) == ([], [])


def test_after_the_hosts_own_restart_machines_run_again_and_stopped_ones_do_not(
    stage: HostStage,
) -> None:
    stage.done(TaskKind.VM_PROVISION, stage.provision(0, allocation="ran"), "ran")
    stage.kill_agent()
    stage.kill_helper()
    was = stage.machine("ran")
    assert was is not None
    os.kill(was.pid, signal.SIGKILL)
    assert until(lambda: stage.machine("ran") is None)
    records = Records(stage.folder / "helper" / "tenancies")
    (ran,) = records.all()
    records.put(replace(ran, boot="the-boot-before"))
    records.put(
        replace(ran, claim="never", slots=stage.slots(1), boot="the-boot-before", started=False)
    )
    stage.start_helper()
    stage.start_agent()
    assert until(lambda: stage.states() == {"ran": "running", "never": "defined"})
    assert stage.machine("ran") not in (None, was)
    assert stage.machine("never") is None
