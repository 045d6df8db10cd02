"""Does the runner start, restart and stop what it keeps, and leave nothing behind?"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from gpuaas.config import CHECKOUT
from gpuaas.embedded import logs, processes, state
from gpuaas.embedded.files import kept_secret
from gpuaas.embedded.parts import Part, Program
from gpuaas.embedded.runner import Runner, RunnerError, State

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


class Bench:
    """A runner over small programs, moved on by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.runner = Runner([], say=self.lines.append)

    def program(self, name: str, command: Sequence[str], **facts: object) -> Program:
        env = {**os.environ, state.MARK: str(self.folder)}
        return Program(name, command, env=env, log_folder=self.folder, **facts)  # type: ignore[arg-type]  # Program's own names

    def keep(self, *parts: Part) -> Runner:
        self.runner = Runner(parts, say=self.lines.append)
        return self.runner

    def until(self, done: Callable[[], bool], timeout_s: float = 20.0) -> bool:
        def moved_on() -> bool:
            self.runner.tick()
            return done()

        return processes.wait_until(moved_on, timeout_s)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.runner.stop()


def test_a_part_waits_for_what_it_stands_on(bench: Bench) -> None:
    opened = bench.folder / "opened"
    below = bench.program("below", SLEEP, is_ready=opened.exists)
    above = bench.program("above", SLEEP, after=["below"])
    runner = bench.keep(above, below)
    assert bench.until(lambda: runner.slots["below"].state is State.STARTING)
    assert runner.slots["above"].state is State.WAITING
    opened.touch()
    assert bench.until(lambda: runner.healthy)


def _loading(loaded: Path, begun: Path) -> list[str]:
    script = (
        "import pathlib, time\n"
        "from gpuaas import ahead\n"
        f"pathlib.Path({str(loaded)!r}).touch()\n"
        "ahead.wait_for_word()\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        "time.sleep(600)\n"
    )
    return [sys.executable, "-c", script]


def test_a_part_that_loads_ahead_begins_when_what_it_stands_on_is_ready(bench: Bench) -> None:
    opened, loaded, begun = (bench.folder / name for name in ("opened", "loaded", "begun"))
    below = bench.program("below", SLEEP, is_ready=opened.exists)
    above = bench.program(
        "above", _loading(loaded, begun), after=["below"], ahead=True, is_ready=begun.exists
    )
    runner = bench.keep(above, below)
    assert bench.until(loaded.exists)
    for _ in range(5):
        runner.tick()
    assert not begun.exists()
    assert runner.slots["above"].state is State.STARTING
    opened.touch()
    assert bench.until(lambda: runner.healthy)
    assert begun.exists()


def test_a_part_that_loads_ahead_and_is_started_again_is_told_again(bench: Bench) -> None:
    loaded, begun = bench.folder / "loaded", bench.folder / "begun"
    part = bench.program("part", _loading(loaded, begun), ahead=True, is_ready=begun.exists)
    runner = bench.keep(part)
    assert bench.until(lambda: runner.healthy)
    begun.unlink()
    first = part.pid
    os.kill(first, signal.SIGKILL)
    assert bench.until(lambda: runner.healthy and part.pid != first and begun.exists())


def test_a_part_that_loads_ahead_ends_when_nobody_is_left_to_tell_it(tmp_path: Path) -> None:
    loaded, begun = tmp_path / "loaded", tmp_path / "begun"
    waiting = subprocess.run(
        _loading(loaded, begun),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        check=False,
        timeout=20,
    )
    assert waiting.returncode == 1
    assert "the runner ended before this part was to begin" in waiting.stderr
    assert loaded.exists()
    assert not begun.exists()


def test_a_part_that_dies_is_started_again(bench: Bench) -> None:
    runner = bench.keep(bench.program("part", SLEEP))
    assert bench.until(lambda: runner.healthy)
    first = runner.slots["part"].part.pid
    os.kill(first, signal.SIGKILL)
    assert bench.until(lambda: runner.healthy and runner.slots["part"].part.pid != first)
    assert runner.describe()["part"]["restarts"] == 1
    assert any("ended with SIGKILL; starting it again" in line for line in bench.lines)


def test_the_wait_between_starts_grows_and_the_hopeless_is_given_up(bench: Bench) -> None:
    dying = [sys.executable, "-c", "raise SystemExit('no luck')"]
    runner = bench.keep(bench.program("part", dying, is_ready=lambda: False))
    slot = runner.slots["part"]
    waits: list[float] = []

    def note_and_hurry() -> bool:
        if slot.state is State.WAITING and slot.restarts > len(waits):
            waits.append(slot.not_before - time.monotonic())
            slot.not_before = 0.0  # the test need not wait
        return False

    with pytest.raises(RunnerError, match=r"part ended with code 1\nno luck"):
        bench.until(note_and_hurry)
    assert len(waits) == 5
    assert waits == sorted(waits)


def test_a_part_that_is_never_ready_is_given_up(bench: Bench) -> None:
    part = bench.program("part", SLEEP, is_ready=lambda: False, patience_s=0.05)
    runner = bench.keep(part)

    def hurry() -> bool:
        runner.slots["part"].not_before = 0.0
        return False

    with pytest.raises(RunnerError, match="part was not ready after"):
        bench.until(hurry)


def test_a_task_that_fails_stops_the_start_with_its_last_words(bench: Bench) -> None:
    bench.keep(
        bench.program("task", [sys.executable, "-c", "raise SystemExit('bad table')"], once=True)
    )
    with pytest.raises(RunnerError, match="bad table"):
        bench.until(lambda: False)


def test_a_task_with_nothing_to_do_starts_no_process(bench: Bench) -> None:
    runner = bench.keep(bench.program("task", SLEEP, once=True, needless=lambda: True))
    assert bench.until(lambda: runner.healthy)
    assert runner.describe() == {"task": {"state": "done", "pid": 0, "restarts": 0}}


def test_stopping_ends_even_grandchildren_that_do_not_listen(bench: Bench) -> None:
    told = bench.folder / "grandchild"
    deaf = (
        "import pathlib, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(told)!r}).write_text(str(child.pid))\n"
        "time.sleep(600)\n"
    )
    runner = bench.keep(bench.program("part", [sys.executable, "-c", deaf], grace_s=0.2))
    assert bench.until(lambda: told.exists() and told.read_text() != "")
    pids = [runner.slots["part"].part.pid, int(told.read_text())]
    runner.stop()
    assert processes.wait_until(lambda: not any(map(processes.alive, pids)), 5.0)


def test_what_a_killed_runner_started_dies_with_it_or_is_found(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from gpuaas.embedded import state\n"
        "from gpuaas.embedded.parts import Program\n"
        "from gpuaas.embedded.runner import Runner\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "env = {**os.environ, state.MARK: str(folder)}\n"
        f"part = Program('part', {SLEEP!r}, env=env, log_folder=folder)\n"
        "runner = Runner([part], say=lambda line: print(part.pid, flush=True))\n"
        "while True:\n"
        "    runner.tick()\n"
        "    time.sleep(0.02)\n"
    )
    keeper = subprocess.Popen(
        [sys.executable, "-c", script], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert keeper.stdout is not None
    pid = int(keeper.stdout.readline())
    assert state.leftovers(tmp_path) == [pid]
    keeper.kill()
    keeper.wait()
    keeper.stdout.close()
    assert processes.wait_until(lambda: not processes.alive(pid), 5.0)
    assert state.leftovers(tmp_path) == []


def test_a_full_log_is_put_aside_and_the_oldest_dropped(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    for word in ("first", "second", "third"):
        log.write_text(word * 10)
        assert logs.rotate(log, limit=20)
    assert log.read_text() == ""
    kept = {path.name: path.read_text()[:5] for path in tmp_path.iterdir()}
    assert kept == {"part.log": "", "part.log.1": "third", "part.log.2": "secon"}
    assert not logs.rotate(log, limit=20)


def test_ports_stay_the_same_until_somebody_takes_one(tmp_path: Path) -> None:
    folders = state.Folders(tmp_path)
    folders.make()
    first = state.Ports.remembered(folders, web=None, web_host="127.0.0.1")
    assert state.Ports.remembered(folders, web=None, web_host="127.0.0.1") == first
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first.postgres))
        taken.listen()
        second = state.Ports.remembered(folders, web=None, web_host="127.0.0.1")
    assert second.postgres != first.postgres
    assert (second.valkey, second.web) == (first.valkey, first.web)


def test_only_one_holds_the_lock_and_the_other_reads_who(tmp_path: Path) -> None:
    folders = state.Folders(tmp_path)
    folders.make()
    ours, theirs = state.Lock(folders), state.Lock(folders)
    assert ours.take()
    ours.say({"pid": 1, "url": "http://127.0.0.1:1"})
    assert not theirs.take()
    assert not theirs.free()
    assert theirs.holder() == {"pid": 1, "url": "http://127.0.0.1:1"}
    ours.release()
    assert theirs.free()


def test_a_secret_is_made_once_and_closed_again_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = kept_secret(path)
    assert len(made) >= 40
    path.chmod(0o644)
    assert kept_secret(path) == made
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_a_held_part_stays_down_until_it_is_let_go(bench: Bench) -> None:
    runner = bench.keep(bench.program("held", SLEEP), bench.program("other", SLEEP))
    held, other = runner.slots["held"], runner.slots["other"]
    assert bench.until(lambda: runner.healthy)
    first, beside = held.part.pid, other.part.pid
    runner.hold("held")
    assert bench.until(lambda: held.state is State.HELD)
    assert not processes.alive(first)
    runner.tick()
    assert (held.state, other.part.pid) == (State.HELD, beside)
    runner.let_go("held")
    assert bench.until(lambda: runner.healthy)
    assert held.part.pid != first
    assert processes.alive(held.part.pid)


def test_a_runner_is_finished_from_within_as_by_a_signal(bench: Bench) -> None:
    part = bench.program("part", SLEEP)
    runner = bench.keep(part)
    runner.run(runner.finish)
    assert not processes.alive(part.pid)
