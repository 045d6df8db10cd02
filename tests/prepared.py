"""How does a test run get its tables without making them again each time?

A cluster with one migrated database is kept under ``build`` by the digest of everything that
makes it; each run works on a copy, and every test database is copied from that one inside it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
from psycopg import sql

from gpuaas.embedded.postgres import OWNER, SUPERUSER, Postgres

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "test-clusters"
TEMPLATE = "gpuaas_template"
MOST = 3
"""So many are kept, the latest; an older one belongs to code of some time ago."""


def key(program: Path) -> str:
    """The digest of all that decides how the migrated database looks."""
    digest = hashlib.sha256(str(program).encode())
    sources = [*ROOT.glob("*/migrations/*.py"), *ROOT.glob("gpuaas/*/migrations/*.py")]
    sources += [*ROOT.glob("*/sql/*.sql"), *ROOT.glob("gpuaas/*/sql/*.sql")]
    sources += [ROOT / "requirements.txt", ROOT / "gpuaas" / "settings.py", Path(__file__)]
    sources += [ROOT / "gpuaas" / "embedded" / "postgres.py"]
    for source in sorted(sources):
        digest.update(f"{source.relative_to(ROOT)}\n".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:24]


def start(postgres: Postgres, secrets: Path) -> None:
    """Start a cluster that has the template, from the kept one where there is one."""
    kept = KEPT / key(postgres.program())
    if not (kept / "data").is_dir():
        postgres.start()
        _migrate(postgres)
        postgres.stop()
        _keep(postgres, secrets, kept)
        postgres.start()
        return
    # Its roles have the passwords that they were made with.
    for secret in (kept / "secrets").iterdir():
        shutil.copy2(secret, secrets / secret.name)
    postgres.roles = type(postgres.roles).kept_in(secrets)
    _copy(kept / "data", postgres.home() / "data")
    os.utime(kept)
    postgres.start()


def _migrate(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url(SUPERUSER, "postgres"), autocommit=True) as rows:
        rows.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(TEMPLATE), sql.Identifier(OWNER)
            )
        )
    address = postgres.url(OWNER, TEMPLATE)
    environment = dict(os.environ, DATABASE_URL=address, DATABASE_OWNER_URL=address)
    environment["DJANGO_SETTINGS_MODULE"] = "gpuaas.settings"
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env=environment,
        check=True,
    )


def _keep(postgres: Postgres, secrets: Path, kept: Path) -> None:
    """Made aside and renamed: of two runs at once the first one's stays."""
    KEPT.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix="new-", dir=KEPT))
    shutil.copytree(secrets, aside / "secrets")
    _copy(postgres.home() / "data", aside / "data")
    try:
        aside.rename(kept)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
    by_age = sorted(KEPT.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[MOST:]:
        shutil.rmtree(old, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
