"""Does an agent live through what its operator forgot, and what became of its own disk?"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.identity import AgentHome, HomeUnusable
from nodeagent.journal import Entry, Journal
from nodeagent.protocol import DiscoverParams, TaskKind
from nodeagent.simhost.agent import SimAgent
from tests.nodeagent.conftest import Bench
from tests.nodeagent.control import TOKEN

# What a newcomer leaves behind


def test_an_agent_without_a_token_says_once_what_it_waits_for(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    (bench.folder / "join-token").unlink()
    with caplog.at_level(logging.WARNING, "nodeagent"):
        bench.rounds(5)
    (said,) = [one.getMessage() for one in caplog.records]
    assert "has not joined" in said
    assert "join-token" in said


def test_a_token_that_the_agent_may_not_read_is_said_once_and_taken_when_it_may(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    # Root reads everything: a folder in its place is as unreadable to it.
    (bench.folder / "join-token").unlink()
    (bench.folder / "join-token").mkdir()
    with caplog.at_level(logging.WARNING, "nodeagent"):
        bench.rounds(4)
    said = [one for one in caplog.records if "cannot be read" in one.getMessage()]
    assert len(said) == 1
    assert all(one.exc_info is None for one in caplog.records)
    (bench.folder / "join-token").rmdir()
    (bench.folder / "join-token").write_text(TOKEN)
    bench.rounds(1)
    assert len(bench.control.joins) == 1


@pytest.mark.parametrize(
    "content", [TOKEN + "\r\n", "\n" + TOKEN + " \n", TOKEN + "\n" * 200], ids=range(3)
)
def test_a_token_with_blanks_around_it_is_the_token(bench: Bench, content: str) -> None:
    (bench.folder / "join-token").write_text(content)
    bench.rounds(1)
    assert len(bench.control.observed) == 1


def test_a_refused_token_is_said_in_the_control_planes_words(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    detail = "This invitation has expired. Create a new one."
    bench.control.fail_next("/join", 401, code="join_token_invalid", detail=detail)
    with caplog.at_level(logging.WARNING, "nodeagent"):
        bench.rounds(2)
    assert any(detail in one.getMessage() for one in caplog.records)
    assert (bench.folder / "agent" / "join-token.refused").exists() or (
        bench.folder / "join-token.refused"
    ).exists()


# The agent's own disk


@pytest.mark.parametrize("content", [b"", b"\0" * 200, b"{", b"[]", b'{"sequence": "x"}', b"null"])
def test_counters_that_a_power_cut_has_emptied_cost_no_report_for_long(
    bench: Bench, content: bytes
) -> None:
    bench.rounds(6)
    (bench.folder / "agent" / "counters.json").write_bytes(content)
    taken = len(bench.control.observed)
    seen = bench.control.observed[-1].seq
    for _ in range(4):
        # As the control plane does with a number that it has seen.
        bench.control.fail_next("/observed", 409, code="observed_stale")
    bench.clock.time += 60
    bench.rounds(6)
    bench.clock.time += 60
    bench.rounds(1)
    assert len(bench.control.observed) > taken
    assert bench.control.observed[-1].seq > seen
    assert bench.control.problems == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"node_id": "x"}', b'{"more": 1}'])
def test_an_identity_that_is_damaged_is_none_and_a_new_token_joins_again(
    bench: Bench, content: bytes
) -> None:
    bench.rounds(1)
    (bench.folder / "agent" / "identity.json").write_bytes(content)
    bench.rounds(2)
    (bench.folder / "join-token").write_text(TOKEN)
    bench.rounds(2)
    assert len(bench.control.joins) == 2
    assert len({join.public_key for join in bench.control.joins}) == 1


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_key_that_is_none_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "agent.key").write_bytes(content)
    with pytest.raises(HomeUnusable, match="is no key"):
        AgentHome(tmp_path)
    assert (tmp_path / "agent.key").read_bytes() == content


def test_a_folder_that_cannot_be_used_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "agent").write_text("a file")
    with pytest.raises(HomeUnusable, match="must be able to write"):
        AgentHome(tmp_path / "agent")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bool]]:
    """A disk that is full while `now` is true: what exists may be read and cut, nothing grows."""
    state = {"now": False}
    real_open, real_write = os.open, os.write

    def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if state["now"] and flags & os.O_CREAT and not os.path.exists(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return real_open(path, flags, *rest, **more)

    def wrote(descriptor: int, content: Any) -> int:
        if state["now"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(descriptor, content)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "write", wrote)
    yield state
    state["now"] = False


def test_an_agent_that_starts_on_a_full_disk_is_heard_and_shows_no_traceback(
    bench: Bench, full: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    bench.rounds(2)
    told = len(bench.control.observed)
    journal = bench.folder / "agent" / "journal.jsonl"
    with journal.open("ab") as stream:
        stream.write(b'{"fact":"accepted","task":"torn')
    full["now"] = True
    bench.control.add(TaskKind.DISCOVER, DiscoverParams(), task_id="task-2")
    with caplog.at_level(logging.WARNING, "nodeagent"):
        bench.clock.time += 60
        bench.rounds(3)
    assert len(bench.control.observed) > told
    assert [task for task, _ in bench.control.completed] == ["task-1"]
    assert all(one.exc_info is None for one in caplog.records), caplog.text
    assert "No space left" in caplog.text
    full["now"] = False
    bench.control.add(TaskKind.DISCOVER, DiscoverParams(), task_id="task-3")
    bench.rounds(3)
    assert [task for task, _ in bench.control.completed][-1] == "task-3"
    assert Journal(journal).entry("task-3") is not None


def test_a_torn_line_on_a_full_disk_does_not_take_the_next_one_with_it(
    tmp_path: Path, full: dict[str, bool]
) -> None:
    path = tmp_path / "journal.jsonl"
    first = Journal(path)
    first.accept(Entry("task-1", 1, "slice.topology_discover", None, "boot-0001"))
    with path.open("ab") as stream:
        stream.write(b'{"fact":"acc')
    full["now"] = True
    second = Journal(path)
    full["now"] = False
    second.accept(Entry("task-2", 1, "slice.topology_discover", None, "boot-0001"))
    third = Journal(path)
    assert third.entry("task-1") is not None
    assert third.entry("task-2") is not None


def test_a_result_that_cannot_be_written_down_is_one_line_and_asked_for_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "journal.jsonl")

    async def story(agent: SimAgent) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(agent.journal, "finish", refuse)
            await agent.step()
            await agent.settle()
        await agent.step()

    bench.control.add(TaskKind.DISCOVER, DiscoverParams())
    with caplog.at_level(logging.WARNING, "nodeagent"):
        bench.run(story)
    assert bench.control.completed == []
    assert "Read-only file system" in caplog.text
    assert all(one.exc_info is None for one in caplog.records)
    bench.control.add(TaskKind.DISCOVER, DiscoverParams(), epoch=2)
    bench.rounds(3)
    assert [done.lease_epoch for _, done in bench.control.completed] == [2]
