"""Does a host go on working while the control plane's key rotates, one process after the other?"""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nodeagent.identity import OVERLAP_S
from nodeagent.protocol import DiscoverParams, TaskKind
from nodeagent.signing import public_text
from tests.nodeagent.conftest import Bench
from tests.nodeagent.control import TOKEN, signed_by

PAGE = b"<html><title>Bad gateway</title></html>"


def asks(bench: Bench, task_id: str, key: Ed25519PrivateKey) -> None:
    """A task that one of the control plane's processes has signed by this key."""
    queued = bench.control.add(TaskKind.DISCOVER, DiscoverParams(), task_id=task_id)
    bench.control.queue[-1] = signed_by(queued, key)


def done(bench: Bench) -> list[str]:
    """The tasks that were done, after some rounds."""
    bench.rounds(3)
    return [task for task, _ in bench.control.completed]


def refused(bench: Bench) -> list[tuple[str, bool]]:
    """What was refused: the code, and whether another lease may be taken."""
    return [(fail.code, fail.retryable) for _, fail in bench.control.failed]


@pytest.fixture
def rotated(bench: Bench) -> tuple[Bench, Ed25519PrivateKey, Ed25519PrivateKey]:
    """A host that has met the new key. With the old key and the new one."""
    bench.rounds(1)
    old, new = bench.control.key, Ed25519PrivateKey.generate()
    bench.control.key = new
    asks(bench, "first", new)
    assert done(bench) == ["first"]
    return bench, old, new


@pytest.mark.parametrize("status", [429, 503])
def test_a_task_is_not_refused_because_the_new_key_could_not_be_asked_for_now(
    bench: Bench, status: int
) -> None:
    bench.rounds(1)
    bench.control.key = Ed25519PrivateKey.generate()
    bench.control.fail_next("credential:renew", status, code="hosts_busy")
    asks(bench, "task-1", bench.control.key)
    assert (done(bench), refused(bench)) == ([], [])
    # Its lease lapses, and it comes again.
    bench.control.queue[-1].leases_left = 1
    assert (done(bench), refused(bench)) == (["task-1"], [])


def test_a_proxy_that_answers_for_the_renewal_refuses_no_task(bench: Bench) -> None:
    bench.rounds(1)
    bench.control.key = Ed25519PrivateKey.generate()
    bench.control.answer_next("credential:renew", 403, PAGE)
    asks(bench, "task-1", bench.control.key)
    assert (done(bench), refused(bench)) == ([], [])
    bench.control.queue[-1].leases_left = 1
    assert done(bench) == ["task-1"]


def test_an_unknown_key_is_refused_for_now_since_the_process_that_was_asked_may_have_the_old_one(
    bench: Bench,
) -> None:
    bench.rounds(1)
    new = Ed25519PrivateKey.generate()
    asks(bench, "task-1", new)
    assert done(bench) == []
    assert refused(bench) == [("signature_invalid", True)]
    bench.control.key = new
    bench.clock.time += 15
    bench.control.queue[-1].leases_left = 1
    assert done(bench) == ["task-1"]


def test_the_key_of_before_is_believed_for_an_hour_also_after_a_restart(
    rotated: tuple[Bench, Ed25519PrivateKey, Ed25519PrivateKey],
) -> None:
    bench, old, new = rotated
    asks(bench, "by-the-old-key", old)
    asks(bench, "by-the-new-key", new)
    assert set(done(bench)) == {"first", "by-the-old-key", "by-the-new-key"}
    bench.clock.time += OVERLAP_S + 60
    asks(bench, "too-late", old)
    assert "too-late" not in done(bench)
    assert refused(bench) == [("signature_invalid", True)]


def test_a_process_with_the_old_key_that_answers_a_renewal_takes_no_belief_from_the_new_one(
    rotated: tuple[Bench, Ed25519PrivateKey, Ed25519PrivateKey],
) -> None:
    bench, old, new = rotated
    bench.clock.time += bench.control.credential_life_s * 0.6
    bench.control.key = old
    bench.rounds(1)
    asks(bench, "by-the-new-key", new)
    asks(bench, "by-the-old-key", old)
    assert set(done(bench)) == {"first", "by-the-old-key", "by-the-new-key"}


def test_a_clock_that_was_set_back_gives_the_key_of_before_no_longer_life(
    rotated: tuple[Bench, Ed25519PrivateKey, Ed25519PrivateKey],
) -> None:
    bench, old, _ = rotated
    bench.clock.time -= 2 * OVERLAP_S
    asks(bench, "before", old)
    assert done(bench) == ["first"]


def test_a_host_that_joins_anew_believes_no_key_of_before(
    rotated: tuple[Bench, Ed25519PrivateKey, Ed25519PrivateKey],
) -> None:
    bench, old, _ = rotated
    assert public_text(old) in (bench.folder / "agent" / "former-key.json").read_text()
    (bench.folder / "join-token").write_text(TOKEN)
    bench.control.fail_next("/tasks:lease", 401, code="credential_invalid")
    bench.rounds(3)
    assert len(bench.control.joins) == 2
    assert not (bench.folder / "agent" / "former-key.json").exists()
    asks(bench, "by-the-old-key", old)
    assert done(bench) == ["first"]


@pytest.mark.parametrize("content", ["", "[]", '{"key": 1, "until": "x"}', '{"key": "no key"}'])
def test_a_damaged_key_of_before_is_none(
    rotated: tuple[Bench, Ed25519PrivateKey, Ed25519PrivateKey], content: str
) -> None:
    bench, _, new = rotated
    (bench.folder / "agent" / "former-key.json").write_text(content)
    asks(bench, "by-the-new-key", new)
    assert done(bench) == ["first", "by-the-new-key"]
