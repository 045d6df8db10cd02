"""How many requests were answered with a problem, by code?  Over all processes, while Valkey lives.

Where the answer to a handing on was lost, one code's count may be added twice.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from django.conf import settings

from gpuaas.kernel.shared_counts import SharedCounts

KEY: Final = "gpuaas:problems"

Kind = tuple[str, int]
"""Reason code and HTTP status."""


class Problems:
    """Problems by code and status, counted together by all processes."""

    def __init__(self, url: str, key: str = KEY) -> None:
        self._counts = SharedCounts(url, key)

    def add(self, code: str, status: int) -> None:
        """Count one answer; waits for nothing, never raises."""
        self._counts.add({f"{code} {status}": 1})

    def read(self) -> Counter[Kind]:
        """All that were counted; never raises."""
        found: Counter[Kind] = Counter()
        for field, count in self._counts.read().items():
            code, _, status = field.rpartition(" ")
            found[code, int(status)] = count
        return found


problems = Problems(settings.CONFIG.redis_url)
