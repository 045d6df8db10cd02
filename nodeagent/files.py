"""How is a small file replaced so that a power cut leaves the old or the new one, never half?"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nodeagent.protocol import load_json


def write_atomic(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace a file in one step. durable: wait until it is on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            if durable:
                stream.flush()
                os.fsync(descriptor)
        os.replace(temporary, path)
    except OSError:
        # On a full disk, what was written in vain is in the way of what comes next.
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Any | None:
    """The file's JSON, bounded; None when there is no file. Raises WireError when it is damaged."""
    try:
        return load_json(path.read_bytes(), max_bytes=64 * 1024 * 1024)
    except FileNotFoundError:
        return None


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Replace a JSON file in one step, readable by its owner only."""
    write_atomic(path, json.dumps(value, indent=1).encode(), durable=durable)


def told(error: OSError) -> str:
    """The operating system's trouble as an operator reads it: what, and with which file."""
    what = error.strerror or type(error).__name__
    return f"{what}: {error.filename}" if error.filename else what


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file while inside; waits for whoever has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """Take an exclusive lock and return its descriptor (close it to let go); None when held."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
