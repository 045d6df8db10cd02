"""One fake control plane and one clean home for each test of the client."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpuaas.cli.main import app
from gpuaas.cli.session import Session
from tests.cli.fake_server import TOKEN, FakeServer, listing

Run = Callable[..., Result]

ME = {
    "email": "ada@example.org",
    "full_name": "Ada",
    "tenant": {"name": "acme", "id": "t-1"},
    "role": "owner",
    "scopes": [],
}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A running fake server that knows who asks and has one project."""
    with FakeServer() as fake:
        fake.on("GET", "/me", ME)
        fake.on("GET", "/projects", listing({"id": "p-1", "name": "Research", "slug": "research"}))
        yield fake


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home; nothing of the machine's own settings is seen."""
    for name in ("SERVER", "TOKEN", "TOKEN_FILE", "PROJECT", "CONTEXT", "CONFIG", "OUTPUT"):
        monkeypatch.delenv(f"GPUAAS_{name}", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The client's pauses between retries, recorded instead of slept."""
    taken: list[float] = []
    monkeypatch.setattr(Session, "sleep", staticmethod(taken.append))
    return taken


@pytest.fixture
def run(server: FakeServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the client as a signed-in user of the fake server."""
    monkeypatch.setenv("GPUAAS_SERVER", server.url)
    monkeypatch.setenv("GPUAAS_TOKEN", TOKEN)

    def invoke(*arguments: str, stdin: str | None = None, **environ: str) -> Result:
        return CliRunner().invoke(app, list(arguments), input=stdin, env=environ or None)

    return invoke
