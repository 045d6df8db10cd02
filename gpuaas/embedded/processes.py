"""How is a child process started so that it cannot outlive us, and found again if it does?"""

import contextlib
import ctypes
import os
import pwd
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Below the range from which the kernel takes client ports, so that a remembered port is not
# taken by somebody's outgoing connection in the meantime.
PORTS = range(15000, 30000)
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class RunAs:
    """The account a child runs as when we are root and the child refuses to be."""

    name: str
    uid: int
    gid: int


def unprivileged_account() -> RunAs | None:
    """``nobody`` when we are root, else None: we are unprivileged ourselves."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return RunAs(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


LIBC = _libc()


def die_with_parent(signum: signal.Signals) -> Callable[[], None]:
    """A function for the child's side of a fork: it asks the kernel for ``signum`` when we die.

    On Linux only; elsewhere the next start finds and ends what was left behind.
    """
    parent = os.getpid()

    def ask() -> None:
        if LIBC is None:
            return
        LIBC.prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
        if os.getppid() != parent:  # we died between the fork and the request
            os._exit(1)

    return ask


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    run_as: RunAs | None = None,
    on_parent_death: signal.Signals = signal.SIGTERM,
    listens: bool = False,
) -> "subprocess.Popen[bytes]":
    """Starts a child in a process group of its own, its output appended to ``log``.

    With ``listens`` its input is a pipe from us, else it has none. Call it from the main
    thread: the kernel ties the death signal to the calling thread.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
            user=run_as.uid if run_as else None,
            group=run_as.gid if run_as else None,
            extra_groups=[] if run_as else None,
            # Runs after the change of user, which would have cleared the request.
            preexec_fn=die_with_parent(on_parent_death),
        )


def free_port(avoid: Sequence[int] = ()) -> int:
    """A loopback port nobody listens on now. Raises OSError when a hundred tries find none."""
    for _ in range(100):
        port = random.choice(PORTS)
        if port not in avoid and port_is_free(port):
            return port
    raise OSError("no free port was found on 127.0.0.1")


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now (a port in TIME_WAIT counts as free)."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] != "Z"
    return True


def command_line(pid: int) -> str:
    """The command line of a process as one text; '' when there is no such process."""
    proc = Path(f"/proc/{pid}/cmdline")
    try:
        return proc.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        if Path("/proc/self").exists():
            return ""
    shown = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip()


def signal_group(pid: int, signum: signal.Signals) -> None:
    """Signals the whole process group that ``spawn`` made; nothing when it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)


def end_group(pid: int, *, first: signal.Signals = signal.SIGTERM, grace_s: float = 5.0) -> None:
    """Ends a process group that is not our child: politely, then for good."""
    signal_group(pid, first)
    wait_until(lambda: not alive(pid), grace_s)
    signal_group(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), 2.0)


def wait_until(done: Callable[[], bool], timeout_s: float, *, every_s: float = 0.02) -> bool:
    """Polls until ``done`` or the time is over; says whether it was done."""
    deadline = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(every_s)
    return True
