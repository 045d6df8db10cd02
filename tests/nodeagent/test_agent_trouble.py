"""Does an agent live through servers, hosts and moments that are not as they should be?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodeagent.daemon import Pace
from nodeagent.protocol import DiscoverParams, TaskKind, TopologyReport, WireError
from nodeagent.simhost.agent import SimAgent
from nodeagent.simhost.hardware import TOPOLOGY_FILE
from tests.nodeagent.conftest import Bench


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (200, b"<html>welcome</html>"),
        (200, b"[]"),
        (200, b'{"tasks": "none"}'),
        (200, b'{"tasks": [], "next_poll_ms": 1e999, "server_time": 1}'),
        (502, b"<html>bad gateway</html>"),
        (404, b""),
        (204, b""),
    ],
)
def test_an_answer_that_makes_no_sense_is_tried_again_later(
    bench: Bench, status: int, content: bytes
) -> None:
    bench.rounds(1)
    bench.control.answer_next("/tasks:lease", status, content)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds(3)
    assert len(bench.control.completed) == 1


def test_a_server_that_says_when_to_come_back_is_obeyed(bench: Bench) -> None:
    bench.rounds(1)
    bench.control.fail_next("/tasks:lease", 429, retry_after=40)

    async def story(agent: SimAgent) -> float:
        return await agent.step()

    assert 40 <= bench.run(story) <= 60


@pytest.mark.parametrize("status", [401, 429, 503])
@pytest.mark.parametrize("when", ["0", "Fri, 31 Dec 1999 23:59:59 GMT"])
def test_a_server_that_says_now_is_not_asked_without_a_pause(
    bench: Bench, status: int, when: str
) -> None:
    bench.rounds(1)
    bench.control.fail_next("/tasks:lease", status, retry_after=when)

    async def story(agent: SimAgent) -> float:
        return await agent.step()

    assert Pace().backoff_first_s <= bench.run(story) <= 1


def test_a_renewal_that_fails_for_now_does_not_stop_the_work(bench: Bench) -> None:
    bench.rounds(1)
    bench.clock.time += bench.control.credential_life_s * 0.6
    bench.control.fail_next("credential:renew", 503)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds(3)
    assert len(bench.control.completed) == 1
    assert bench.control.renewals == 1


def test_an_ended_credential_is_kept_until_somebody_invites_again(bench: Bench) -> None:
    bench.rounds(1)
    bench.clock.time += bench.control.credential_life_s * 2
    for _ in range(3):
        bench.control.fail_next("credential:renew", 401, code="credential_invalid")
    bench.rounds(3)
    assert (bench.folder / "agent" / "identity.json").exists()
    bench.rounds(1)
    assert bench.control.renewals == 1


def test_an_error_in_the_hosts_own_code_is_a_failed_task(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(agent: SimAgent) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("secret detail")

        monkeypatch.setattr(agent.backend, "_define", broken)
        await agent.step()
        await agent.settle()

    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.run(story)
    _, fail = bench.control.failed[0]
    assert (fail.code, fail.retryable) == ("backend_error", True)
    assert "secret" not in fail.detail


def test_hardware_that_cannot_be_read_does_not_end_the_agent(bench: Bench) -> None:
    bench.rounds(1)
    good = (bench.folder / TOPOLOGY_FILE).read_bytes()
    (bench.folder / TOPOLOGY_FILE).write_bytes(b"<damaged")
    bench.rounds(2)
    (bench.folder / TOPOLOGY_FILE).write_bytes(good)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds(2)
    assert len(bench.control.completed) == 1


def test_at_most_a_few_tasks_run_at_once(bench: Bench) -> None:
    for number in range(8):
        params = bench.provision(number, allocation=f"alloc-{number}")
        bench.control.add(TaskKind.VM_PROVISION, params, task_id=f"task-{number}")

    async def story(agent: SimAgent) -> int:
        await agent.step()
        running = sum(task.leases_left == 0 for task in bench.control.queue)
        await agent.settle()
        return running

    assert bench.run(story) == 4
    bench.rounds(3)
    assert len(bench.control.completed) == 8


def test_a_newer_lease_of_a_running_task_takes_its_place(bench: Bench) -> None:
    bench.backend.menu.set("slow_s", "5")
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), epoch=1)
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), epoch=2)
    bench.rounds(4)
    assert [done.lease_epoch for _, done in bench.control.completed] == [2]
    assert len(bench.backend.store.state.vms) == 1


def _report(bench: Bench) -> TopologyReport:
    return bench.backend.topology()


@pytest.mark.parametrize("case", range(7))
def test_a_report_that_contradicts_itself_is_refused(bench: Bench, case: int) -> None:
    report = _report(bench)
    first, second, *rest = report.slots
    gpu, other, *gpus = report.gpus
    broken = [
        replace(report, gpus=(gpu, replace(other, index=0), *gpus)),
        replace(report, gpus=(gpu, replace(other, uuid=gpu.uuid), *gpus)),
        replace(report, slots=report.slots[1:]),
        replace(report, slots=(first, replace(second, gpu_index=0), *rest)),
        replace(report, slots=(first, replace(second, index=99), *rest)),
        replace(report, slots=(first, replace(second, nic=first.nic), *rest)),
        replace(report, slots=(replace(first, nic="of-nobody"), second, *rest)),
    ][case]
    with pytest.raises(WireError) as error:
        TopologyReport.from_json(broken.to_json(), "/result")
    assert error.value.pointer.startswith(("/result/slots", "/result/gpus"))


def test_an_hour_without_the_control_plane_loses_neither_result_nor_machine(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0, 1))
    bench.control.fail_next("/complete", 503)
    bench.rounds(1)
    vms = dict(bench.backend.store.state.vms)
    bench.backend.menu.set("drop_network", "1")
    asked = len(bench.control.order)

    async def away(agent: SimAgent) -> int:
        end, rounds = bench.clock.now() + 3600, 0
        while bench.clock.now() < end:
            bench.clock.time += await agent.step()
            rounds += 1
        return rounds

    # It asks less and less often, and never gives up.
    assert 120 <= bench.run(away) <= 900
    assert len(bench.control.order) == asked
    bench.backend.menu.clear()
    bench.rounds(2)
    assert [done.lease_epoch for _, done in bench.control.completed] == [1]
    assert bench.backend.store.state.vms == vms
    assert bench.control.observed[-1].vms[0].claim_ref == "alloc-1"


@pytest.mark.parametrize("days", [-1, 1])
def test_a_host_whose_clock_is_a_day_off_works_by_the_servers(bench: Bench, days: int) -> None:
    bench.rounds(1)
    bench.control.skew = days * 86_400
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0))
    bench.rounds(3)
    assert len(bench.control.completed) == 1
    assert bench.control.failed == []
    recorded = bench.control.add(TaskKind.VM_RELEASE, bench.release(0), task_id="old")
    recorded.envelope |= {"not_before": 0, "expires_at": bench.control.now() - 1}
    bench.control.queue[-1:] = []
    bench.control.add_raw(recorded.envelope, recorded.params)
    bench.rounds(2)
    assert [fail.code for _, fail in bench.control.failed] == ["task_expired"]
