"""What rows do the kernel's tests stand on?"""

from __future__ import annotations

import time

from gpuaas.kernel import seals
from gpuaas.kernel.models import Event
from tenants.models import SlaTier, Tenant

SEAL_WITHIN_S = 120.0


def tenant(slug: str) -> Tenant:
    """A pending tenant."""
    tier, _ = SlaTier.objects.get_or_create(
        name="standard", defaults={"title": "Standard", "priority_band": 1, "preemptible": False}
    )
    return Tenant.objects.create(name=slug, slug=slug, tier=tier)


def sealed(count: int) -> int:
    """Seal until so many events are in the chains, and say how many are.

    The sealer stops below the oldest transaction that runs anywhere in the cluster; another
    test's, in a database of its own, holds it up for as long as it lasts.
    """
    done = 0
    end = time.monotonic() + SEAL_WITHIN_S
    while True:
        done += seals.sweep()
        if done >= count or time.monotonic() > end:
            return done
        time.sleep(0.02)


def all_sealed() -> None:
    """Seal until every event is in its chain; like ``sealed`` it waits for other tests."""
    waiting = Event.objects.filter(seal__isnull=True)
    sealed(waiting.count())
    assert not waiting.exists()
