"""Which services does a benchmark stand on?  A throw-away PostgreSQL and Valkey, durable."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from gpuaas.config import CHECKOUT
from gpuaas.embedded import processes
from gpuaas.embedded.files import PASSABLE_FOLDER, private_folder
from gpuaas.embedded.keys import control_key_kept
from gpuaas.embedded.postgres import DATABASE, OWNER, PLATFORM, SUPERUSER, Postgres, Roles
from gpuaas.embedded.valkey import Valkey


@dataclass(frozen=True)
class Cluster:
    """A running PostgreSQL (fsync and synchronous_commit on) and Valkey, with their folder."""

    folder: Path
    postgres: Postgres
    valkey: Valkey
    secret: str

    def url(self, database: str = DATABASE, role: str = PLATFORM) -> str:
        """The address of one database, as the platform's role unless told otherwise."""
        return self.postgres.url(role, database)

    def environment(self, database: str = DATABASE, role: str = PLATFORM) -> dict[str, str]:
        """What a process needs to run the product on one of the databases."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUAAS_", "PG"))}
        return env | {
            "DATABASE_URL": self.url(database, role),
            "DATABASE_OWNER_URL": self.url(database, OWNER),
            "REDIS_URL": self.valkey.url,
            "GPUAAS_DATA_DIR": str(self.folder),
            "GPUAAS_SECRET_KEY": self.secret,
            "GPUAAS_CONTROL_KEY_FILE": str(self.folder / "secrets" / "control_ed25519.pem"),
            "GPUAAS_LOG_LEVEL": "ERROR",
            "DJANGO_SETTINGS_MODULE": "gpuaas.settings",
            "PYTHONPATH": str(CHECKOUT),
        }

    def superuser(self, database: str = DATABASE) -> psycopg.Connection[tuple[object, ...]]:
        """A connection for loading rows and reading statistics."""
        return psycopg.connect(self.url(database, SUPERUSER), autocommit=True)

    def migrate(self, database: str = DATABASE) -> None:
        """Bring a database to the code's state, as the owner of its tables."""
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--no-input", "--skip-checks", "-v0"],
            env=self.environment(database, OWNER),
            cwd=CHECKOUT,
            check=True,
        )

    def copy(self, database: str, source: str = DATABASE) -> None:
        """Make a database that begins as another one is now; nobody may be using that one."""
        with self.superuser("postgres") as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {}").format(
                    sql.Identifier(database), sql.Identifier(source), sql.Identifier(OWNER)
                )
            )
            connection.execute(
                sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(
                    sql.Identifier(database), sql.Identifier(PLATFORM)
                )
            )


@contextlib.contextmanager
def started(*, durable: bool = True) -> Iterator[Cluster]:
    """Make and start the services; stop and remove them at the end, whatever happens."""
    folder = Path(tempfile.mkdtemp(prefix="gpuaas-bench-"))
    folder.chmod(PASSABLE_FOLDER if os.geteuid() == 0 else 0o700)
    kept = private_folder(folder / "secrets")
    port = processes.free_port()
    postgres = Postgres(
        folder,
        port=port,
        roles=Roles.kept_in(kept),
        log=folder / "log" / "postgres.log",
        durable=durable,
    )
    valkey = Valkey(
        folder,
        port=processes.free_port(avoid=[port]),
        password=secrets.token_urlsafe(16),
        log=folder / "log" / "valkey.log",
    )
    control_key_kept(kept / "control_ed25519.pem")
    try:
        valkey.launch()
        postgres.start()
        valkey.wait()
        yield Cluster(folder, postgres, valkey, secrets.token_urlsafe(50))
    finally:
        postgres.stop()
        valkey.stop()
        shutil.rmtree(postgres.home(), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
