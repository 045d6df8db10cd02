"""Does a simulated host show each fault of its menu, in both shapes, and then come right again?"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nodeagent.protocol import (
    REQUIRED_CLEANUP_STEPS,
    CompleteRequest,
    DiscoverParams,
    TaskKind,
    TaskParams,
)
from nodeagent.simhost.__main__ import main as simhost
from nodeagent.simhost.agent import SimAgent
from nodeagent.simhost.faults import FaultError, FaultMenu, Faults, set_fault
from tests.nodeagent.conftest import Bench


@dataclass(frozen=True)
class Shape:
    """One way of giving capacity to a tenant."""

    provision: TaskKind
    release: TaskKind

    def making(self, bench: Bench, allocation: str = "alloc-1") -> TaskParams:
        """Parameters that make it."""
        if self.provision is TaskKind.BAREMETAL_PROVISION:
            return bench.bare_provision(allocation)
        return bench.provision(0, 1, allocation=allocation)

    def ending(self, bench: Bench, allocation: str = "alloc-1") -> TaskParams:
        """Parameters that end it."""
        if self.provision is TaskKind.BAREMETAL_PROVISION:
            return bench.bare_release(allocation)
        return bench.release(0, 1, allocation=allocation)

    def lease(self, bench: Bench) -> None:
        """Give it to the first tenant."""
        bench.control.add(self.provision, self.making(bench))
        bench.rounds()
        assert [task for task, _ in bench.control.completed] == ["task-1"]

    def end(self, bench: Bench, task_id: str = "task-2") -> CompleteRequest:
        """Take it back; the result."""
        bench.control.add(self.release, self.ending(bench), task_id=task_id)
        bench.rounds()
        task, done = bench.control.completed[-1]
        assert task == task_id
        return done


SLICE = Shape(TaskKind.VM_PROVISION, TaskKind.VM_RELEASE)
BARE = Shape(TaskKind.BAREMETAL_PROVISION, TaskKind.BAREMETAL_RELEASE)
both_shapes = pytest.mark.parametrize("shape", [SLICE, BARE], ids=["slice", "baremetal"])


def steps_of(done: CompleteRequest) -> set[str]:
    """Steps that are ok in every slot."""
    per_slot = [{step.step for step in slot.steps if step.ok} for slot in done.evidence]
    return set.intersection(*per_slot)


def conditions(bench: Bench) -> list[str]:
    """Codes in the newest report."""
    return sorted({condition.code for condition in bench.control.observed[-1].conditions})


@both_shapes
def test_a_slow_host_keeps_its_lease_alive(bench: Bench, shape: Shape) -> None:
    bench.backend.menu.set("slow_s", "30")
    begin = bench.clock.time
    shape.lease(bench)
    assert bench.clock.time - begin > 100
    assert len(bench.control.beats) > 50
    percents = [beat.percent for _, beat in bench.control.beats]
    assert percents == sorted(percents)


@both_shapes
def test_a_task_fails_once_and_then_succeeds(bench: Bench, shape: Shape) -> None:
    bench.backend.menu.set("fail_once", f"{shape.provision.value},{shape.release.value}")
    bench.control.add(shape.provision, shape.making(bench))
    bench.rounds()
    assert [(fail.code, fail.retryable) for _, fail in bench.control.failed] == [
        ("backend_error", True)
    ]
    bench.control.add(shape.provision, shape.making(bench), epoch=2)
    bench.rounds()
    bench.control.add(shape.release, shape.ending(bench), task_id="task-2")
    bench.rounds()
    code, evidence = bench.control.failed[-1][1].code, bench.control.failed[-1][1].evidence
    assert code == "cleanup_failed"
    assert {step.step for step in evidence[0].steps} == {"vm_gone", "devices_detached"}
    assert steps_of(shape.end(bench, "task-3")) == set(REQUIRED_CLEANUP_STEPS[shape.release])


def test_a_discovery_fails_once(bench: Bench) -> None:
    bench.backend.menu.set("fail_once", TaskKind.DISCOVER.value)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds()
    bench.control.add(TaskKind.DISCOVER, DiscoverParams(), epoch=2)
    bench.rounds()
    assert len(bench.control.failed) == len(bench.control.completed) == 1


@both_shapes
def test_a_cleanup_that_skips_a_step_shows_that_in_its_evidence(bench: Bench, shape: Shape) -> None:
    shape.lease(bench)
    bench.backend.menu.set("lie_cleanup", "1")
    done = shape.end(bench)
    missing = set(REQUIRED_CLEANUP_STEPS[shape.release]) - steps_of(done)
    assert missing == {"gpu_scrubbed"}
    assert conditions(bench) == ["residue_found"]
    bench.backend.menu.clear()
    again = shape.end(bench, "task-3")
    assert steps_of(again) == set(REQUIRED_CLEANUP_STEPS[shape.release])
    assert conditions(bench) == []


@both_shapes
def test_a_cleanup_that_claims_what_it_did_not_do_is_found_out(bench: Bench, shape: Shape) -> None:
    shape.lease(bench)
    bench.backend.menu.set("lie_cleanup", "false_ok")
    done = shape.end(bench)
    assert steps_of(done) == set(REQUIRED_CLEANUP_STEPS[shape.release])
    assert conditions(bench) == ["residue_found"]
    first_gpu = bench.slots(0)[0].gpu_uuid
    found = {one.device: one.claim_ref for one in bench.control.observed[-1].conditions}
    assert found[first_gpu] == "alloc-1"
    bench.control.add(shape.provision, shape.making(bench, "alloc-2"), task_id="task-3")
    bench.rounds()
    assert [fail.code for _, fail in bench.control.failed] == ["residue_found"]
    assert bench.backend.store.state.vms == {}


@both_shapes
def test_no_tenant_meets_the_mark_of_another(bench: Bench, shape: Shape) -> None:
    shape.lease(bench)
    assert set(bench.backend.store.state.canaries.values()) == {"alloc-1"}
    shape.end(bench)
    bench.control.add(shape.provision, shape.making(bench, "alloc-2"), task_id="task-3")
    bench.rounds()
    assert set(bench.backend.store.state.canaries.values()) == {"alloc-2"}


@both_shapes
def test_a_lost_reply_makes_the_agent_send_the_same_result_again(
    bench: Bench, shape: Shape
) -> None:
    bench.rounds(1)
    bench.backend.menu.set("lose_reply", "2")
    bench.control.add(shape.provision, shape.making(bench))
    bench.rounds(5)
    sent = [done for _, done in bench.control.completed]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]


@both_shapes
def test_a_duplicated_result_is_sent_as_a_message_of_its_own(bench: Bench, shape: Shape) -> None:
    bench.rounds(1)
    bench.backend.menu.set("duplicate", "1")
    bench.control.add(shape.provision, shape.making(bench))
    bench.rounds()
    sent = [done for _, done in bench.control.completed]
    assert len(sent) == 2
    assert sent[0] == sent[1]


@both_shapes
@pytest.mark.parametrize("step", ["defining", "starting", "booting"])
def test_a_reboot_while_making_gives_a_new_boot_and_starts_what_is_defined(
    bench: Bench, shape: Shape, step: str
) -> None:
    first = bench.backend.boot_id()
    bench.backend.menu.set("reboot", f"{shape.provision.value}:{step}")
    bench.control.add(shape.provision, shape.making(bench), boot_id=first)
    bench.rounds()
    assert [fail.code for _, fail in bench.control.failed] == ["interrupted"]
    report = bench.control.observed[-1]
    assert report.boot_id != first
    assert [vm.state for vm in report.vms] == ([] if step == "defining" else ["running"])
    bench.control.add(shape.provision, shape.making(bench), epoch=2, boot_id=first)
    bench.rounds()
    assert bench.control.failed[-1][1].code == "wrong_boot"
    bench.control.add(shape.provision, shape.making(bench), epoch=3, boot_id=report.boot_id)
    bench.rounds()
    assert len(bench.control.completed) == 1


@both_shapes
def test_a_reboot_in_a_cleanup_proves_nothing(bench: Bench, shape: Shape) -> None:
    shape.lease(bench)
    bench.backend.menu.set("reboot", f"{shape.release.value}:gpu_scrubbed")
    bench.control.add(shape.release, shape.ending(bench), task_id="task-2")
    bench.rounds()
    assert [fail.code for _, fail in bench.control.failed] == ["interrupted"]
    assert "residue_found" in conditions(bench)
    assert steps_of(shape.end(bench, "task-3")) == set(REQUIRED_CLEANUP_STEPS[shape.release])


def test_a_reboot_drops_all_work_on_the_host(bench: Bench) -> None:
    bench.backend.menu.set("reboot", "slice.vm_provision:booting")
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    other = bench.provision(1, allocation="alloc-2")
    bench.control.add(TaskKind.VM_PROVISION, other, task_id="task-2")
    bench.rounds()
    codes = {task: fail.code for task, fail in bench.control.failed}
    assert codes == {"task-1": "interrupted", "task-2": "interrupted"}


def test_a_lost_prerequisite_is_reported_and_stops_slices_only(bench: Bench) -> None:
    bench.backend.menu.set("vfio_missing", "true")
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds()
    assert conditions(bench) == ["prerequisite_missing"]
    assert [fail.code for _, fail in bench.control.failed] == ["prerequisite_missing"]
    bench.control.add(TaskKind.BAREMETAL_PROVISION, bench.bare_provision(), task_id="task-2")
    bench.rounds()
    assert [task for task, _ in bench.control.completed] == ["task-2"]


def test_a_change_is_reported_in_the_next_round_and_sameness_only_now_and_then(
    bench: Bench,
) -> None:
    async def story(agent: SimAgent) -> list[int]:
        counts = []
        for missing in ("", "", "iommu", "iommu", "iommu"):
            agent.backend.menu.set("missing", missing)
            await agent.step()
            counts.append(len(bench.control.observed))
        bench.clock.time += 16
        await agent.step()
        return [*counts, len(bench.control.observed)]

    assert bench.run(story) == [1, 1, 2, 2, 2, 3]
    assert conditions(bench) == ["prerequisite_missing"]


def test_a_cleanup_works_on_a_host_that_lost_a_prerequisite(bench: Bench) -> None:
    SLICE.lease(bench)
    bench.backend.menu.set("vfio_missing", "true")
    assert steps_of(SLICE.end(bench)) == set(REQUIRED_CLEANUP_STEPS[SLICE.release])


def test_residue_is_not_reported_while_its_cleanup_is_at_work(bench: Bench) -> None:
    SLICE.lease(bench)
    bench.backend.menu.set("slow_s", "20")
    SLICE.end(bench)
    reported = [one.code for report in bench.control.observed for one in report.conditions]
    assert reported == []


def test_a_stray_machine_is_reported_blocks_its_slot_and_survives(bench: Bench) -> None:
    assert simhost(["stray", str(bench.folder), "--slots", "3"]) == 0
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(3))
    bench.rounds()
    assert conditions(bench) == ["unknown_vm"]
    assert bench.control.observed[-1].vms[0].claim_ref is None
    assert [fail.code for _, fail in bench.control.failed] == ["device_in_use"]
    bench.control.add(TaskKind.VM_RELEASE, bench.release(3, allocation="a-2"), task_id="task-2")
    bench.rounds()
    assert len(bench.backend.store.state.vms) == 1


def test_a_fault_set_on_the_command_line_acts_on_a_running_host(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simhost(["fault", str(bench.folder), "--set", "lie_cleanup=1"]) == 0
    assert '"missing_step"' in capsys.readouterr().out
    assert simhost(["fault", str(bench.folder), "--clear"]) == 0
    assert bench.backend.menu.read() == Faults()


@pytest.mark.parametrize(
    "setting", ["nonsense=1", "slow_s=fast", "slow_s=nan", "reboot=tea", "lie_cleanup=maybe", "x"]
)
def test_a_fault_that_is_not_on_the_menu_is_refused(bench: Bench, setting: str) -> None:
    assert simhost(["fault", str(bench.folder), "--set", setting]) == 2
    assert bench.backend.menu.read() == Faults()


def test_a_damaged_menu_counts_as_no_faults(bench: Bench) -> None:
    for content in ("{", "[]", '{"slow_s": "x"}', '{"reboot": 3}', '{"lie_cleanup": "maybe"}'):
        (bench.folder / "faults.json").write_text(content)
        assert FaultMenu(bench.folder).read() == Faults()


def test_every_fault_can_be_set_from_text() -> None:
    faults = Faults()
    for name, value in {
        "slow_s": "2.5",
        "fail_once": "slice.vm_release",
        "lie_cleanup": "false_ok",
        "lose_reply": "2",
        "duplicate": "1",
        "reboot": "slice.vm_release:no_mount",
        "vfio_missing": "1",
        "missing": "iommu,ovmf",
        "drop_network": "yes",
        "burn_in": "hang",
    }.items():
        faults = set_fault(faults, name, value)
    assert faults.missing_prerequisites == ("vfio-pci", "iommu", "ovmf")
    assert all(getattr(faults, name) != getattr(Faults(), name) for name in vars(Faults()))
    with pytest.raises(FaultError):
        set_fault(faults, "unheard_of", "1")
