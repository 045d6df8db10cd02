"""Does nothing of what a hook starts outlive it, not even what leaves session and parent?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nodeagent.backend import BackendError
from nodeagent.host import cgroups, commands
from nodeagent.host.commands import HELD_BY_GROUP, HELD_BY_PARENT, CommandError, Ran, run_held
from nodeagent.host.runtime import sessions
from nodeagent.host.runtime.sessions import Session
from nodeagent.protocol import Unwanted
from tests.nodeagent.host_stage import until
from tests.nodeagent.test_burn_in import burning, burnt, lives

# Children that leave session, group and parent, ignore what can be ignored, and say who they are.
ESCAPES = """
import os, signal, sys, time
notes = os.path.dirname(sys.argv[0]) + "/escaped"

def away(depth):
    if os.fork():
        return
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    if depth:
        away(depth - 1)
        os._exit(0)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    with open(notes, "a") as told:
        told.write(str(os.getpid()) + " ")
    time.sleep(600)
    os._exit(0)

for _ in range(3):
    away(2)
while not os.path.exists(notes) or len(open(notes).read().split()) < 3:
    time.sleep(0.01)
"""
MADE: list[str] = []


@pytest.fixture(params=["group", "parent"])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways; the second as on a host without control groups of version 2."""
    if request.param == "parent":
        MADE.clear()
        monkeypatch.setattr(cgroups, "made", lambda: "")
        return HELD_BY_PARENT
    MADE[:] = [cgroups.made()]
    if not MADE[0]:
        pytest.skip("NO CONTROL GROUP WAS TRIED: this machine gives none of version 2")
    assert cgroups.gone(MADE[0], 0)

    def noted() -> str:
        MADE.append(make())
        return MADE[-1]

    make = cgroups.made
    monkeypatch.setattr(cgroups, "made", noted)
    return HELD_BY_GROUP


def program(folder: Path, end: str) -> Path:
    """One whose children escape, and that ends so."""
    path = folder / "hook"
    path.write_text(f"#!{sys.executable} -SE\n{ESCAPES}\n{end}\n")
    path.chmod(0o755)
    return path


def escaped(folder: Path) -> list[int]:
    """Those that have."""
    path = folder / "escaped"
    return [int(one) for one in path.read_text().split()] if path.exists() else []


def groups_left() -> list[str]:
    """Control groups of hooks that are still there."""
    return [one for one in MADE if Path(one).exists()]


def test_what_a_program_leaves_behind_is_ended_with_it(tmp_path: Path, held: str) -> None:
    ran = run_held(program(tmp_path, "print('done')"), timeout_s=30)
    assert (ran.status, ran.output, ran.held) == (0, b"done\n", held)
    assert len(escaped(tmp_path)) == 3
    assert not any(lives(pid) for pid in escaped(tmp_path))
    assert groups_left() == []


@pytest.mark.parametrize(("how", "code"), [("stop", "stopped"), ("limit", "timed_out")])
def test_what_escapes_is_ended_when_its_program_is(
    tmp_path: Path, held: str, how: str, code: str
) -> None:
    path, stop = program(tmp_path, "time.sleep(600)"), threading.Event()
    told: list[CommandError] = []

    def runs() -> None:
        try:
            run_held(path, timeout_s=4 if how == "limit" else 60, stop=stop)
        except CommandError as error:
            told.append(error)

    work = threading.Thread(target=runs)
    work.start()
    assert until(lambda: len(escaped(tmp_path)) == 3)
    assert all(lives(pid) for pid in escaped(tmp_path))
    if how == "stop":
        stop.set()
    work.join(30)
    [error] = told
    assert (error.code, error.detail.endswith(f"; {held}")) == (code, True)
    assert not any(lives(pid) for pid in escaped(tmp_path))
    assert groups_left() == []


@pytest.mark.parametrize(
    ("end", "status"), [("sys.exit(10)", 10), ("os.kill(os.getpid(), 9)", 137)]
)
def test_a_programs_own_end_is_told(tmp_path: Path, held: str, end: str, status: int) -> None:
    path = tmp_path / "hook"
    path.write_text(f"#!{sys.executable} -SE\nimport os, sys\nsys.stdin.read()\n{end}\n")
    path.chmod(0o755)
    ran = run_held(path, timeout_s=30, given=b"x" * 200_000)
    assert (ran.status, ran.held) == (status, held)
    path.write_text("no program\n")
    path.chmod(0o644)
    assert run_held(path, timeout_s=30) == Ran(
        126, b"", b"it cannot be started: Permission denied\n", held
    )


def test_a_burn_ins_load_is_over_only_when_what_has_left_its_session_is(
    tmp_path: Path, held: str
) -> None:
    load = burning(tmp_path, "", 60)
    program(tmp_path, "time.sleep(600)").rename(tmp_path / "burn_in")
    told: list[BackendError] = []

    def runs() -> None:
        try:
            burnt(load, 20, 30)
        except BackendError as error:
            told.append(error)

    work = threading.Thread(target=runs)
    work.start()
    assert until(lambda: len(escaped(tmp_path)) == 3)
    load.end(Unwanted("task-1", 2))
    assert (load.runs(), any(lives(pid) for pid in escaped(tmp_path))) == (False, False)
    work.join()
    [error] = told
    assert (error.code, held in error.detail) == ("cancelled", True)


def test_what_a_killed_helper_has_left_is_ended_by_the_next_wherever_it_has_gone(
    tmp_path: Path, held: str
) -> None:
    program(tmp_path, "time.sleep(600)")
    made = "" if held == HELD_BY_PARENT else cgroups.made()
    argv = [sys.executable, "-I", "-S", str(commands._SUPERVISOR), made, str(tmp_path / "hook")]
    left = subprocess.Popen(argv, start_new_session=True)
    try:
        assert until(lambda: len(escaped(tmp_path)) == 3)
        session = sessions.session_of(left.pid, made)
        assert session is not None
        assert session in sessions.led_by(tmp_path / "hook")
        assert set(escaped(tmp_path)) < set(sessions.members(session))
        assert sessions.end(session, 10)
        assert left.wait(timeout=5) in (143, 137, -signal.SIGKILL)
        assert not any(lives(pid) for pid in escaped(tmp_path))
        assert cgroups.gone(made, 5)
    finally:
        left.kill()
        left.wait()
        cgroups.kill(made)
        cgroups.gone(made, 5)


def test_a_program_that_kills_its_supervisor_is_caught_by_its_group_or_said_to_be_lost(
    tmp_path: Path, held: str
) -> None:
    path = program(tmp_path, "os.kill(os.getppid(), 9); time.sleep(600)")
    with pytest.raises(CommandError) as lost:
        run_held(path, timeout_s=5)
    assert escaped(tmp_path) != []
    if held == HELD_BY_GROUP:
        assert (lost.value.code, lost.value.detail.endswith(held)) == ("timed_out", True)
        assert not any(lives(pid) for pid in escaped(tmp_path))
        return
    assert (lost.value.code, "may still run" in lost.value.detail) == ("not_held", True)
    for pid in escaped(tmp_path):
        os.kill(pid, signal.SIGKILL)


def test_programs_that_fork_as_fast_as_they_can_are_ended_too(tmp_path: Path, held: str) -> None:
    path = tmp_path / "hook"
    body = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
        os._exit(0)
time.sleep(1)
"""
    path.write_text(f"#!{sys.executable} -SE\n{body}")
    path.chmod(0o755)
    began = time.monotonic()
    ran = run_held(path, timeout_s=60)
    assert (ran.status, ran.held) == (0, held)
    assert time.monotonic() - began < 15
    assert [one for one in sessions.led_by(path) if sessions.members(one)] == []


def test_a_number_that_is_somebody_elses_now_is_left_alone() -> None:
    own = sessions.session_of(os.getpid())
    assert own is not None
    assert sessions.members(Session(own.pid, own.started + 1)) == []
