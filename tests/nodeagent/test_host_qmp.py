"""Is a QEMU that a guest has taken over answered with an error, in bounded time and memory?"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodeagent.host.qmp import QmpError, connected, machine_uuid, run_state, thread_ids
from nodeagent.host.runtime.process import state

GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\n'


@contextmanager
def speaking(path: Path, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """Something that listens where QEMU would."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve() -> None:
        channel, _ = listener.accept()
        with channel:
            try:
                talk(channel)
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        listener.close()


def answering(*answers: object) -> Callable[[socket.socket], None]:
    """Greets, takes the capabilities, and answers the next commands so."""

    def talk(channel: socket.socket) -> None:
        channel.sendall(GREETING)
        for answer in ({"return": {}}, *answers):
            channel.recv(65_536)
            channel.sendall(json.dumps(answer).encode() + b"\n")

    return talk


def drip(channel: socket.socket) -> None:
    """One byte after the other, each in good time."""
    for _ in range(40):
        channel.sendall(b" ")
        time.sleep(0.05)


def test_events_between_command_and_answer_are_passed_over(tmp_path: Path) -> None:
    def talk(channel: socket.socket) -> None:
        channel.sendall(GREETING)
        channel.recv(65_536)
        channel.sendall(b'{"event": "RESUME"}\n{"return": {}}\n')
        channel.recv(65_536)
        channel.sendall(b'{"event": "STOP"}\n{"event": "X"}\n{"return": {"status": "paused"}}\n')

    with speaking(tmp_path / "q", talk), connected(tmp_path / "q") as qmp:
        assert run_state(qmp) == "paused"


@pytest.mark.parametrize(
    ("answer", "ask"),
    [
        ({"error": {"class": "GenericError", "desc": "no"}}, run_state),
        ({"return": []}, run_state),
        ({"return": {"status": 7}}, run_state),
        ({"return": {}}, machine_uuid),
        ({"return": {}}, thread_ids),
        ({"return": [{"thread-id": 1}]}, thread_ids),
        ({"return": [{"thread-id": "2"}]}, thread_ids),
        ([], run_state),
    ],
)
def test_an_answer_out_of_form_is_an_error(
    tmp_path: Path, answer: object, ask: Callable[[object], object]
) -> None:
    with (
        speaking(tmp_path / "q", answering(answer)),
        connected(tmp_path / "q") as qmp,
        pytest.raises(QmpError),
    ):
        ask(qmp)


@pytest.mark.parametrize(
    "talk",
    [
        lambda channel: None,
        lambda channel: channel.sendall(b"not json\n"),
        lambda channel: channel.sendall(b"{}\n"),
        lambda channel: channel.sendall(b"[" * 100_000 + b"\n"),
        lambda channel: [channel.sendall(b"x" * 65_536) for _ in range(64)],
        drip,
    ],
)
def test_one_who_does_not_greet_is_left(
    tmp_path: Path, talk: Callable[[socket.socket], None]
) -> None:
    began = time.monotonic()
    with (
        speaking(tmp_path / "q", talk),
        pytest.raises(QmpError),
        connected(tmp_path / "q", timeout_s=0.5),
    ):
        pass
    assert time.monotonic() - began < 5


def test_a_machine_that_does_not_answer_is_unknown_not_stopped(tmp_path: Path) -> None:
    assert state(tmp_path / "none") == "unknown"
    with speaking(tmp_path / "q", lambda channel: channel.sendall(b"?\n")):
        assert state(tmp_path / "q") == "unknown"
