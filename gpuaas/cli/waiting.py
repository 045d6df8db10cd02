"""How does a person see an operation move while the command waits for it?"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from gpuaas.cli import values
from gpuaas.cli.describe import step_line
from gpuaas.cli.kinds import OPERATION, target
from gpuaas.cli.output import Output, styled
from gpuaas.cli.problems import Json
from gpuaas.cli.session import Session


class Progress:
    """Says each change of an operation once: a line a change, plus a spinner on a terminal."""

    def __init__(self, out: Output, status: Status | None = None) -> None:
        self._out = out
        self._status = status
        self._said: set[str] = set()
        self._last = ""

    def show(self, operation: Json) -> None:
        """Say what is new in this answer."""
        for step in operation.get("steps") or []:
            if isinstance(step, dict) and step.get("state") in {"pending", "waiting", None}:
                continue
            self._once(styled(f"  {step_line(step)}").plain)
        progress = operation.get("progress") or {}
        now = " ".join(
            values.text(part)
            for part in (
                operation.get("state"),
                progress.get("step"),
                f"{progress['percent']}%" if progress.get("percent") is not None else None,
                progress.get("message"),
            )
            if part
        )
        if self._status is not None:
            self._status.update(now)
        elif not operation.get("steps") and now != self._last:
            self._out.say(f"  {now}")
        self._last = now

    def _once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._out.say(line)


@contextmanager
def progress(out: Output) -> Iterator[Progress]:
    """Progress on standard error; animated only where that is a terminal."""
    if not out.animate:
        yield Progress(out)
        return
    with Console(file=out.stderr).status("waiting") as status:
        yield Progress(out, status)


def is_operation(answer: Json) -> bool:
    """Whether an answer is an operation to follow rather than a finished object."""
    return "state" in answer and "kind" in answer and ("done" in answer or "progress" in answer)


def follow(session: Session, operation: Json) -> Json:
    """Wait for the operation with progress shown; returns it once it has succeeded.

    Raises OperationFailed, WaitTimeout. Ctrl-C leaves the operation running and says so.
    """
    key = str(operation["id"])
    started = time.monotonic()
    about = target(operation)
    session.out.say(f"{values.text(operation.get('kind'))} {about}: waiting for operation {key}")
    try:
        with progress(session.out) as shown:
            done = session.client.operations.wait(
                key, timeout_s=session.wait_s, on_change=shown.show
            )
    except KeyboardInterrupt:
        session.out.error(f"interrupted; the operation goes on: gpuaas operation describe {key}")
        raise
    session.out.say(f"succeeded in {values.span(time.monotonic() - started)}")
    return done


def outcome(session: Session, operation: Json) -> Json | None:
    """After a call that started an operation: wait for it when asked, else show it.

    Returns the finished operation, or None when it was only shown.
    """
    if session.wait:
        return follow(session, operation)
    session.out.items(OPERATION, [operation])
    session.out.say(f"follow it: gpuaas operation describe {operation.get('id')} --wait")
    return None
