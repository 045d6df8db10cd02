"""Does whatever hangs in a driver hold up no more than itself?"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodeagent.backend import BackendError
from nodeagent.host import commands, hardware
from nodeagent.host.cleanup import amd_library
from nodeagent.host.cleanup.gpu import GpuCare
from nodeagent.host.cleanup.steps import StepFailed
from nodeagent.host.commands import CommandError, run
from nodeagent.host.helper.server import HelperServer
from nodeagent.host.helper.turns import ClaimTurns
from nodeagent.host.helper.verbs import Verbs
from nodeagent.host.helper.wire import Held, Request, Trust, Verb
from nodeagent.host.nvml import Nvml
from nodeagent.host.records import Records
from nodeagent.protocol import Message, SlotDevices, VmProvisionParams
from tests.nodeagent.host_stage import KEY


@pytest.fixture
def undying(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Programs do not die of being killed, as those that wait in the kernel; gives which."""
    asked: list[int] = []
    monkeypatch.setattr("nodeagent.host.commands._DIES_S", 0.1)
    monkeypatch.setattr("nodeagent.host.hardware._DIES_S", 0.1)
    end = os.killpg
    with monkeypatch.context() as patched:
        patched.setattr(os, "killpg", lambda pid, _: asked.append(pid))
        patched.setattr(subprocess.Popen, "kill", lambda self: asked.append(self.pid))
        yield asked
    for pid in asked:
        try:
            end(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)


def test_a_program_that_outlives_being_killed_is_left_and_reaped_later(
    undying: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    with pytest.raises(CommandError, match=r"does not die of being killed") as error:
        run(["/bin/sleep", "60"], timeout_s=0.1)
    assert (error.value.code, time.monotonic() - began < 30) == ("timed_out", True)
    (left,) = commands._undead
    assert left.pid == undying[0]
    os.kill(left.pid, signal.SIGKILL)
    os.waitid(os.P_PID, left.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.undo()
    run(["/bin/true"], timeout_s=20)
    assert (commands._undead, left.returncode) == ([], -signal.SIGKILL)
    undying.clear()


def test_a_check_that_outlives_being_killed_does_not_hold_up_the_others(
    undying: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text("import time\ntime.sleep(60)\n")
    root = Path(__file__).resolve().parents[2]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}:{root}"}
    monkeypatch.setattr(hardware, "_environment", lambda _: env)
    options = cast(Any, SimpleNamespace(limit=2.0, allow_reset=""))
    began = time.monotonic()
    found = hardware.apart("nvml", options)
    assert found["status"] == "timed_out"
    assert f"process {undying[0]} does not die" in found["detail"]
    assert time.monotonic() - began < 30
    (left,) = hardware._undead
    os.kill(left.pid, signal.SIGKILL)
    left.communicate(timeout=20)
    hardware._undead.clear()
    undying.clear()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def amdsmi_reset_gpu(_): print('a word of its own')", ""),
        (
            "def amdsmi_reset_gpu(_): raise RuntimeError('no permission')",
            "it refused: RuntimeError",
        ),
        ("import os\ndef amdsmi_reset_gpu(_): os._exit(7)", "it ended with 7"),
    ],
)
def test_amds_library_is_asked_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    a_library(tmp_path, monkeypatch, body)
    told = amd_library.reset_apart("0000:60:00.0")
    assert told.startswith(said)
    assert bool(told) is bool(said)
    assert amd_library.reset_apart("0000:61:00.0") == "it does not list the GPU"


def test_a_reset_that_does_not_come_back_fails_the_step_and_is_not_done_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_library(tmp_path, monkeypatch, "import time\ndef amdsmi_reset_gpu(_): time.sleep(60)")
    with pytest.raises(StepFailed, match=r"has not come back from the reset of 0000:60:00\.0"):
        amd_library.reset_apart("0000:60:00.0", limit_s=3.0)


def a_library(folder: Path, patch: pytest.MonkeyPatch, body: str) -> None:
    """AMD's library as a file, found before any that is installed."""
    own = [
        "def amdsmi_init(): pass",
        "def amdsmi_shut_down(): pass",
        "def amdsmi_get_processor_handles(): return ['0000:60:00.0']",
        "def amdsmi_get_gpu_device_bdf(handle): return handle",
    ]
    (folder / "amdsmi.py").write_text("\n".join([*own, body]) + "\n")
    patch.setattr(sys, "path", [str(folder), *sys.path])


def test_counters_are_waited_for_no_longer_than_a_driver_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nodeagent.host.cleanup.gpu._CALL_S", 0.1)
    released = threading.Event()
    nvml = Nvml()

    def hangs() -> Any:
        released.wait(60)
        raise AssertionError

    monkeypatch.setattr(nvml, "session", hangs)
    care = GpuCare(nvml, Path("/bin/false"), cast(Any, None), "boot-1")
    began = time.monotonic()
    assert care.counts("GPU-1") == {}
    assert time.monotonic() - began < 30
    released.set()


def test_counters_are_read_while_no_other_claim_waits_for_it(tmp_path: Path) -> None:
    held: list[bool] = []

    def counts(_: object) -> dict[str, dict[str, int]]:
        held.append(verbs._turn.locked())
        return {"GPU-1": {"ecc_uncorrected": 3}}

    image = SimpleNamespace(user="ubuntu")
    parts = {
        "records": Records(tmp_path),
        "machines": SimpleNamespace(mark="m", image=lambda _: image),
        "devices": SimpleNamespace(error_counts=counts),
        "burning": SimpleNamespace(refuse_loaded=lambda _: None),
        "owners": SimpleNamespace(choose=lambda _: 7),
    }
    left = ("report", "bare", "runtime", "clock", "grants", "survey", "returning")
    verbs = Verbs(boot="boot-1", **cast(Any, {**parts, **dict.fromkeys(left)}))
    free = SimpleNamespace(
        refuse_unknown=lambda _: None, refuse_taken=lambda *_: None, uids=lambda: ()
    )
    verbs._bounds = cast(Any, free)
    slots = (SlotDevices(1, "GPU-1"),)
    params = VmProvisionParams("alloc-1", "base", (KEY,), "tenant", slots)
    for _ in range(2):
        # Once made it is not counted anew.
        verbs._define(cast(Any, SimpleNamespace(params=params)))
    assert held == [False]
    made = Records(tmp_path).get("alloc-1")
    assert made is not None
    assert made.errors == {"GPU-1": {"ecc_uncorrected": 3}}


def test_who_waits_for_a_claim_that_hangs_is_told_so_and_others_do_not_wait() -> None:
    turns = ClaimTurns()
    with turns.alone("a"):
        late = pytest.raises(BackendError, match=r"has not ended in 0\.05 s")
        with late as busy, turns.alone("a", within_s=0.05):
            raise AssertionError
        with turns.alone("b", within_s=0.05):
            pass
    assert (busy.value.code, busy.value.retryable) == ("helper_busy", True)
    assert turns._turns == {}
    with turns.alone("a", within_s=0.05):
        pass


class Hangs:
    """Looks at devices do not come back; what asks for none does."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.begun = threading.Semaphore(0)

    def resume(self) -> None:
        """There are no machines of before."""

    def run(self, request: Request) -> Message | None:
        """One request."""
        if request.verb is Verb.TRUST:
            return Trust(True, "")
        self.begun.release()
        self.free.wait(60)
        return Held((), (), ())


def test_a_host_is_heard_whatever_hangs_in_it(tmp_path: Path) -> None:
    verbs, path = Hangs(), tmp_path / "helper.sock"
    server = HelperServer(path, cast(Any, verbs), {os.geteuid()})
    threading.Thread(target=server.serve, daemon=True).start()
    stuck = [sent(path, Verb.HOLDERS) for _ in range(12)]
    try:
        for _ in stuck:
            assert verbs.begun.acquire(timeout=20)
        for _ in range(20):
            busy = answered(sent(path, Verb.HOLDERS))["problem"]
            assert (busy["code"], busy["retryable"]) == ("helper_busy", True)
            assert answered(sent(path, Verb.TRUST))["done"]["works"] is True
        verbs.free.set()
        assert all("done" in answered(one) for one in stuck)
        assert "done" in answered(sent(path, Verb.HOLDERS))
    finally:
        verbs.free.set()
        server.close()


def sent(path: Path, verb: Verb) -> socket.socket:
    """A request of which the answer is not waited for."""
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(20)
    channel.connect(str(path))
    channel.sendall(json.dumps({"verb": verb.value}).encode() + b"\n")
    return channel


def answered(channel: socket.socket) -> dict[str, Any]:
    """What comes back."""
    with channel, channel.makefile() as lines:
        told: dict[str, Any] = json.loads(lines.readline())
        return told
