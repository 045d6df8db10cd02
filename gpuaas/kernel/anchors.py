"""Which heads had the event chains, as a file outside the database remembers?

One JSON line per changed chain: when, which seal, chain, place and digest. The file is
written in the data folder after the seals are committed, so it is never ahead of them, and
is cut down to one line per chain when it has grown.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import connection

from gpuaas.kernel import clock

NAME = "event-heads.jsonl"
LIMIT_BYTES = 2_000_000

_CHANGED = """
SELECT DISTINCT ON (chain) id, chain, seq, digest FROM kernel_eventseal
 WHERE id > %s ORDER BY chain, seq DESC
"""


@dataclass(frozen=True, slots=True)
class Head:
    """What one line says: seal ``seal`` (its row id) was place ``seq`` of ``chain``."""

    at: str
    seal: int
    chain: UUID
    seq: int
    digest: bytes

    def line(self) -> str:
        """The line, with its end."""
        value = {
            "at": self.at,
            "seal": self.seal,
            "chain": str(self.chain),
            "seq": self.seq,
            "digest": self.digest.hex(),
        }
        return json.dumps(value, separators=(",", ":")) + "\n"

    @classmethod
    def parse(cls, line: str) -> Head:
        """Raises ValueError, KeyError or TypeError for anything that ``line`` did not make."""
        value = json.loads(line)
        digest = bytes.fromhex(value["digest"])
        return cls(value["at"], int(value["seal"]), UUID(value["chain"]), int(value["seq"]), digest)


def path() -> Path:
    """The file of this process's data folder."""
    folder: Path = settings.CONFIG.data_dir
    return folder / NAME


def read(file: Path) -> tuple[list[Head], int]:
    """The heads in the order they were written, and how many lines make no sense."""
    heads: list[Head] = []
    bad = 0
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return [], 0
    for line in lines:
        try:
            heads.append(Head.parse(line))
        except (ValueError, KeyError, TypeError):
            bad += 1
    return heads, bad


_seen: dict[Path, tuple[tuple[int, int], int]] = {}


def append(file: Path) -> int:
    """Write a line for each chain that grew since the last one; returns how many."""
    with _locked(file) as handle:
        stat = os.fstat(handle)
        mark = (stat.st_size, stat.st_mtime_ns)
        known = _seen.get(file)
        last = known[1] if known and known[0] == mark else _last_seal(file)
        with connection.cursor() as cursor:
            cursor.execute(_CHANGED, [last])
            rows = cursor.fetchall()
        if rows:
            at = clock.now().isoformat(timespec="seconds")
            heads = [Head(at, row[0], row[1], row[2], bytes(row[3])) for row in rows]
            last = max(last, *(head.seal for head in heads))
            # A line that a crash left unfinished is ended first.
            start = "" if _ends_clean(handle, stat.st_size) else "\n"
            os.write(handle, (start + "".join(head.line() for head in heads)).encode())
            os.fsync(handle)
            stat = os.fstat(handle)
        if stat.st_size > LIMIT_BYTES:
            _cut_down(file)
            _seen.pop(file, None)
        else:
            _seen[file] = ((stat.st_size, stat.st_mtime_ns), last)
    return len(rows)


def _last_seal(file: Path) -> int:
    return max((head.seal for head in read(file)[0]), default=0)


def _ends_clean(handle: int, size: int) -> bool:
    return size == 0 or os.pread(handle, 1, size - 1) == b"\n"


@contextmanager
def _locked(file: Path) -> Iterator[int]:
    """The open file, with its lock held; a file that was replaced meanwhile is opened again."""
    file.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                same = os.stat(file).st_ino == os.fstat(handle).st_ino
            except FileNotFoundError:
                same = False
            if same:
                yield handle
                return
        finally:
            os.close(handle)


def _cut_down(file: Path) -> None:
    """Keep the last line of each chain."""
    heads, _ = read(file)
    latest = {head.chain: head for head in heads}
    fresh = file.with_suffix(".new")
    with open(fresh, "w", encoding="utf-8", opener=_private) as out:
        out.writelines(head.line() for head in latest.values())
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
