"""How does an operator's own program do its part of the work?

A hook is an executable that the configuration names. It gets one JSON object on standard input and
answers with one on standard output; no argument, no environment and no shell. What its exit status
means is fixed here.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodeagent.backend import BackendError
from nodeagent.host.commands import CommandError, Ran, run_held
from nodeagent.host.config import Hook
from nodeagent.host.runtime.sessions import Session
from nodeagent.protocol import FailureCode, WireError, load_json

# Exit status -> (code, whether the same call may succeed later). 0 is success.
EXIT_CODES: Mapping[int, tuple[str, bool]] = {
    10: ("hook_refused", False),
    11: ("hook_busy", True),
    12: (FailureCode.PREREQUISITE_MISSING.value, True),
}
LIMIT_REACHED = "limit_reached"
STOPPED = "hook_stopped"
_METHOD = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAP = re.compile(r"[a-z][a-z0-9_-]{0,14}")
_HOST = re.compile(r"[A-Za-z0-9.:_-]{1,253}")


@dataclass(frozen=True)
class Answer:
    """What a hook says it did. method: for the evidence, lower_snake."""

    method: str
    detail: str
    facts: Mapping[str, Any]

    def tap(self) -> str:
        """The name of the tap device in the answer. Raises BackendError."""
        return str(self._matching("tap", _TAP))

    def host(self) -> str:
        """The address in the answer. Raises BackendError."""
        return str(self._matching("host", _HOST))

    def port(self) -> int:
        """The port in the answer; 22 when it names none. Raises BackendError."""
        value = self.facts.get("port", 22)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 65_535:
            raise _broken("port")
        return value

    def _matching(self, name: str, pattern: re.Pattern[str]) -> str:
        value = self.facts.get(name)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise _broken(name)
        return value


class Hooks:
    """The operator's hooks, by name."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks = hooks

    def path(self, name: str) -> Path | None:
        """Where a hook's program is; None where none is configured."""
        hook = self._hooks.get(name)
        return None if hook is None else hook.path

    def call(
        self,
        name: str,
        action: str,
        /,
        *,
        within_s: float | None = None,
        stop: threading.Event | None = None,
        started: Callable[[Session], None] | None = None,
        **arguments: Any,
    ) -> Answer:
        """Run a hook to its end, or to its limit; within_s shortens that, stop ends it.

        started: told the hook's session. Raises BackendError with a code that says what went
        wrong: hook_timeout where the hook's own limit was reached, limit_reached where it was
        within_s, hook_stopped where it was `stop`.
        """
        hook = self._hooks.get(name)
        if hook is None:
            raise BackendError(
                FailureCode.PREREQUISITE_MISSING, f"no {name} hook is configured", retryable=True
            )
        _check_file(name, hook)
        given = json.dumps({"action": action, **arguments}, separators=(",", ":")).encode()
        try:
            limit = hook.timeout_s if within_s is None else min(hook.timeout_s, within_s)
            ran = run_held(hook.path, timeout_s=limit, given=given, stop=stop, started=started)
        except CommandError as error:
            code = "hook_failed"
            if error.code == "timed_out":
                own = within_s is None or hook.timeout_s < within_s
                code = "hook_timeout" if own else LIMIT_REACHED
            elif error.code == "stopped":
                code = STOPPED
            raise BackendError(code, f"{name}: {error.detail}", retryable=True) from error
        if ran.status != 0:
            code, retryable = EXIT_CODES.get(ran.status, ("hook_failed", True))
            detail = f"{name} {action} ended with status {ran.status}: {ran.complaint}"
            raise BackendError(code, detail, retryable=retryable)
        return _answer(name, ran)


def _check_file(name: str, hook: Hook) -> None:
    """A hook that others than its owner may change would run their code with our rights."""
    try:
        found = hook.path.stat()
    except OSError as error:
        detail = f"the {name} hook cannot be read: {error.strerror}"
        raise BackendError(FailureCode.PREREQUISITE_MISSING, detail, retryable=True) from error
    writable = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ours = found.st_uid in (0, os.geteuid())
    if not stat.S_ISREG(found.st_mode) or writable or not ours:
        raise BackendError(
            FailureCode.PREREQUISITE_MISSING,
            f"the {name} hook must be a file of root's that only root may write",
            retryable=True,
        )


def _answer(name: str, ran: Ran) -> Answer:
    try:
        raw = load_json(ran.output)
    except WireError as error:
        raise BackendError("hook_failed", f"{name} answered no JSON", retryable=True) from error
    if not isinstance(raw, dict):
        raise BackendError("hook_failed", f"{name} answered no object", retryable=True)
    method, detail = raw.pop("method", None), raw.pop("detail", "")
    if not isinstance(method, str) or not _METHOD.fullmatch(method) or not isinstance(detail, str):
        raise BackendError("hook_failed", f"{name} named no method", retryable=True)
    return Answer(method, f"{detail[:1000]}; {ran.held}".removeprefix("; "), raw)


def _broken(name: str) -> BackendError:
    return BackendError("hook_failed", f"the hook's answer has no usable {name}", retryable=True)
