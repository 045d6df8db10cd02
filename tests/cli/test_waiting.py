"""What does `--wait` do while an operation runs, and how does it end?"""

import pytest

from gpuaas.cli.client import Client, OperationFailed, WaitTimeout
from tests.cli.conftest import Run
from tests.cli.fake_server import TOKEN, Call, FakeServer, Reply, in_turn, problem

KEY = "0190b6f0-0000-7000-8000-000000000001"
ALLOCATIONS = "/projects/research/allocations"
CREATE = ("allocation", "create", "--sku", "h100-slice", "--slots", "2", "-p", "research", "--wait")
ALLOCATION = {
    "id": KEY,
    "name": "train-1",
    "sku": "h100-slice",
    "slots": 2,
    "state": "active",
    "price_hour_micro": 4_980_000,
    "connection": {
        "host": "192.0.2.7",
        "port": 2201,
        "user": "ubuntu",
        "command": "ssh -p 2201 ubuntu@192.0.2.7",
    },
}


def operation(state: str, step: str = "", **more: object) -> dict[str, object]:
    """An operation as the server shows it."""
    return {
        "id": "op-1",
        "kind": "allocation.provision",
        "target": {"kind": "allocation", "id": KEY},
        "state": state,
        "done": state in {"succeeded", "failed", "cancelled"},
        "progress": {"step": step, "percent": None, "message": ""},
        "steps": [
            {"name": "reserve", "state": "succeeded", "attempt": 1},
            {"name": "boot", "state": "running" if step == "boot" else "pending", "attempt": 1},
        ],
        **more,
    }


def test_success_prints_progress_and_then_the_connection(
    run: Run, server: FakeServer, naps: list[float]
) -> None:
    server.on("POST", ALLOCATIONS, Reply(202, operation("pending")))
    server.on(
        "GET",
        "/operations/op-1",
        in_turn(
            Reply(200, operation("running", "reserve")),
            Reply(200, operation("running", "boot")),
            Reply(200, operation("succeeded")),
        ),
    )
    server.on("GET", f"/allocations/{KEY}", ALLOCATION)
    result = run(*CREATE)
    assert result.exit_code == 0
    assert "ssh -p 2201 ubuntu@192.0.2.7" in result.stdout
    assert "4.98 an hour" in result.stdout
    assert "reserve: succeeded" in result.stderr
    assert "boot: running" in result.stderr
    assert result.stderr.count("reserve: succeeded") == 1
    assert "boot" not in result.stdout


def test_quiet_prints_no_progress(run: Run, server: FakeServer) -> None:
    server.on("POST", ALLOCATIONS, Reply(202, operation("pending")))
    server.on("GET", "/operations/op-1", Reply(200, operation("succeeded")))
    server.on("GET", f"/allocations/{KEY}", ALLOCATION)
    result = run(*CREATE, "-q", "-o", "name")
    assert result.stderr == ""
    assert result.stdout == f"allocation/{KEY}\n"


def test_a_failed_operation_ends_with_nine_and_says_why(run: Run, server: FakeServer) -> None:
    error = {
        "code": "provision_failed",
        "detail": "the image did not boot",
        "unblock": "choose another image",
        "facts": {"attempts": 3, "waited_s": 90, "memory_bytes": 1073741824},
    }
    server.on("POST", ALLOCATIONS, Reply(202, operation("pending")))
    server.on("GET", "/operations/op-1", Reply(200, operation("failed", "boot", error=error)))
    result = run(*CREATE)
    assert result.exit_code == 9
    assert result.stdout == ""
    assert "error: provision_failed: the image did not boot" in result.stderr
    assert "numbers: attempts 3, waited 1m30s, memory 1.0 GiB" in result.stderr
    assert "what would help: choose another image" in result.stderr
    assert "at step boot" in result.stderr


def test_a_cancelled_operation_is_not_a_success(run: Run, server: FakeServer) -> None:
    server.on("GET", "/operations/op-1", Reply(200, operation("cancelled")))
    assert run("operation", "describe", "op-1", "--wait").exit_code == 9


def test_a_wait_that_ends_early_ends_with_eight(
    run: Run, server: FakeServer, naps: list[float]
) -> None:
    server.on("POST", ALLOCATIONS, Reply(202, operation("pending")))
    server.on("GET", "/operations/op-1", Reply(200, operation("running", "boot")))
    result = run(*CREATE, "--timeout", "0.05")
    assert result.exit_code == 8
    assert "still running" in result.stderr
    assert "gpuaas operation describe op-1 --wait" in result.stderr


def test_without_wait_the_operation_is_shown_at_once(run: Run, server: FakeServer) -> None:
    server.on("POST", ALLOCATIONS, Reply(202, operation("pending")))
    result = run(*(argument for argument in CREATE if argument != "--wait"), "-o", "name")
    assert result.exit_code == 0
    assert result.stdout == "operation/op-1\n"
    assert server.sent("GET", "/operations/op-1") == []


def test_a_refused_create_prints_the_numbers_and_the_way_out(run: Run, server: FakeServer) -> None:
    refusal = problem(
        403,
        "envelope_exceeded",
        "2 slots asked, 1 left",
        facts={"limit_milli": 8000, "used_milli": 7000, "asked_milli": 2000, "request": KEY},
        unblock="release something or ask for 1",
    )
    server.on("POST", ALLOCATIONS, refusal)
    result = run(*CREATE)
    assert result.exit_code == 6
    assert "numbers: limit 8, used 7, asked 2" in result.stderr
    assert "what would help: release something or ask for 1" in result.stderr
    assert f"in full: gpuaas explain request/{KEY}" in result.stderr
    assert "request id: req-1" in result.stderr


def test_a_queued_create_that_waits_too_long_names_the_request(
    run: Run, server: FakeServer, naps: list[float]
) -> None:
    queued = operation("running", "place", target={"kind": "admission.admissionrequest", "id": KEY})
    server.on("POST", ALLOCATIONS, Reply(202, queued))
    server.on("GET", "/operations/op-1", Reply(200, queued))
    result = run(*CREATE, "--queue", "--timeout", "0.05")
    assert result.exit_code == 8
    assert f"request/{KEY}: waiting for operation op-1" in result.stderr


def test_the_library_parks_on_the_server_and_reports_each_answer(server: FakeServer) -> None:
    answers = [operation("running", "boot"), operation("succeeded")]
    seen: list[object] = []
    server.on("GET", "/operations/op-1", in_turn(*(Reply(200, a) for a in answers)))
    with Client(server.url, TOKEN, sleep=lambda seconds: None) as client:
        done = client.operations.wait("op-1", on_change=lambda o: seen.append(o["state"]))
    assert done["state"] == "succeeded"
    assert seen == ["running", "succeeded"]
    assert {call.query["wait"] for call in server.calls} == {"25s"}


def test_the_library_paces_itself_when_the_server_does_not_park(server: FakeServer) -> None:
    naps: list[float] = []

    def answer(call: Call) -> Reply:
        return Reply(200, operation("succeeded" if len(naps) == 4 else "running", "boot"))

    server.on("GET", "/operations/op-1", answer)
    with Client(server.url, TOKEN, sleep=naps.append) as client:
        client.operations.wait("op-1")
    assert naps == sorted(naps)
    assert naps[0] == 0.25


def test_the_library_raises_typed_errors(server: FakeServer) -> None:
    server.on("GET", "/operations/op-1", Reply(200, operation("running")))
    failed = operation("failed", error={"code": "boom", "detail": "it broke"})
    server.on("GET", "/operations/op-2", Reply(200, failed))
    with Client(server.url, TOKEN, sleep=lambda seconds: None) as client:
        with pytest.raises(WaitTimeout) as late:
            client.operations.wait("op-1", timeout_s=0)
        with pytest.raises(OperationFailed) as broken:
            client.operations.wait("op-2")
    assert late.value.operation["state"] == "running"
    assert broken.value.problem is not None
    assert broken.value.problem.code == "boom"
