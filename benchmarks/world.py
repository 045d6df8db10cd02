"""Who buys in a benchmark, and what?  A catalogue and tenants made by the services.

    python -m benchmarks.world FILE POOL …

makes them in the database of the environment and keeps the buyers in the file.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import django

django.setup()

from django.db import connection  # noqa: E402  # the settings come first

from benchmarks.names import (  # noqa: E402
    CLASS,
    FAMILY,
    IMAGE,
    KINDS,
    METAL_IMAGE,
    PARTS,
    SIZES,
    TENANTS,
    TIER,
    Buyer,
    family_of,
    metal,
    part,
    slices,
    write,
)
from gpuaas.kernel.actor import Actor  # noqa: E402
from placement.models import Image, NodeFamily, Pool  # noqa: E402
from tenants.models import Project, Role, Sku, SlaTier, User  # noqa: E402
from tenants.services import access, catalogue, tenancy  # noqa: E402

OPERATOR = Actor(kind="user", id="bench", name="bench@example.test", operator=True)


def actor_of(buyer: Buyer) -> Actor:
    """The tenant's owner, acting."""
    return Actor(
        kind="user",
        id=buyer.owner,
        name=buyer.email,
        tenant_id=UUID(buyer.tenant),
        role=Role.OWNER,
    )


def build(pools: list[str], *, tenants: int = TENANTS) -> list[Buyer]:
    """Make pools with a slice and a whole-node SKU each, and tenants with wide envelopes."""
    for size in SIZES:
        NodeFamily.objects.create(name=family_of(size), title=family_of(size), slots=size)
    SlaTier.objects.create(
        name=TIER, title="Bench", priority_band=1, preemptible=False, isolation="shared"
    )
    for image, shape in ((IMAGE, "gpu_slice"), (METAL_IMAGE, "baremetal")):
        Image.objects.create(name=image, title=image, shapes=[shape], reference=image)
    for name in pools:
        Pool.objects.create(name=name)
        for sku, shape, units, most in (
            (slices(name), "gpu_slice", 1000, 8),
            (metal(name), "baremetal", 8000, 1),
        ):
            catalogue.sku_create(
                name=sku,
                title=sku,
                shape=shape,
                family=FAMILY,
                pool=name,
                resource_class=CLASS,
                hour_micro=2_000_000,
                slots_max=most,
                units_milli=units,
                actor=OPERATOR,
            )
            catalogue.sku_publish(sku=sku, actor=OPERATOR)
    _parts()
    buyers = [_buyer(f"bench-{i}") for i in range(tenants)]
    tier = SlaTier.objects.get(name=TIER)
    kind = Sku.objects.get(name=slices(pools[0])).resource_class
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS bench.holder (i int, tenant_id uuid, "
                       "project_id uuid, class_id uuid, tier_id uuid)")  # fmt: skip
        cursor.executemany(
            "INSERT INTO bench.holder VALUES (%s, %s, %s, %s, %s)",
            [(i, b.tenant, b.project, kind.pk, tier.pk) for i, b in enumerate(buyers)],
        )
    return buyers


def _parts() -> None:
    """A pool of cut GPUs, sold as instances and as shares."""
    Pool.objects.create(name=PARTS)
    whats: dict[str, dict[str, Any]] = {
        "mig": {"part_profile": "1g.10gb", "units_milli": 125},
        "gpu_share": {"part_milli": 250, "part_memory_mib": 16_384, "units_milli": 250},
    }
    for kind in KINDS:
        catalogue.sku_create(
            name=part(PARTS, kind),
            title=part(PARTS, kind),
            shape=kind,
            family=FAMILY,
            pool=PARTS,
            resource_class=CLASS,
            hour_micro=300_000,
            actor=OPERATOR,
            **whats[kind],
        )
        catalogue.sku_publish(sku=part(PARTS, kind), actor=OPERATOR)


def _buyer(name: str) -> Buyer:
    owner = User.objects.create_user(f"{name}@example.test", "a long bench password")
    tenant = tenancy.tenant_create(name=name, tier=TIER, actor=OPERATOR, owner_email=owner.email)
    tenancy.tenant_approve(tenant_id=tenant.pk, reason="bench", actor=OPERATOR)
    tenancy.envelope_set(
        tenant_id=tenant.pk,
        resource_class=CLASS,
        nominal_milli=10_000_000_000,
        reason="bench",
        actor=OPERATOR,
    )
    project = Project.objects.get(tenant=tenant)
    buyer = Buyer(str(tenant.pk), str(project.pk), str(owner.pk), owner.email)
    _, token = access.token_create(
        user=owner,
        tenant_id=tenant.pk,
        name="bench",
        scopes=(),
        expires_in_days=1,
        actor=actor_of(buyer),
    )
    return replace(buyer, token=token)


def main() -> None:
    """Build, and keep the buyers."""
    file, *pools = sys.argv[1:]
    write(build(pools), Path(file))


if __name__ == "__main__":
    main()
