"""Which process is a claim's machine, and how is it started, pinned and ended?

A machine is a process group of its own that outlives whoever started it. It is found by the UUID
among its arguments, checked by its start time, and signalled through a pidfd, so that a number that
the kernel has given to another process meanwhile is never hit.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nodeagent.host.commands import ENVIRONMENT
from nodeagent.host.qmp import QmpError, connected, machine_uuid, run_state, thread_ids
from nodeagent.host.records import NO_UID
from nodeagent.host.runtime.owners import Owner, user_of

_PROC = Path("/proc")
_QUIT_S = 10.0
# The kernel has to unpin and free what a machine had before its process is gone.
_KILL_S = 180.0


class StartFailed(Exception):
    """QEMU ended or never answered; the text is what it said."""


@dataclass(frozen=True)
class Machine:
    """A running QEMU. started: its start time in clock ticks since boot. uid: whom it runs as."""

    pid: int
    started: int
    argv: tuple[str, ...]
    uid: int = NO_UID

    @property
    def uuid(self) -> str:
        """The UUID among its arguments, '' when there is none."""
        return _after(self.argv, "-uuid")

    @property
    def name(self) -> str:
        """Its name, '' when it has none."""
        return _after(self.argv, "-name").removeprefix("guest=").partition(",")[0]

    def bears(self, mark: str) -> bool:
        """Whether this text is in one of its arguments."""
        return any(mark in word for word in self.argv)

    @property
    def functions(self) -> tuple[str, ...]:
        """The PCI addresses that were handed to it."""
        parts = (
            part for word in self.argv if word.startswith("vfio-pci,") for part in word.split(",")
        )
        return tuple(part.removeprefix("host=") for part in parts if part.startswith("host="))


def machines(proc: Path = _PROC) -> list[Machine]:
    """Every machine on this host, ours or not."""
    found = []
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            machine = _machine(entry)
            if machine is not None:
                found.append(machine)
    return sorted(found, key=lambda one: one.pid)


def find(uuid: str, mark: str, uid: int = NO_UID, proc: Path = _PROC) -> Machine | None:
    """The machine with this UUID, started here: the mark is among its arguments.

    uid: of the user that it must run as, since anybody may write those arguments.
    """
    found = (one for one in machines(proc) if one.uuid == uuid and one.bears(mark))
    return next((one for one in found if uid in (NO_UID, one.uid)), None)


def start(
    argv: Sequence[str], uuid: str, qmp_socket: Path, owner: Owner | None, within_s: float
) -> Machine:
    """Start a machine, stopped, and return it when it answers.

    Raises StartFailed, also when it does not answer within that time.
    """
    qmp_socket.unlink(missing_ok=True)
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=ENVIRONMENT,
            cwd="/",
            umask=0o077,
            user=owner.uid if owner else None,
            group=owner.gid if owner else None,
            extra_groups=owner.groups if owner else None,
        )
    except OSError as error:
        raise StartFailed(f"{argv[0]}: {error.strerror}") from error
    _children.append(process)
    assert process.stderr is not None
    with process.stderr as complaints:
        deadline = time.monotonic() + within_s
        while process.poll() is None and time.monotonic() < deadline:
            machine = _machine(_PROC / str(process.pid))
            if machine is not None and _answers(qmp_socket, uuid):
                return machine
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()
            process.wait()
        said = complaints.read(4096).decode("utf-8", "replace").strip()
    raise StartFailed(said[-800:] or f"QEMU did not answer within {within_s:.0f} seconds")


def go(machine: Machine, qmp_socket: Path, pins: Sequence[int], proc: Path = _PROC) -> None:
    """Pin a machine that was started stopped, and let it run; one that runs is left alone.

    A guest that has taken over its QEMU may name any thread of the host: only those of the
    machine's own process are pinned. Raises QmpError, StartFailed, or OSError when a CPU is not
    there.
    """
    with connected(qmp_socket) as qmp:
        if run_state(qmp) not in ("prelaunch", "inmigrate"):
            return
        if pins:
            _pin(thread_ids(qmp), pins, proc / str(machine.pid) / "task")
        qmp.command("cont")


def _pin(named: Sequence[int], pins: Sequence[int], threads: Path) -> None:
    """Each named thread to its CPU, once all of them are the process' own. Raises StartFailed."""
    if len(named) != len(pins):
        raise StartFailed(f"it names {len(named)} virtual CPUs instead of {len(pins)}")
    foreign = [one for one in named if not (threads / str(one)).is_dir()]
    if foreign:
        raise StartFailed(f"it names thread {foreign[0]}, which is not its own")
    for thread, cpu in zip(named, pins, strict=True):
        os.sched_setaffinity(thread, {cpu})


def state(qmp_socket: Path) -> str:
    """QEMU's word for what the machine does; 'unknown' when it does not answer."""
    try:
        with connected(qmp_socket, timeout_s=2.0) as qmp:
            return run_state(qmp)
    except QmpError:
        return "unknown"


def end(machine: Machine, qmp_socket: Path, grace_s: float) -> str:
    """End a machine and return how: asked, told or killed. Raises StartFailed when it stays.

    It may shut down by itself for grace_s seconds, then QEMU is told to quit, then killed.
    """
    with _pidfd(machine) as handle:
        if handle is None:
            return "had_ended"
        if grace_s > 0 and _told(qmp_socket, "system_powerdown") and _gone(handle, grace_s):
            return "guest_shut_down"
        if _told(qmp_socket, "quit") and _gone(handle, _QUIT_S):
            return "qmp_quit"
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        if _gone(handle, _KILL_S):
            return "killed"
    raise StartFailed(f"process {machine.pid} does not end, not even when killed")


def end_user(uid: int, proc: Path = _PROC) -> list[int]:
    """Kill whatever still runs as a machine's own user; gives the processes that stay.

    The user is nobody else's, so whatever it runs was left behind by its machine.
    """
    _reap()
    handles: dict[int, int] = {}
    try:
        for entry in proc.iterdir():
            if not entry.name.isdecimal() or user_of(entry) != uid:
                continue
            with contextlib.suppress(ProcessLookupError):
                handles[int(entry.name)] = os.pidfd_open(int(entry.name))
                # Between the look and the handle the number may have gone to another process.
                if user_of(entry) == uid:
                    signal.pidfd_send_signal(handles[int(entry.name)], signal.SIGKILL)
        return sorted(pid for pid, handle in handles.items() if not _gone(handle, _KILL_S))
    finally:
        for handle in handles.values():
            os.close(handle)
        _reap()


_children: list[subprocess.Popen[bytes]] = []


def _reap() -> None:
    """Take note of the ends of machines that this process has started."""
    _children[:] = [child for child in _children if child.poll() is None]


def _machine(entry: Path) -> Machine | None:
    try:
        argv = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
        # The name is in parentheses and may hold anything; the start time is field 22.
        fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        started = int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
    program = os.path.basename(argv[0]) if argv else ""
    named = _after(argv, "-name").startswith("guest=gpuaas-")
    if not program.startswith(("qemu-system-", "qemu-kvm")) and not named:
        return None
    uid = user_of(entry)
    return None if uid is None else Machine(int(entry.name), started, tuple(argv), uid)


def _after(argv: Sequence[str], option: str) -> str:
    """The word after an option."""
    return next((argv[place + 1] for place, word in enumerate(argv[:-1]) if word == option), "")


def _answers(qmp_socket: Path, uuid: str) -> bool:
    try:
        with connected(qmp_socket) as qmp:
            return machine_uuid(qmp) == uuid
    except QmpError:
        return False


def _told(qmp_socket: Path, command: str) -> bool:
    try:
        with connected(qmp_socket) as qmp:
            qmp.command(command)
    except QmpError:
        return command == "quit"
    return True


@contextlib.contextmanager
def _pidfd(machine: Machine) -> Iterator[int | None]:
    """A handle on exactly this process; None when it has ended."""
    _reap()
    try:
        handle = os.pidfd_open(machine.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        now = _machine(_PROC / str(machine.pid))
        yield handle if now is not None and now.started == machine.started else None
    finally:
        os.close(handle)
        _reap()


def _gone(handle: int, seconds: float) -> bool:
    """Whether the process ends within that time."""
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(seconds * 1000))
