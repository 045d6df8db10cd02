"""Which release is this, and of which commit?

The package, the API document and the command line tool say the release from here. The agent knows
nothing of this package: its own constant is held equal by a test.
"""

from __future__ import annotations

from pathlib import Path

VERSION = "0.3.0"


def checked_out(folder: Path) -> str:
    """The commit that is checked out in a folder, by git's own files; empty where it is none.

    It is read, and no program is run: a server may have none, or another's.
    """
    try:
        git = folder / ".git"
        if git.is_file():
            # A work tree beside the repository: the file says where its own part is.
            git = folder / _after(git.read_text(encoding="utf-8"), "gitdir:")
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return _hash(head)
        ref = _after(head, "ref:")
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
        for base in (git, shared):
            if (base / ref).is_file():
                return _hash((base / ref).read_text(encoding="utf-8"))
        for line in (shared / "packed-refs").read_text(encoding="utf-8").splitlines():
            found, _, name = line.partition(" ")
            if name == ref:
                return _hash(found)
    except (OSError, UnicodeDecodeError):
        pass
    return ""


def _after(line: str, word: str) -> str:
    return line.strip().removeprefix(word).strip()


def _hash(text: str) -> str:
    found = text.strip().lower()
    return found if len(found) in (40, 64) and set(found) <= set("0123456789abcdef") else ""
