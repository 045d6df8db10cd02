"""Where does a sign-in go, who can read it, and which setting wins?"""

import stat
from pathlib import Path

import pytest
import yaml
from typer.testing import Result

from gpuaas.cli.config import ENVIRONMENT, load_config, resolve
from gpuaas.cli.problems import UsageError
from gpuaas.config import ConfigError, refuse_unknown
from tests.cli.conftest import Run
from tests.cli.fake_server import TOKEN, Call, FakeServer, Reply, listing, problem

SIGNED_OUT = {"GPUAAS_TOKEN": "", "GPUAAS_SERVER": ""}


@pytest.fixture
def with_password(server: FakeServer) -> FakeServer:
    """A server that gives a token for one password."""

    def make(call: Call) -> Reply:
        if call.body["password"] != "correct horse":
            return problem(401, "unauthenticated", "wrong email address or password")
        return Reply(201, {"id": "tok-1", "name": call.body["name"], "token": TOKEN})

    server.on("POST", "/auth/token", make)
    return server


def login(run: Run, server: FakeServer, *more: str, password: str = "correct horse\n") -> Result:
    """Sign in with a password on standard input."""
    arguments = ("--server", server.url, "--email", "ada@example.org", "--password-file", "-")
    return run("login", *arguments, *more, stdin=password, **SIGNED_OUT)


def test_signing_in_keeps_a_token_that_only_the_owner_can_read(
    run: Run, home: Path, with_password: FakeServer
) -> None:
    result = login(run, with_password)
    path = home / ".config" / "gpuaas" / "config.yaml"
    assert result.exit_code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    saved = yaml.safe_load(path.read_text())
    assert saved["current-context"] == "default"
    assert saved["contexts"] == [
        {
            "name": "default",
            "server": with_password.url,
            "tenant": "acme",
            "project": "research",
            "auth": {"type": "token", "token": TOKEN, "token-id": "tok-1"},
        }
    ]
    assert "correct horse" not in path.read_text() + result.output
    assert TOKEN not in result.output
    assert run("whoami", **SIGNED_OUT).exit_code == 0


@pytest.mark.parametrize(
    ("theirs", "project"),
    [(["only"], "only"), (["a", "default"], "default"), (["a", "b"], None)],
)
def test_signing_in_chooses_a_project_among_ones_own_and_says_which(
    run: Run, home: Path, with_password: FakeServer, theirs: list[str], project: str | None
) -> None:
    path = home / ".config" / "gpuaas" / "config.yaml"
    login(run, with_password)
    assert yaml.safe_load(path.read_text())["contexts"][0]["project"] == "research"
    # Somebody else of another tenant signs in over the same context.
    rows = [{"id": slug, "slug": slug, "name": slug} for slug in theirs]
    with_password.on("GET", "/projects", lambda call: Reply(200, {"items": rows, "next": ""}))
    told = login(run, with_password).stderr
    assert yaml.safe_load(path.read_text())["contexts"][0].get("project") == project
    assert (f"project {project}; another:" if project else "choose a project") in told


def test_signing_in_again_keeps_the_project_that_was_chosen(
    run: Run, home: Path, with_password: FakeServer
) -> None:
    rows = [{"id": slug, "slug": slug, "name": slug} for slug in ("default", "other")]
    with_password.on("GET", "/projects", lambda call: Reply(200, {"items": rows, "next": ""}))
    login(run, with_password, "--project", "other")
    login(run, with_password)
    path = home / ".config" / "gpuaas" / "config.yaml"
    assert yaml.safe_load(path.read_text())["contexts"][0]["project"] == "other"


def test_a_wrong_password_saves_nothing(run: Run, home: Path, with_password: FakeServer) -> None:
    result = login(run, with_password, password="guess\n")
    assert result.exit_code == 4
    assert not (home / ".config" / "gpuaas" / "config.yaml").exists()


def test_a_token_file_signs_in_without_a_password(run: Run, home: Path, server: FakeServer) -> None:
    kept = home / "token"
    kept.write_text(TOKEN + "\n")
    result = run("login", "--server", server.url, "--token-file", str(kept), **SIGNED_OUT)
    assert result.exit_code == 0
    assert server.sent("POST", "/auth/token") == []
    assert run("whoami", **SIGNED_OUT).exit_code == 0


def test_a_token_comes_from_standard_input_too(run: Run, server: FakeServer) -> None:
    result = run("whoami", "--token-file", "-", stdin=TOKEN + "\n", GPUAAS_TOKEN="")
    assert result.exit_code == 0


def test_without_a_terminal_nothing_is_asked(run: Run, server: FakeServer) -> None:
    result = run("login", "--server", server.url, **SIGNED_OUT)
    assert result.exit_code == 2
    assert "--email" in result.stderr


def test_signing_out_forgets_and_revokes_the_token(
    run: Run, home: Path, with_password: FakeServer
) -> None:
    with_password.on("DELETE", "/tokens/tok-1", Reply(204))
    login(run, with_password)
    result = run("logout", **SIGNED_OUT)
    assert result.exit_code == 0
    assert TOKEN not in (home / ".config" / "gpuaas" / "config.yaml").read_text()
    assert len(with_password.sent("DELETE", "/tokens/tok-1")) == 1
    assert run("whoami", **SIGNED_OUT).exit_code == 4


def test_signing_out_works_when_the_token_is_gone_already(
    run: Run, home: Path, with_password: FakeServer
) -> None:
    login(run, with_password)
    result = run("logout", **SIGNED_OUT)
    assert result.exit_code == 0
    assert "not revoked" in result.stderr
    assert TOKEN not in (home / ".config" / "gpuaas" / "config.yaml").read_text()


def test_the_xdg_folder_is_honoured(
    run: Run, home: Path, with_password: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    login(run, with_password)
    assert (home / "xdg" / "gpuaas" / "config.yaml").exists()


def test_a_file_that_others_can_read_is_warned_about(
    run: Run, home: Path, with_password: FakeServer
) -> None:
    login(run, with_password)
    (home / ".config" / "gpuaas" / "config.yaml").chmod(0o644)
    result = run("whoami", **SIGNED_OUT)
    assert result.exit_code == 0
    assert "chmod 600" in result.stderr


def test_contexts_are_listed_chosen_and_shown_without_their_secrets(
    run: Run, with_password: FakeServer
) -> None:
    login(run, with_password, "--context", "east")
    login(run, with_password, "--context", "west")
    assert run("context", "use", "east").exit_code == 0
    listed = run("context", "list", "--columns", "current,name", "--no-headers")
    assert [line.split() for line in listed.stdout.splitlines()] == [["*", "east"], ["-", "west"]]
    shown = run("context", "show", "-o", "json")
    assert '"east"' in shown.stdout
    assert TOKEN not in shown.output
    assert run("context", "use", "north").exit_code == 3


def test_a_saved_token_is_not_sent_to_another_server(run: Run, with_password: FakeServer) -> None:
    login(run, with_password)
    before = len(with_password.calls)
    other = with_password.url.replace("127.0.0.1", "localhost")
    result = run("whoami", "--server", other, **SIGNED_OUT)
    assert result.exit_code == 4
    assert len(with_password.calls) == before


def test_flag_outranks_environment_outranks_file(home: Path) -> None:
    path = home / "c.yaml"
    path.write_text(
        "current-context: a\n"
        "contexts:\n"
        "- {name: a, server: 'http://file', project: file, auth: {type: token, token: t}}\n"
    )
    config = load_config({"GPUAAS_CONFIG": str(path)})
    environ = {"GPUAAS_SERVER": "http://env", "GPUAAS_PROJECT": "env"}
    assert resolve(config, {}).server == "http://file"
    assert resolve(config, environ).server == "http://env"
    assert resolve(config, environ, server="http://flag").server == "http://flag"
    assert resolve(config, {}).project == "file"
    assert resolve(config, environ).project == "env"
    assert resolve(config, environ, project="flag").project == "flag"
    assert resolve(config, {}).token == "t"
    assert resolve(config, {"GPUAAS_TOKEN": "e"}).token == "e"


@pytest.mark.parametrize("text", ["[1, 2", "just words", "contexts: [{server: x}]"])
def test_a_broken_file_is_named(home: Path, text: str) -> None:
    path = home / "c.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"c\.yaml"):
        load_config({"GPUAAS_CONFIG": str(path)})


def test_saving_leaves_no_half_written_file(home: Path) -> None:
    config = load_config({"GPUAAS_CONFIG": str(home / "d" / "c.yaml")})
    config.save()
    config.save()
    assert [entry.name for entry in (home / "d").iterdir()] == ["c.yaml"]


def test_the_server_tolerates_the_clients_variables_beside_its_own() -> None:
    client_variables = {name: "x" for name in ENVIRONMENT}
    refuse_unknown(client_variables)
    with pytest.raises(ConfigError, match="GPUAAS_SERVR"):
        refuse_unknown({**client_variables, "GPUAAS_SERVR": "x"})


def test_settings_do_not_print_the_token(home: Path) -> None:
    settings = resolve(load_config({}), {"GPUAAS_TOKEN": TOKEN})
    assert TOKEN not in repr(settings)


def test_a_second_factors_code_is_sent_along(run: Run, server: FakeServer) -> None:
    def make(call: Call) -> Reply:
        if call.body.get("code") != "123456":
            return problem(403, "second_factor_needed", "this needs your second factor")
        return Reply(201, {"id": "tok-1", "name": call.body["name"], "token": TOKEN})

    server.on("POST", "/auth/token", make)
    bare = login(run, server)
    assert bare.exit_code != 0
    assert "second_factor_needed" in bare.output
    given = login(run, server, "--code", "123456", "--debug")
    assert given.exit_code == 0
    assert "123456" not in given.output


def test_a_look_into_a_tenant_carries_the_code_in_a_header(run: Run, server: FakeServer) -> None:
    server.on("POST", "/break-glass", {"id": "w-1", "tenant": "t-1", "reason": "ticket 4711"})
    opened = ("break-glass", "open", "acme", "--reason", "ticket 4711", "--code", "654321")
    result = run(*opened, "--debug")
    assert result.exit_code == 0
    assert "654321" not in result.output
    (call,) = server.sent("POST", "/break-glass")
    assert call.headers["gpuaas-second-factor"] == "654321"
    assert call.body == {"tenant": "acme", "reason": "ticket 4711", "minutes": 30}


def test_a_program_gets_an_identity_and_a_token(run: Run, server: FakeServer) -> None:
    program = {"id": "sa-1", "name": "ci", "role": "member", "live_tokens": 0}
    server.on("POST", "/service-accounts", Reply(201, program))
    server.on("GET", "/service-accounts", listing(program))
    server.on("POST", "/service-accounts/sa-1/tokens", Reply(201, {"id": "t-1", "token": TOKEN}))
    assert run("service-account", "create", "ci", "--role", "member").exit_code == 0
    made = run("service-account", "token", "ci", "--name", "runner", "--scope", "keys:read")
    assert TOKEN in made.output
    (call,) = server.sent("POST", "/service-accounts/sa-1/tokens")
    assert call.body == {"name": "runner", "scopes": ["keys:read"]}
