"""What has an allocation cost so far, as an estimate before metering?"""

from __future__ import annotations

from datetime import datetime

from placement.models import Allocation

HOUR_US = 3_600_000_000


def cost_so_far(allocation: Allocation, now: datetime) -> tuple[int, datetime | None]:
    """Millionths of the currency from active to the release, and until when it counts.

    The moment is None while nothing has been counted yet. A release that is on its way costs
    nothing more: the tenant has given it back.
    """
    begun = allocation.active_at
    if begun is None:
        return 0, None
    until = allocation.release_asked_at or allocation.released_at or now
    span = until - begun
    micros = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    return max(0, micros) * allocation.price_hour_micro // HOUR_US, until
