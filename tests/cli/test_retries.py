"""Does a call take effect once, whatever the network does to it?"""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gpuaas.cli.client import Client, ProblemError
from gpuaas.cli.problems import TransportError
from tests.cli.conftest import Run
from tests.cli.fake_server import TOKEN, Call, FakeServer, Reply, in_turn, listing, problem

OPERATION = {
    "id": "op-1",
    "kind": "allocation.provision",
    "target": {"kind": "allocation", "id": "a-1"},
    "state": "pending",
    "done": False,
}
CREATE = ("allocation", "create", "--sku", "h100-slice", "-p", "research", "-o", "json")
ALLOCATIONS = "/projects/research/allocations"


def test_a_lost_reply_is_asked_for_again_with_the_same_key(
    run: Run, server: FakeServer, naps: list[float]
) -> None:
    made: dict[str, Reply] = {}

    def create(call: Call) -> Reply:
        if call.key in made:
            return made[call.key]
        made[call.key] = Reply(202, OPERATION)
        return Reply(lost=True)

    server.on("POST", ALLOCATIONS, create)
    result = run(*CREATE)
    assert result.exit_code == 0
    first, second = server.sent("POST", ALLOCATIONS)
    assert first.key == second.key != ""
    assert first.body == second.body == {"sku": "h100-slice"}
    assert len(made) == 1
    assert len(naps) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_passing_failure_is_tried_again_with_the_same_key(
    run: Run, server: FakeServer, naps: list[float], status: int
) -> None:
    refusal = problem(status, "service_unavailable", "come back")
    server.on("POST", ALLOCATIONS, in_turn(refusal, refusal, Reply(202, OPERATION)))
    assert run(*CREATE).exit_code == 0
    assert len({call.key for call in server.sent("POST", ALLOCATIONS)}) == 1
    assert len(naps) == 2


@pytest.mark.parametrize("status", [400, 403, 409, 412, 422, 500, 501])
def test_a_final_answer_is_not_tried_again(
    run: Run, server: FakeServer, naps: list[float], status: int
) -> None:
    server.on("POST", ALLOCATIONS, problem(status, "refused", "no"))
    assert run(*CREATE).exit_code != 0
    assert len(server.sent("POST", ALLOCATIONS)) == 1
    assert naps == []


def test_the_answer_to_our_own_call_that_still_runs_is_waited_for(
    run: Run, server: FakeServer, naps: list[float]
) -> None:
    running = problem(409, "idempotency_key_in_use", "the first call has not ended")
    server.on("POST", ALLOCATIONS, in_turn(Reply(lost=True), running, Reply(202, OPERATION)))
    assert run(*CREATE).exit_code == 0
    assert len({call.key for call in server.sent("POST", ALLOCATIONS)}) == 1


def test_two_invocations_use_two_keys(run: Run, server: FakeServer) -> None:
    server.on("POST", ALLOCATIONS, Reply(202, OPERATION))
    run(*CREATE)
    run(*CREATE)
    assert len({call.key for call in server.sent("POST", ALLOCATIONS)}) == 2


def test_the_caller_may_bring_a_key(run: Run, server: FakeServer) -> None:
    server.on("POST", ALLOCATIONS, Reply(202, OPERATION))
    run(*CREATE, "--idempotency-key", "build-17")
    assert [call.key for call in server.sent("POST", ALLOCATIONS)] == ["build-17"]


def test_retry_after_in_seconds_is_honoured(
    run: Run, server: FakeServer, naps: list[float]
) -> None:
    busy = problem(429, "rate_limited", "slow down")
    busy.headers["Retry-After"] = "7"
    server.on("GET", "/skus", in_turn(busy, listing()))
    assert run("sku", "list").exit_code == 0
    assert naps == [7.0]


def test_retry_after_as_a_date_is_honoured(server: FakeServer) -> None:
    naps: list[float] = []
    now = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
    busy = problem(503, "service_unavailable", "restarting")
    busy.headers["Retry-After"] = format_datetime(now + timedelta(seconds=9), usegmt=True)
    server.on("GET", "/me", in_turn(busy, Reply(200, {"name": "Ada"})))
    with Client(server.url, TOKEN, sleep=naps.append, now=now.timestamp) as client:
        assert client.get("/me") == {"name": "Ada"}
    assert naps == [9.0]


def test_a_pause_longer_than_a_minute_is_left_to_the_caller(server: FakeServer) -> None:
    naps: list[float] = []
    busy = problem(429, "rate_limited", "come back tomorrow")
    busy.headers["Retry-After"] = "3600"
    server.on("GET", "/me", busy)
    with (
        Client(server.url, TOKEN, sleep=naps.append) as client,
        pytest.raises(ProblemError, match="come back tomorrow"),
    ):
        client.get("/me")
    assert naps == []


def test_it_gives_up_after_five_attempts(server: FakeServer) -> None:
    naps: list[float] = []
    server.on("GET", "/me", Reply(lost=True))
    with Client(server.url, TOKEN, sleep=naps.append) as client, pytest.raises(TransportError):
        client.get("/me")
    assert len(server.calls) == 5
    assert all(0 < nap <= 5 for nap in naps)


def test_a_delete_whose_reply_was_lost_has_succeeded(server: FakeServer) -> None:
    gone: list[str] = []

    def delete(call: Call) -> Reply:
        if gone:
            return problem(404, "not_found", "gone already")
        gone.append(call.path)
        return Reply(lost=True)

    server.on("DELETE", "/tokens/t-1", delete)
    with Client(server.url, TOKEN, sleep=lambda seconds: None) as client:
        client.delete("/tokens/t-1")
    assert len(server.sent("DELETE", "/tokens/t-1")) == 2


def test_a_delete_of_what_never_was_is_not_found(server: FakeServer) -> None:
    with Client(server.url, TOKEN) as client, pytest.raises(ProblemError) as caught:
        client.delete("/tokens/t-2")
    assert caught.value.status == 404


def test_a_redirect_is_not_followed_with_the_token(server: FakeServer) -> None:
    server.on("GET", "/me", Reply(302, None, {"Location": "http://elsewhere.example.org/"}))
    with Client(server.url, TOKEN) as client, pytest.raises(ProblemError, match="elsewhere"):
        client.get("/me")
    assert len(server.calls) == 1
