"""Is there nothing to migrate?  Answered in milliseconds, without starting Django.

Yes only when the code is byte for byte where it was at the last migration of this database,
and the database's own list of applied migrations is what it was then.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import psycopg

from gpuaas.config import CHECKOUT
from gpuaas.embedded.files import write_private

APPS = ("gpuaas", "tenants", "admission", "placement", "runtime_enforcement")


def code_digest(root: Path = CHECKOUT, apps: Iterable[str] = APPS) -> str:
    """Digest of the code that migrations can depend on: the apps and the locked packages."""
    digest = hashlib.sha256()
    files = [root / "requirements.txt"]
    for app in apps:
        files += sorted(f for f in (root / app).rglob("*") if f.suffix in {".py", ".sql"})
    for file in files:
        if file.exists():
            digest.update(f"{file.relative_to(root)}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def applied_digest(database_url: str) -> str:
    """Digest of the migrations a database has had; '' when it has had none."""
    with psycopg.connect(database_url, connect_timeout=5) as connection:
        there = connection.execute("SELECT to_regclass('public.django_migrations')").fetchone()
        if there is None or there[0] is None:
            return ""
        rows = connection.execute("SELECT app, name FROM django_migrations ORDER BY 1, 2")
        return hashlib.sha256(repr(rows.fetchall()).encode()).hexdigest()


def remember(note: Path, database_url: str) -> None:
    """Notes that the code as it is has been migrated in this database."""
    facts = {"code": code_digest(), "applied": applied_digest(database_url)}
    write_private(note, json.dumps(facts))


def nothing_to_do(note: Path, database_url: str) -> bool:
    """Whether the note still holds for the code and for this database."""
    try:
        facts = json.loads(note.read_text(encoding="utf-8"))
        return bool(facts["applied"]) and facts == {
            "code": code_digest(),
            "applied": applied_digest(database_url),
        }
    except (OSError, ValueError, KeyError, TypeError, psycopg.Error):
        return False
