"""Does an agent join, and carry out what it is told, once and with proof?"""

from __future__ import annotations

import stat

import pytest

from nodeagent.protocol import (
    REQUIRED_CLEANUP_STEPS,
    DiscoverParams,
    JoinRequest,
    ProvisionResult,
    TaskKind,
    TopologyReport,
    parse_result,
)
from nodeagent.simhost.agent import SimAgent
from tests.nodeagent.conftest import Bench


def test_a_host_joins_with_a_key_that_only_its_owner_can_read(bench: Bench) -> None:
    bench.rounds(1)
    key = bench.folder / "agent" / "agent.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(bench.control.joins) == 1
    assert list(bench.folder.rglob("join-token*")) == []
    assert bench.control.observed[0].boot_id == bench.backend.boot_id()


def test_a_join_whose_reply_was_lost_is_repeated_with_the_same_key(bench: Bench) -> None:
    bench.control.fail_next("/join", 500)
    bench.rounds(2)
    bench.rounds(1)
    assert len({request.public_key for request in bench.control.joins}) == 1
    assert bench.control.problems == []


def test_a_host_without_a_token_waits_for_one(bench: Bench) -> None:
    token = (bench.folder / "join-token").read_text()
    (bench.folder / "join-token").unlink()
    bench.rounds(2)
    assert bench.control.joins == []
    (bench.folder / "join-token").write_text(token)
    bench.rounds(1)
    assert len(bench.control.joins) == 1


def test_a_refused_token_is_set_aside_and_a_new_one_is_taken(bench: Bench) -> None:
    (bench.folder / "join-token").write_text("wrong")
    bench.rounds(3)
    assert len(bench.control.joins) == 1
    (bench.folder / "join-token").write_text(bench.control.token)
    bench.rounds(1)
    assert bench.control.observed


def test_a_token_left_while_an_old_one_is_being_refused_is_not_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = bench.folder / "join-token"
    token.write_text("old")
    answer = bench.control._join

    def slowly(request: JoinRequest) -> tuple[int, object]:
        if request.token == "old":
            token.write_text(bench.control.token)
        return answer(request)

    monkeypatch.setattr(bench.control, "_join", slowly)
    bench.rounds(2)
    assert [request.token for request in bench.control.joins] == ["old", bench.control.token]
    assert bench.control.observed


def test_a_revoked_host_joins_again_when_it_is_given_a_new_token(bench: Bench) -> None:
    bench.rounds(1)
    bench.control.credential = "credential-of-somebody-else"
    bench.rounds(3)
    assert len(bench.control.joins) == 1
    bench.control.token = "second-token"
    (bench.folder / "join-token").write_text("second-token")
    seen = len(bench.control.observed)
    bench.rounds(3)
    assert [request.token for request in bench.control.joins][1:] == ["second-token"]
    assert len(bench.control.observed) > seen


def test_a_credential_is_renewed_when_half_of_its_life_is_over(bench: Bench) -> None:
    bench.rounds(1)
    assert bench.control.renewals == 0
    bench.clock.time += bench.control.credential_life_s * 0.6
    bench.rounds(2)
    assert bench.control.renewals == 1


def test_a_wrong_clock_is_corrected_from_the_server(bench: Bench) -> None:
    bench.rounds(1)
    bench.control.skew = -86_400 * 3

    async def story(agent: SimAgent) -> None:
        for _ in range(3):
            await agent.step()
            bench.clock.time += 60

    bench.run(story)
    assert len(bench.control.observed) == 4
    assert bench.control.observed[-1].at == bench.control.now() - 60
    assert bench.control.order.count("observed") == 5


def test_a_sequence_that_the_server_has_passed_is_raised_above_it(bench: Bench) -> None:
    bench.rounds(1)
    bench.control.last_sequence += 10_000
    before = len(bench.control.observed)
    bench.clock.time += 60
    bench.rounds(1)
    assert len(bench.control.observed) == before + 1


def test_sequences_rise_across_restarts(bench: Bench) -> None:
    for _ in range(4):
        bench.rounds(2)
    assert bench.control.problems == []
    assert "replayed_message" not in str(bench.control.answers)


def test_a_discovery_reports_the_wiring(bench: Bench) -> None:
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds()
    (_, done), *rest = bench.control.completed
    assert rest == []
    report = parse_result(TaskKind.DISCOVER, done.result)
    assert isinstance(report, TopologyReport)
    assert len(report.slots) == 8
    assert all(gpu.uuid is not None for gpu in report.gpus)


def test_a_slice_is_provisioned_and_seen_running(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0, 1))
    bench.rounds()
    result = parse_result(TaskKind.VM_PROVISION, bench.control.completed[0][1].result)
    assert isinstance(result, ProvisionResult)
    assert result.address.host.startswith("127.")
    vm = bench.control.observed[-1].vms[0]
    assert (vm.claim_ref, vm.state, vm.slots) == ("alloc-1", "running", (0, 1))
    assert vm.address == result.address


def test_a_release_proves_every_required_step_of_every_slot(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0, 1))
    bench.rounds()
    bench.control.add(TaskKind.VM_RELEASE, bench.release(0, 1), task_id="task-2")
    bench.rounds()
    _, done = bench.control.completed[-1]
    assert {slot.slot_index for slot in done.evidence} == {0, 1}
    for slot in done.evidence:
        steps = [step.step for step in slot.steps if step.ok]
        assert steps == list(REQUIRED_CLEANUP_STEPS[TaskKind.VM_RELEASE])
    assert bench.control.observed[-1].vms == ()
    assert bench.backend.store.state.canaries == {}


def test_a_whole_node_is_provisioned_and_its_system_disk_wiped(bench: Bench) -> None:
    bench.control.add(TaskKind.BAREMETAL_PROVISION, bench.bare_provision())
    bench.rounds()
    assert "os" in bench.backend.store.state.canaries
    bench.control.add(TaskKind.BAREMETAL_RELEASE, bench.bare_release(), task_id="task-2")
    bench.rounds()
    steps = {step.step for slot in bench.control.completed[-1][1].evidence for step in slot.steps}
    assert steps == set(REQUIRED_CLEANUP_STEPS[TaskKind.BAREMETAL_RELEASE])
    assert bench.backend.store.state.canaries == {}


def test_a_task_leased_twice_runs_once(bench: Bench) -> None:
    queued = bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    queued.leases_left = 3
    bench.rounds(4)
    assert len(bench.control.completed) == 1
    assert len(bench.backend.store.state.vms) == 1


def test_a_second_attempt_at_a_finished_provisioning_changes_nothing(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds()
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), epoch=2)
    bench.rounds()
    first, second = (done.result for _, done in bench.control.completed)
    assert first == second
    assert len(bench.backend.store.state.vms) == 1


def test_work_stops_when_the_control_plane_cancels_it(bench: Bench) -> None:
    bench.rounds(1)
    bench.control.cancel = True
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds()
    assert bench.control.failed[0][1].code == "cancelled"
    assert bench.control.completed == []


def test_a_cleanup_is_carried_to_its_end_although_it_is_cancelled(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds()
    bench.control.cancel = True
    bench.control.add(TaskKind.VM_RELEASE, bench.release(0), task_id="task-2")
    bench.rounds()
    assert [task for task, _ in bench.control.completed] == ["task-1", "task-2"]


def test_a_release_ends_the_provisioning_of_its_allocation(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.control.add(TaskKind.VM_RELEASE, bench.release(0), task_id="task-2")
    bench.rounds()
    assert [(task, fail.code) for task, fail in bench.control.failed] == [("task-1", "cancelled")]
    assert [task for task, _ in bench.control.completed] == ["task-2"]
    assert bench.backend.store.state.vms == {}


def test_work_whose_lease_was_lost_sends_no_result(bench: Bench) -> None:
    bench.rounds(1)
    bench.control.fail_next("/heartbeat", 409, code="lease_lost")
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds()
    assert bench.control.completed == []
    assert bench.control.failed == []


def test_a_result_is_sent_again_until_it_is_acknowledged(bench: Bench) -> None:
    for _ in range(3):
        bench.control.fail_next("/complete", 503)
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds(5)
    assert len(bench.control.completed) == 1


def test_a_late_result_that_nobody_wants_is_not_sent_for_ever(bench: Bench) -> None:
    bench.control.fail_next("/complete", 409, code="lease_lost")
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds(5)
    assert bench.control.order.count("complete") == 1


def test_the_server_sets_the_pace_with_jitter(bench: Bench) -> None:
    async def story(agent: SimAgent) -> list[float]:
        return [await agent.step() for _ in range(20)]

    delays = bench.run(story)
    assert all(0.8 <= delay <= 1.2 for delay in delays)
    assert len(set(delays)) > 10


def test_an_unreachable_server_is_asked_less_and_less_often(bench: Bench) -> None:
    bench.rounds(1)
    bench.backend.menu.set("drop_network", "1")

    async def story(agent: SimAgent) -> list[float]:
        return [await agent.step() for _ in range(30)]

    delays = bench.run(story)
    assert max(delays) <= 30
    assert max(delays[-10:]) > max(delays[:2])


def test_a_report_of_a_new_boot_is_sent_again_after_the_lease_that_tells_it(bench: Bench) -> None:
    bench.rounds(1)
    bench.backend.store.reboot()
    bench.control.fail_next("/observed", 409, code="observed_stale")
    bench.rounds(2)
    assert bench.control.order[-4:] == ["observed", "tasks:lease", "observed", "tasks:lease"]
    assert bench.control.observed[-1].boot_id == bench.backend.boot_id()


def test_work_goes_on_although_a_report_is_not_understood(bench: Bench) -> None:
    for _ in range(5):
        bench.control.fail_next("/observed", 422, code="invalid")
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds(3)
    assert len(bench.control.completed) == 1
