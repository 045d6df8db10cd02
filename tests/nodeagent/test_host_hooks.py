"""Are programs run by path and without a shell, bounded in time and output, their status mapped?"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.backend import BackendError
from nodeagent.host.commands import CommandError, run
from nodeagent.host.config import Hook
from nodeagent.host.hooks import Hooks

Write = Callable[..., Hooks]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the network hook as a small program and gives the hooks."""

    def made(body: str, timeout_s: float = 20.0) -> Hooks:
        path = tmp_path / "network"
        path.write_text(f"#!{sys.executable} -SE\nimport json, os, sys, time\n{body}\n")
        path.chmod(0o755)
        return Hooks({"network": Hook(path, timeout_s)})

    return made


def refused(hooks: Hooks, **arguments: Any) -> BackendError:
    """The error that a call gives."""
    with pytest.raises(BackendError) as error:
        hooks.call("network", "attach", **arguments)
    return error.value


def test_a_hook_gets_one_object_and_nothing_else(write: Write, tmp_path: Path) -> None:
    hooks = write(
        f"""
told = json.load(sys.stdin)
open({str(tmp_path / "seen")!r}, "w").write(json.dumps([told, sys.argv[1:], sorted(os.environ)]))
print(json.dumps({{"method": "tap_bridge", "detail": "x", "tap": "tap7", "host": "10.0.0.7"}}))
"""
    )
    os.environ["A_SECRET_OF_THE_AGENT"] = "1"
    try:
        answer = hooks.call("network", "attach", claim="c; rm -rf /", slots=[0, 1])
    finally:
        del os.environ["A_SECRET_OF_THE_AGENT"]
    told, arguments, environment = json.loads((tmp_path / "seen").read_text())
    assert told == {"action": "attach", "claim": "c; rm -rf /", "slots": [0, 1]}
    assert arguments == []
    assert "A_SECRET_OF_THE_AGENT" not in environment
    assert (answer.method, answer.tap(), answer.host(), answer.port()) == (
        "tap_bridge",
        "tap7",
        "10.0.0.7",
        22,
    )


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (1, "hook_failed", True),
        (10, "hook_refused", False),
        (11, "hook_busy", True),
        (12, "prerequisite_missing", True),
        (255, "hook_failed", True),
    ],
)
def test_a_status_has_its_fixed_meaning(
    write: Write, status: int, code: str, retryable: bool
) -> None:
    error = refused(write(f"print('the reason', file=sys.stderr); sys.exit({status})"))
    assert (error.code, error.retryable) == (code, retryable)
    assert "the reason" in error.detail


@pytest.mark.parametrize(
    "body",
    [
        "print('not json')",
        "print('[]')",
        "print('{}')",
        "print(json.dumps({'method': 'No Name'}))",
        "print(json.dumps({'method': 'x', 'detail': 7}))",
        "sys.stdout.buffer.write(bytes(10))",
        "print('{' * 100000)",
    ],
)
def test_an_answer_that_is_none_is_a_failure(write: Write, body: str) -> None:
    assert refused(write(body)).code == "hook_failed"


@pytest.mark.parametrize(
    ("member", "value"),
    [("tap", "tap7,script=/bin/sh"), ("tap", "../x"), ("host", "a b"), ("port", 0), ("port", "22")],
)
def test_what_a_hook_names_is_typed_too(write: Write, member: str, value: object) -> None:
    answer = {"method": "x", "tap": "tap7", "host": "10.0.0.7", "port": 22, member: value}
    hooks = write(f"print(json.dumps({answer!r}))")
    answered = hooks.call("network", "attach")
    with pytest.raises(BackendError, match="no usable"):
        {"tap": answered.tap, "host": answered.host, "port": answered.port}[member]()


def test_a_hook_that_hangs_is_killed_with_what_it_started(write: Write, tmp_path: Path) -> None:
    mark = tmp_path / "child"
    hooks = write(
        f"""
if os.fork() == 0:
    open({str(mark)!r}, "w").write(str(os.getpid()))
time.sleep(60)
""",
        0.5,
    )
    began = time.monotonic()
    assert refused(hooks).code == "hook_timeout"
    assert time.monotonic() - began < 10
    child = Path("/proc") / mark.read_text() / "stat"
    end = time.monotonic() + 10
    gone = False
    while not gone and time.monotonic() < end:
        try:
            gone = child.read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            gone = True
    assert gone


def test_a_hook_that_does_not_stop_talking_is_killed(write: Write) -> None:
    assert refused(write("while True: print('x' * 1000)")).code == "hook_failed"


def test_a_hook_that_others_may_write_to_is_not_run(write: Write, tmp_path: Path) -> None:
    hooks = write("print(json.dumps({'method': 'x'}))")
    (tmp_path / "network").chmod(0o775)
    assert refused(hooks).code == "prerequisite_missing"


def test_a_hook_of_another_user_is_not_run(write: Write, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    hooks = write("print(json.dumps({'method': 'x'}))")
    os.chown(tmp_path / "network", 65_534, 65_534)
    assert refused(hooks).code == "prerequisite_missing"


def test_a_hook_that_is_not_configured_or_not_there_is_named(tmp_path: Path) -> None:
    for hooks in (Hooks({}), Hooks({"network": Hook(tmp_path / "none")})):
        error = refused(hooks)
        assert error.code == "prerequisite_missing"
        assert "network" in error.detail


def test_a_program_is_run_by_its_full_path_only() -> None:
    for argv in (["sh", "-c", "id"], [], [""]):
        with pytest.raises(CommandError, match="full path"):
            run(argv, timeout_s=5)


def test_arguments_are_not_read_by_a_shell(tmp_path: Path) -> None:
    ran = run(["/bin/echo", "$(id)", "; id", "*"], timeout_s=5)
    assert ran.output == b"$(id) ; id *\n"


def test_a_large_input_and_a_reader_that_does_not_read_are_both_fine() -> None:
    assert run(["/bin/cat"], timeout_s=10, given=b"x" * 60_000).output == b"x" * 60_000
    assert run(["/bin/true"], timeout_s=10, given=b"x" * 1_000_000).status == 0
