"""Can a secret be seen in a trace?"""

from gpuaas.cli.redact import redact_headers, redact_json, redact_text
from tests.cli.conftest import Run
from tests.cli.fake_server import TOKEN, FakeServer, Reply

SECRET = TOKEN.rsplit("_", 1)[1]


def test_a_debug_trace_shows_the_call_but_not_the_token(run: Run, server: FakeServer) -> None:
    result = run("whoami", "--debug", "--request-id", "trace-me")
    assert "GET http://127.0.0.1" in result.stderr
    assert "X-Request-ID: trace-me" in result.stderr or "x-request-id: trace-me" in result.stderr
    assert "Bearer [redacted]" in result.stderr
    assert SECRET not in result.output


def test_a_debug_trace_hides_passwords_and_new_tokens(run: Run, server: FakeServer) -> None:
    server.on("POST", "/auth/token", Reply(201, {"id": "t", "token": TOKEN}))
    result = run(
        "login", "--email", "ada@example.org", "--password-file", "-", "--debug",
        stdin="hunter2-hunter2\n",
    )  # fmt: skip
    assert result.exit_code == 0
    assert '"password": "[redacted]"' in result.stderr
    assert '"token": "[redacted]"' in result.stderr
    assert "hunter2" not in result.output
    assert SECRET not in result.output


def test_verbose_is_one_line_a_request(run: Run, server: FakeServer) -> None:
    result = run("whoami", "-v")
    assert len(result.stderr.splitlines()) == 1
    assert "-> 200" in result.stderr


def test_the_request_id_travels(run: Run, server: FakeServer) -> None:
    run("whoami", "--request-id", "trace-me")
    assert server.calls[0].headers["x-request-id"] == "trace-me"


def test_every_form_of_a_secret_is_replaced() -> None:
    assert redact_text(f"curl -H 'Authorization: Bearer abc' {TOKEN}") == (
        "curl -H 'Authorization: Bearer [redacted] [redacted]"
    )
    assert redact_headers({"Cookie": "sessionid=1", "Accept": "a"}) == {
        "Cookie": "[redacted]",
        "Accept": "a",
    }
    assert redact_json({"a": [{"client_secret": "x", "n": 1, "token": ""}]}) == {
        "a": [{"client_secret": "[redacted]", "n": 1, "token": ""}]
    }
