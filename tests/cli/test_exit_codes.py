"""Does each outcome end the process with the code that scripts rely on?"""

import socket
from collections.abc import Iterator

import pytest

from gpuaas.cli import exits
from gpuaas.cli.client import Client
from gpuaas.cli.exits import Exit, exit_for_problem
from gpuaas.cli.problems import TransportError
from gpuaas.kernel.errors import ProductError, catalogue
from tests.cli.conftest import Run
from tests.cli.fake_server import TOKEN, FakeServer, Reply, listing, problem

ALLOCATION = "0190b6f0-0000-7000-8000-000000000001"


def product_errors(base: type[ProductError] = ProductError) -> Iterator[type[ProductError]]:
    """Every class of error that the product has."""
    for kind in base.__subclasses__():
        yield kind
        yield from product_errors(kind)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "invalid_request", 2),
        (401, "unauthenticated", 4),
        (403, "permission_denied", 4),
        (403, "envelope_exceeded", 6),
        (403, "entitlement_missing", 6),
        (403, "tenant_suspended", 6),
        (403, "policy_forbids", 6),
        (403, "authority_incomplete", 6),
        (409, "forbidden_by_locality", 7),
        (404, "not_found", 3),
        (409, "sku_unavailable", 7),
        (409, "operation_in_progress", 5),
        (412, "stale_resource_version", 5),
        (422, "idempotency_key_reused", 5),
        (428, "precondition_required", 5),
        (500, "internal_error", 1),
    ],
)
def test_each_refusal_has_its_exit_code(
    run: Run, server: FakeServer, status: int, code: str, expected: int
) -> None:
    server.on("GET", f"/allocations/{ALLOCATION}", problem(status, code, "why not"))
    result = run("allocation", "describe", ALLOCATION)
    assert result.exit_code == expected
    assert result.stdout == ""
    assert f"error: {code}: why not" in result.stderr


def test_each_code_that_is_no_matter_of_who_asks_is_told_apart_from_those_that_are() -> None:
    about_who_asks = {
        "approval_refused",
        "break_glass_read_only",
        "csrf_refused",
        "insufficient_scope",
        "join_token_invalid",
        "permission_denied",
        "person_needed",
        "role_above_own",
        "second_factor_needed",
        "second_factor_setup_needed",
        "second_factor_wrong",
        "second_person_needed",
        "tenant_required",
    }
    forbidden = {kind.code for kind in product_errors() if kind.status == 403}
    as_auth = {code for code in forbidden if exit_for_problem(403, code) is Exit.AUTH}
    assert as_auth == about_who_asks


def test_the_exit_codes_name_only_reasons_that_there_are() -> None:
    named = exits._DENIED_CODES | exits._UNAVAILABLE_CODES
    assert sorted(named - set(catalogue())) == []


def test_codes_are_judged_in_either_spelling() -> None:
    assert exit_for_problem(403, "ENVELOPE_EXCEEDED") is Exit.DENIED


def test_success_ends_with_zero(run: Run) -> None:
    assert run("whoami").exit_code == 0


def test_a_server_that_is_not_there_is_a_failure(run: Run, naps: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        result = run("whoami", "--server", address, GPUAAS_TOKEN=TOKEN)
    assert result.exit_code == 1
    assert "could not be reached" in result.stderr
    assert len(naps) == 4


def test_without_a_token_the_answer_is_sign_in(run: Run) -> None:
    result = run("whoami", GPUAAS_TOKEN="")
    assert result.exit_code == 4
    assert "gpuaas login" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("whoami", "--no-such-flag"),
        ("whoami", "-o", "xml"),
        ("allocation", "create"),
        ("operation", "describe", "x", "--wait", "--timeout", "soon"),
        ("allocation", "describe", "node/n1"),
        ("api", "GET", "http://elsewhere.example.org/api/v1/me"),
        ("--context", "nowhere", "whoami"),
    ],
)
def test_wrong_usage_ends_with_two(run: Run, server: FakeServer, arguments: tuple[str]) -> None:
    server.on("GET", "/operations/x", {"id": "x", "kind": "k", "state": "running", "done": False})
    assert run(*arguments).exit_code == 2


def test_an_unknown_name_is_not_found(run: Run, server: FakeServer) -> None:
    server.on("GET", "/allocations", listing())
    result = run("allocation", "describe", "nothing-by-this-name")
    assert result.exit_code == 3


def test_a_destructive_command_without_consent_changes_nothing(
    run: Run, server: FakeServer
) -> None:
    result = run("allocation", "release", ALLOCATION)
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert server.calls == []


def test_a_silent_server_ends_with_124() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(address, TOKEN, timeout_s=0.05, attempts=2, sleep=lambda s: None) as client,
            pytest.raises(TransportError) as caught,
        ):
            client.get("/me")
    assert caught.value.exit_code == 124


def test_an_answer_that_is_not_json_is_a_failure(run: Run, server: FakeServer) -> None:
    server.on("GET", "/me", Reply(200, raw=b"<html>welcome</html>"))
    result = run("whoami")
    assert result.exit_code == 1
    assert "not JSON" in result.stderr


def test_every_exit_code_is_explained(run: Run) -> None:
    result = run("help", "exit-codes", "--no-headers")
    assert [int(line.split()[0]) for line in result.stdout.splitlines()] == [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 124, 130,
    ]  # fmt: skip
