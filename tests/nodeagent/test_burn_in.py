"""Is a burn-in bounded, honest about how it ended, and never done on what somebody has?"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.backend import BackendError, LeaseLost, TaskCancelled
from nodeagent.host.backend import HostBackend
from nodeagent.host.config import Hook
from nodeagent.host.hooks import Hooks
from nodeagent.host.runtime import sessions
from nodeagent.host.runtime.burning import BurnIn
from nodeagent.host.runtime.sessions import Session
from nodeagent.protocol import (
    BurnInParams,
    BurnInResult,
    SignedTask,
    TaskKind,
    Unwanted,
    WireError,
    parse_params,
)
from nodeagent.simhost.agent import SimAgent
from nodeagent.simhost.faults import FaultError, Faults, set_fault
from tests.nodeagent.conftest import Bench
from tests.nodeagent.host_stage import HostStage, host_stage, until

BURN = TaskKind.BURN_IN


def asked(bench: Bench, *indexes: int, limit_s: int = 30) -> BurnInParams:
    """A short burn-in of these slots' GPUs, of all when none is named."""
    slots = bench.slots(*(indexes or range(8)))
    return BurnInParams(tuple(slot.gpu_uuid for slot in slots), 20, limit_s)


def result(bench: Bench) -> BurnInResult:
    """What the last burn-in found."""
    return BurnInResult.from_json(bench.control.completed[-1][1].result)


def test_a_burn_in_that_passes_speaks_of_every_gpu(bench: Bench) -> None:
    bench.control.add(BURN, asked(bench))
    bench.rounds()
    found = result(bench)
    assert (found.verdict, len(found.gpus), found.ran_s) == ("pass", 8, 20)
    assert (bench.backend.store.state.burning, bench.backend.store.state.burned) == ([], 1)


def test_a_burn_in_that_fails_names_the_gpu(bench: Bench) -> None:
    bench.backend.menu.set("burn_in", "fail")
    bench.control.add(BURN, asked(bench))
    bench.rounds()
    found = result(bench)
    bad = [gpu.uuid for gpu in found.gpus if not gpu.ok]
    assert (found.verdict, bad) == ("fail", [bench.slots(0)[0].gpu_uuid])


def test_a_burn_in_that_hangs_is_ended_at_its_limit(bench: Bench) -> None:
    bench.backend.menu.set("burn_in", "hang")
    begun = bench.clock.time
    bench.control.add(BURN, asked(bench))
    bench.rounds()
    [(_, failed)] = bench.control.failed
    assert (failed.code, failed.retryable) == ("burn_in_overdue", False)
    assert 30 <= bench.clock.time - begun < 60
    assert bench.backend.store.state.burning == []


def test_a_burn_in_that_is_cancelled_takes_its_load_away(bench: Bench) -> None:
    bench.backend.menu.set("burn_in", "hang")
    bench.control.cancel = True
    bench.control.add(BURN, asked(bench))
    bench.rounds()
    assert [fail.code for _, fail in bench.control.failed] == ["cancelled"]
    assert bench.backend.store.state.burning == []


def test_a_load_outlives_the_agent_and_ends_at_its_limit(bench: Bench) -> None:
    """The process dies in the middle: its load goes on, and nothing else begins meanwhile."""
    bench.backend.menu.set("burn_in", "hang")

    async def dies(agent: SimAgent) -> None:
        while not bench.control.beats:
            await agent.step()
        await agent._drop_work()

    bench.control.add(BURN, asked(bench, limit_s=3600))
    bench.run(dies)
    assert len(bench.backend.store.state.burning) == 8
    bench.backend.menu.clear()
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), task_id="task-2")
    bench.rounds()
    codes = {task: (fail.code, fail.retryable) for task, fail in bench.control.failed}
    assert codes == {"task-1": ("interrupted", True), "task-2": ("burn_in_runs", True)}
    seen = bench.control.observed[-1].devices.gpus
    assert {gpu.clean for gpu in seen} == {None}
    assert [one.code for one in bench.control.observed[-1].conditions] == ["burn_in_runs"]
    bench.control.add(BURN, asked(bench), epoch=2)
    bench.rounds()
    busy = bench.control.failed[-1][1]
    assert (busy.code, busy.retryable) == ("hook_busy", True)
    bench.clock.time += 3600
    bench.rounds()
    assert bench.control.observed[-1].conditions == ()
    bench.control.add(BURN, asked(bench), epoch=3)
    bench.rounds()
    assert result(bench).verdict == "pass"
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(0), task_id="task-2", epoch=2)
    bench.rounds()
    assert bench.control.completed[-1][0] == "task-2"


def test_a_reboot_in_the_middle_proves_nothing_and_leaves_no_load(bench: Bench) -> None:
    bench.backend.menu.set("reboot", "node.burn_in:burning")
    bench.control.add(BURN, asked(bench))
    bench.rounds()
    assert [fail.code for _, fail in bench.control.failed] == ["interrupted"]
    assert (bench.control.completed, bench.backend.store.state.burning) == ([], [])


def test_what_somebody_has_is_not_burnt_in(bench: Bench) -> None:
    bench.control.add(TaskKind.VM_PROVISION, bench.provision(3))
    bench.rounds()
    bench.control.add(BURN, asked(bench), task_id="task-2")
    bench.rounds()
    assert [(task, fail.code) for task, fail in bench.control.failed] == [
        ("task-2", "device_in_use")
    ]
    bench.control.add(BURN, BurnInParams(("GPU-of-another-host",), 20, 30), task_id="task-3")
    bench.rounds()
    assert bench.control.failed[-1][1].code == "device_mismatch"


@pytest.mark.parametrize(
    "params",
    [
        {"gpus": [], "duration_s": 60, "limit_s": 90},
        {"gpus": ["GPU-1", "GPU-1"], "duration_s": 60, "limit_s": 90},
        {"gpus": ["GPU-1; reboot"], "duration_s": 60, "limit_s": 90},
        {"gpus": ["GPU-1"], "duration_s": 60, "limit_s": 60},
        {"gpus": ["GPU-1"], "duration_s": 10**9, "limit_s": 10**9 + 1},
        {"gpus": ["GPU-1"], "duration_s": "60", "limit_s": 90},
        {"gpus": ["GPU-1"], "duration_s": 60, "limit_s": 90, "program": "/bin/sh"},
    ],
    ids=["no GPU", "twice", "no UUID", "no time", "too long", "text", "unknown"],
)
def test_a_burn_in_is_asked_for_in_types(params: dict[str, object]) -> None:
    with pytest.raises(WireError):
        parse_params(BURN, params)


def test_a_result_that_contradicts_itself_is_none() -> None:
    gpu = {"uuid": "GPU-1", "ok": False, "detail": ""}
    with pytest.raises(WireError):
        BurnInResult.from_json(
            {"verdict": "pass", "method": "load", "detail": "", "ran_s": 1, "gpus": [gpu]}
        )


def test_only_what_is_on_the_menu_can_be_set() -> None:
    assert set_fault(Faults(), "burn_in", "hang").burn_in == "hang"
    with pytest.raises(FaultError):
        set_fault(Faults(), "burn_in", "melt")


@pytest.fixture
def stage() -> Iterator[HostStage]:
    """A real host's agent and helper."""
    with host_stage() as made:
        made.start_helper()
        made.start_agent()
        assert until(lambda: bool(made.control.observed))
        yield made


def real(stage: HostStage, duration_s: int, limit_s: int) -> BurnInParams:
    """A burn-in of all its GPUs."""
    gpus = tuple(slot.gpu_uuid for slot in stage.slots(*range(8)))
    return BurnInParams(gpus, duration_s, limit_s)


def loaded(stage: HostStage) -> int:
    """The hook's process; 0 when it has not begun."""
    told = stage.folder / "hooks" / "burning"
    return int(told.read_text() or 0) if told.exists() else 0


def lives(pid: int) -> bool:
    """Whether the process is there and no corpse."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_real_hosts_hook_says_how_its_gpus_stood_it(stage: HostStage) -> None:
    bad = stage.slots(5)[0].gpu_uuid
    (stage.folder / "hooks" / "bad").write_text(bad)
    stage.done(BURN, real(stage, 1, 10), "task-1")
    found = BurnInResult.from_json(stage.control.completed[-1][1].result)
    assert (found.verdict, found.method) == ("fail", "load")
    assert [gpu.uuid for gpu in found.gpus if not gpu.ok] == [bad]


def test_a_real_hosts_hook_is_killed_at_the_limit_and_nothing_is_made_meanwhile(
    stage: HostStage,
) -> None:
    (stage.folder / "hooks" / "hang").touch()
    stage.control.add(BURN, real(stage, 1, 6), task_id="task-1")
    assert until(lambda: loaded(stage) > 0)
    stage.control.add(TaskKind.VM_PROVISION, stage.provision(0), task_id="task-2")
    assert until(lambda: stage.answered("task-2"))
    stage.kill_agent()
    stage.start_agent()
    assert until(lambda: stage.answered("task-1"))
    codes = {task: fail.code for task, fail in stage.control.failed}
    assert codes == {"task-2": "burn_in_runs", "task-1": "interrupted"}
    said = stage.control.observed[-1].conditions
    assert ("burn_in_runs", None) in {(one.code, one.device) for one in said}
    # The agent's death ends no load: its limit does.
    assert until(lambda: not lives(loaded(stage)), 15)
    os.unlink(stage.folder / "hooks" / "hang")
    stage.done(BURN, real(stage, 1, 10), "task-1", epoch=2)
    assert stage.control.completed[-1][1].result["verdict"] == "pass"


def test_a_hook_that_hangs_is_told_as_overdue(stage: HostStage) -> None:
    (stage.folder / "hooks" / "hang").touch()
    stage.control.add(BURN, real(stage, 1, 3), task_id="task-1")
    assert until(lambda: stage.answered("task-1"), 30)
    [(_, failed)] = stage.control.failed
    assert (failed.code, failed.retryable) == ("burn_in_overdue", False)
    assert not lives(loaded(stage))


def test_a_real_hosts_load_is_ended_when_its_task_is_cancelled(stage: HostStage) -> None:
    (stage.folder / "hooks" / "hang").touch()
    stage.control.add(BURN, real(stage, 1, 600), task_id="task-1")
    assert until(lambda: loaded(stage) > 0)
    stage.control.cancel = True
    assert until(lambda: stage.answered("task-1"), 30)
    [(_, failed)] = stage.control.failed
    assert (failed.code, failed.retryable, lives(loaded(stage))) == ("cancelled", False, False)


def test_a_load_that_outlived_its_agent_is_ended_once_it_is_not_wanted(stage: HostStage) -> None:
    (stage.folder / "hooks" / "hang").touch()
    stage.control.add(BURN, real(stage, 1, 600), task_id="task-1")
    assert until(lambda: loaded(stage) > 0)
    stage.kill_agent()
    stage.control.unwanted = [Unwanted("task-1", 2), Unwanted("task-unknown", 1)]
    assert lives(loaded(stage))
    stage.start_agent()
    assert until(lambda: len(stage.control.failed) >= 3, 30)
    said = {(task, fail.code, fail.lease_epoch) for task, fail in stage.control.failed}
    assert {("task-1", "interrupted", 1), ("task-1", "cancelled", 2)} <= said
    assert ("task-unknown", "cancelled", 1) in said
    assert not lives(loaded(stage))
    stage.control.unwanted = []
    os.unlink(stage.folder / "hooks" / "hang")
    # The lease that was stopped begins nothing any more; a newer task does.
    stage.done(BURN, real(stage, 1, 10), "task-2")
    assert stage.control.completed[-1][1].result["verdict"] == "pass"


def test_what_a_killed_helper_has_left_under_load_is_ended_by_the_next(stage: HostStage) -> None:
    (stage.folder / "hooks" / "hang").touch()
    stage.control.add(BURN, real(stage, 1, 600), task_id="task-1")
    assert until(lambda: loaded(stage) > 0)
    assert until(lambda: "pid" in (stage.folder / "helper" / "load.json").read_text())
    stage.kill_helper()
    assert lives(loaded(stage))
    stage.start_helper()
    assert not lives(loaded(stage))
    assert not (stage.folder / "helper" / "load.json").exists()
    assert until(lambda: stage.answered("task-1"))
    assert stage.control.failed[-1][1].code == "helper_away"


def burning(folder: Path, body: str, timeout_s: float) -> BurnIn:
    """A burn-in whose hook is this program."""
    path = folder / "burn_in"
    path.write_text(f"#!{sys.executable} -SE\nimport json, sys, time\n{body}\n")
    path.chmod(0o755)
    gpu = SimpleNamespace(uuid="GPU-1", pci="0000:01:00.0", index=0)
    report = cast(Any, SimpleNamespace(gpus=(gpu,)))
    hooks = Hooks({"burn_in": Hook(path, timeout_s)})
    return BurnIn("gpu-17", hooks, lambda: report, folder / "load.json", "boot-1")


def burnt(load: BurnIn, duration_s: int, limit_s: int, epoch: int = 1) -> BurnInResult:
    """What it finds of its one GPU."""
    params = BurnInParams(("GPU-1",), duration_s, limit_s)
    with load.taken(params, Unwanted("task-1", epoch)):
        return load.run(params)


def test_a_smaller_limit_of_the_hooks_own_says_nothing_about_the_gpus(tmp_path: Path) -> None:
    with pytest.raises(BackendError) as ended:
        burnt(burning(tmp_path, "time.sleep(60)", 0.5), 20, 30)
    assert (ended.value.code, ended.value.retryable) == ("hook_timeout", False)
    assert "raise hooks.burn_in.timeout_s to 30 seconds" in ended.value.detail
    with pytest.raises(BackendError) as overdue:
        burnt(burning(tmp_path, "time.sleep(60)", 60), 1, 2)
    assert overdue.value.code == "burn_in_overdue"


def test_a_hook_is_told_its_limit_and_a_pass_before_the_time_is_none(tmp_path: Path) -> None:
    body = """
told = json.load(sys.stdin)
gpus = [{"uuid": "GPU-1", "ok": True, "detail": ""}]
ran_s = told["limit_s"] - 21
print(json.dumps(dict(method="load", detail="", verdict="pass", ran_s=ran_s, gpus=gpus)))
"""
    assert burnt(burning(tmp_path, body, 60), 20, 41).ran_s == 20
    with pytest.raises(BackendError, match="9 of 20 seconds") as early:
        burnt(burning(tmp_path, body, 60), 20, 30)
    assert (early.value.code, early.value.retryable) == ("hook_failed", False)


def test_a_load_is_over_only_when_everything_that_the_hook_has_started_is_gone(
    tmp_path: Path,
) -> None:
    body = """
import os, subprocess
child = subprocess.Popen(["/bin/sleep", "60"], preexec_fn=os.setpgrp)
open(os.path.dirname(sys.argv[0]) + "/child", "w").write(str(child.pid))
time.sleep(60)
"""
    load = burning(tmp_path, body, 60)
    told: list[BackendError] = []

    def runs() -> None:
        try:
            burnt(load, 20, 30)
        except BackendError as error:
            told.append(error)

    work = threading.Thread(target=runs)
    work.start()
    assert until(lambda: (tmp_path / "child").exists() and load.runs())
    child = int((tmp_path / "child").read_text())
    load.end(Unwanted("another-task", 9))
    assert (load.runs(), lives(child)) == (True, True)
    load.end(Unwanted("task-1", 2))
    load.end(Unwanted("task-1", 2))
    assert (load.runs(), lives(child)) == (False, False)
    work.join()
    assert [error.code for error in told] == ["cancelled"]
    with pytest.raises(BackendError, match="stopped"):
        burnt(load, 20, 30)


def test_a_load_whose_start_was_not_yet_noted_is_found_by_its_program(tmp_path: Path) -> None:
    load = burning(tmp_path, "time.sleep(60)", 60)
    left = subprocess.Popen([str(tmp_path / "burn_in")], start_new_session=True)
    try:
        assert until(lambda: bool(sessions.led_by(tmp_path / "burn_in")))
        (tmp_path / "load.json").write_text('{"task": "task-1", "boot": "boot-1"}')
        load.recover()
        assert left.wait(timeout=5) in (-signal.SIGKILL, -signal.SIGTERM)
        assert (load.runs(), (tmp_path / "load.json").exists()) == (False, False)
    finally:
        left.kill()
        left.wait()
    other = sessions.session_of(os.getpid())
    assert other is not None
    # A number that belongs to somebody else meanwhile is left alone.
    assert sessions.members(Session(other.pid, other.started + 1)) == []


def test_what_is_ended_is_the_load_of_the_leases_before_and_not_of_the_one_that_counts(
    tmp_path: Path,
) -> None:
    load = burning(tmp_path, "time.sleep(60)", 60)
    params = BurnInParams(("GPU-1",), 20, 30)
    with load.taken(params, Unwanted("task-1", 2)):
        load.end(Unwanted("task-1", 2))
        assert load.runs()
        with (
            pytest.raises(BackendError, match="stopped"),
            load.taken(params, Unwanted("task-1", 1)),
        ):
            pass
    with load.taken(params, Unwanted("task-1", 2)):
        assert load.runs()


@pytest.mark.parametrize("why", [LeaseLost, TaskCancelled])
def test_a_request_that_still_waits_in_the_helper_begins_no_load_once_its_lease_is_lost(
    tmp_path: Path, why: type[Exception]
) -> None:
    load, params = burning(tmp_path, "time.sleep(60)", 60), BurnInParams(("GPU-1",), 20, 30)
    began: list[object] = []

    def begins(of: Unwanted) -> None:
        try:
            with load.taken(params, of):
                began.append(of.lease_epoch)
        except BackendError as error:
            began.append(error.code)

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The helper, which takes up a burn-in only after it was told to end it."""
        told = json.loads(await reader.readline())
        if told["verb"] == "burn_in":
            envelope = told["task"]["envelope"]
            of = Unwanted(envelope["task_id"], envelope["lease_epoch"])
            waiting.append(of)
            await reader.read()
        else:
            of = Unwanted.from_json(told["load"])
            await asyncio.to_thread(load.end, of)
            began.append("ended")
            writer.write(b'{"done": {}}\n')
            await writer.drain()
        writer.close()

    async def lost(step: str, percent: int) -> None:
        """The first heartbeat is heard, the next is not taken."""
        beats.append(step)
        if len(beats) > 1:
            raise why

    async def runs() -> None:
        socket = tmp_path / "helper.sock"
        server = await asyncio.start_unix_server(answers, str(socket))
        config = cast(Any, SimpleNamespace(socket_path=socket))
        backend = HostBackend(config, cast(Any, None), cast(Any, None), cast(Any, None))
        async with server:
            with pytest.raises(why):
                await backend.burn_in(params, lost, Unwanted("task-1", 4), signed)

    envelope = {"task_id": "task-1", "lease_epoch": 4}
    signed = SignedTask(envelope, params.to_json(), "A" * 86 + "==")
    waiting: list[Unwanted] = []
    beats: list[str] = []
    asyncio.run(runs())
    [of] = waiting
    begins(of)
    assert began == ["ended", "cancelled"]
    # The next lease of the same task is another matter.
    begins(Unwanted("task-1", 5))
    assert began[-1] == 5
