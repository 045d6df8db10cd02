"""How is nothing lost of what a program starts, not even what begins a session of its own?

    python -I -S supervisor.py CGROUP PROGRAM

It starts the program, with its own input and outputs, and ends with the program's status (128 and
the signal's number where one ended it), but only once nothing runs any more of all that was
started: whatever loses its parent becomes this process' child, and the kernel says when it has no
child left. What is left running when the program ends, or when this is told to end (SIGTERM), is
killed. CGROUP is a control group that the program begins in, or empty.

It is a program of its own, and imports nothing of ours, since it starts with each hook.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_SET_CHILD_SUBREAPER = 36
_NOT_STARTED = 126
_LOOK_S = 0.02
_HEARD = (signal.SIGCHLD, signal.SIGTERM)


def main(cgroup: str, program: str) -> int:
    """Start, wait, kill what is left; the status to end with."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.stderr.write(f"no reaper can be set: {os.strerror(ctypes.get_errno())}\n")
        return _NOT_STARTED
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    started = os.fork()
    if started == 0:
        _become(cgroup, program)
    # Its reader waits for the ends of what is written: only the program may hold them.
    for number in (0, 1):
        os.close(number)
    return _outlive(started)


def _become(cgroup: str, program: str) -> None:
    """Be the program; does not return."""
    try:
        # A group of its own: who signals its own group must not hit its supervisor.
        os.setpgid(0, 0)
        if cgroup:
            with open(f"{cgroup}/cgroup.procs", "w", encoding="ascii") as procs:
                procs.write("0")
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        os.execv(program, [program])
    except OSError as error:
        with contextlib.suppress(OSError):
            os.write(2, f"it cannot be started: {error.strerror}\n".encode())
    os._exit(_NOT_STARTED)


def _outlive(started: int) -> int:
    """Wait for the program or the order to end, then until nothing of it is left."""
    status, ending = _NOT_STARTED, False
    while True:
        with contextlib.suppress(ChildProcessError):
            while (gone := os.waitpid(-1, os.WNOHANG))[0]:
                if gone[0] == started:
                    code = os.waitstatus_to_exitcode(gone[1])
                    status, ending = (code if code >= 0 else 128 - code), True
        if ending:
            _kill_children()
            if _childless():
                return status
        heard = signal.sigtimedwait(_HEARD, _LOOK_S if ending else 60.0)
        if heard is not None and heard.si_signo == signal.SIGTERM:
            status, ending = 128 + signal.SIGTERM, True


def _childless() -> bool:
    """By the kernel's own word, which no look at a list of processes could be."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _kill_children() -> None:
    """Whose numbers are nobody else's until they are waited for; theirs become ours, and follow."""
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as told:
                # Its name stands in parentheses and may hold anything.
                parent = told.read().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            continue
        if parent == own:
            with contextlib.suppress(OSError):
                os.kill(int(name), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
