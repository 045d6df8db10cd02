"""Is the tree fit to be shown: no secret, no machine's path, no foreign code, no host?"""

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, files, text

# Put together so that this file does not find itself.
MACHINE_PATHS = re.compile(
    "|".join(f"/{top}/" for top in ("wo" + "rk", "fa" + "rm")) + "|/ro" + r"ot/[.\w]"
)
SECRETS = {
    "a private key": re.compile("-----BEGIN [A-Z ]*PRIVATE " + "KEY-----"),
    "an API token": re.compile(r"gpuaas_pat_[A-Za-z0-9]{12}_[A-Za-z0-9]{32}[A-Za-z0-9]{6}\b"),
    "a cloud key": re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
}
LOCKS = sorted(ROOT.glob("requirements*.txt"))


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    found = [
        name for name in files() if MACHINE_PATHS.search(text(name)) or str(ROOT) in text(name)
    ]
    assert found == []


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_no_file_holds(kind: str) -> None:
    """Tests may: theirs open nothing."""
    shown = [name for name in files() if not name.startswith("tests/")]
    assert [name for name in shown if SECRETS[kind].search(text(name))] == []


def test_there_are_lock_files_to_check() -> None:
    assert [lock.name for lock in LOCKS] == [
        "requirements-bootstrap.txt",
        "requirements-dev.txt",
        "requirements.txt",
    ]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.name))
def test_a_lock_file_pins_with_hashes_and_names_no_host(lock: Path) -> None:
    content = lock.read_text(encoding="utf-8")
    assert not re.search(r"://|^--|\bfile:", content, re.M)
    entries = re.split(r"\n(?=\S)", content.strip())
    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: str(lock.name))
def test_a_lock_file_has_all_that_is_asked_for(lock: Path) -> None:
    def plain(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    asked = {
        plain(found.group(0))
        for line in lock.with_suffix(".in").read_text(encoding="utf-8").splitlines()
        if (found := re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line))
    }
    locked = {
        plain(found.group(1))
        for line in lock.read_text(encoding="utf-8").splitlines()
        if (found := re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)==", line))
    }
    assert asked
    assert asked - locked == set()


def test_pages_load_nothing_from_elsewhere() -> None:
    outside = re.compile(
        r"<(script|link|img|iframe|source)\b[^>]*\b(src|href)\s*=\s*[\"']?(https?:)?//"
        r"|@import\s+(url\()?[\"']?(https?:)?//|url\(\s*[\"']?(https?:)?//",
        re.I,
    )
    pages = [name for name in files() if name.endswith((".html", ".css", ".js"))]
    assert [name for name in pages if outside.search(text(name))] == []


def test_scripts_and_styles_are_our_own() -> None:
    """Third-party code is installed; a minified file in the tree was not written here."""
    written = [name for name in files() if name.endswith((".css", ".js"))]
    minified = [n for n in written if any(len(line) > 500 for line in text(n).splitlines())]
    assert minified == []


def test_there_is_no_big_or_binary_file() -> None:
    big = [name for name in files() if (ROOT / name).stat().st_size > 1_000_000]
    assert big == []


def test_what_a_session_goes_by_is_set_for_a_transaction_only() -> None:
    """A connection goes back to the pool as it is, and to whoever is next. Who needs more takes it
    back, or has a connection of its own."""
    session = re.compile(r"\"SE" r"T (?!LOCAL |CONSTRAINTS |TRANSACTION )\S")
    found = {name for name in files() if name.endswith(".py") and session.search(text(name))}
    assert found == {"tests/embedded/test_postgres.py", "tests/stepping.py"}
