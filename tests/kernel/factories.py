"""What rows do the kernel's tests stand on?"""

from __future__ import annotations

from tenants.models import SlaTier, Tenant


def tenant(slug: str) -> Tenant:
    """A pending tenant."""
    tier, _ = SlaTier.objects.get_or_create(
        name="standard", defaults={"title": "Standard", "priority_band": 1, "preemptible": False}
    )
    return Tenant.objects.create(name=slug, slug=slug, tier=tier)
