"""How does the data folder keep secrets, and files that a crash must not leave half written?"""

import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
# Root's services run as another account, which must be able to walk through (not to list).
PASSABLE_FOLDER = 0o711


def private_folder(path: Path, mode: int = PRIVATE_FOLDER) -> Path:
    """The folder, made if absent, with exactly this mode."""
    path.mkdir(parents=True, exist_ok=True, mode=mode)
    path.chmod(mode)
    return path


def write_private(path: Path, text: str) -> None:
    """Replaces the file in one step, readable by its owner only, kept over a power cut."""
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), PRIVATE_FILE)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def kept_secret(path: Path, make: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> str:
    """The secret in the file; made and kept first when the file is absent or empty."""
    try:
        found = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        found = ""
    if not found.strip():
        found = make()
        write_private(path, found)
    elif path.stat().st_mode & 0o077:
        path.chmod(PRIVATE_FILE)
    return found.strip()
