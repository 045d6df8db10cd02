"""Where do identifiers come from?  UUIDv7 (RFC 9562), made in the application.

The database may be older than the version that has ``uuidv7()``, and an id must be
known before the row is written, so that a retry can name the same thing.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpuaas.kernel import clock

_TAIL = (1 << 62) - 1
_VERSION_AND_VARIANT = (0x7 << 76) | (0b10 << 62)
_lock = threading.Lock()
_last = 0


def _uuid7() -> uuid.UUID:
    """A UUIDv7 whose 12 sub-millisecond bits keep ids of one process in order."""
    global _last
    # 12 bits below a millisecond: nanoseconds in units of 1 000 000 / 4096.
    stamp = clock.epoch_ns() * 4096 // 1_000_000
    with _lock:
        if stamp <= _last:
            stamp = _last + 1
        _last = stamp
    tail = int.from_bytes(os.urandom(8)) & _TAIL
    value = ((stamp >> 12) << 80) | ((stamp & 0xFFF) << 64) | _VERSION_AND_VARIANT | tail
    return uuid.UUID(int=value)


_make: Callable[[], uuid.UUID] = _uuid7


def new_id() -> uuid.UUID:
    """A fresh UUIDv7."""
    return _make()


@contextmanager
def use(make: Callable[[], uuid.UUID]) -> Iterator[None]:
    """Replace the source of ids, for tests and for replaying a recorded run."""
    global _make
    before, _make = _make, make
    try:
        yield
    finally:
        _make = before
