"""Who buys in a benchmark, and what?  A catalogue and tenants made by the services."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from django.db import connection

from gpuaas.kernel.actor import Actor
from placement.models import Image, NodeFamily, Pool
from tenants.models import Project, Role, Sku, SlaTier, User
from tenants.services import catalogue, tenancy

OPERATOR = Actor(kind="user", id="bench", name="bench@example.test", operator=True)
CLASS, FAMILY, IMAGE, TIER = "bench-slot", "bench-x8", "ubuntu-24.04-cuda", "bench"
METAL_IMAGE = "ubuntu-24.04-baremetal"
TENANTS = 16
SQL = Path(__file__).resolve().parent / "sql"


@dataclass(frozen=True)
class Buyer:
    """A tenant with a project, and its owner."""

    tenant: str
    project: str
    owner: str
    email: str

    def actor(self) -> Actor:
        """The owner, acting."""
        return Actor(kind="user", id=self.owner, name=self.email, role=Role.OWNER)


def build(pools: list[str], *, tenants: int = TENANTS) -> list[Buyer]:
    """Make pools with a slice and a whole-node SKU each, and tenants with wide envelopes."""
    NodeFamily.objects.create(name=FAMILY, title=FAMILY, slots=8)
    SlaTier.objects.create(name=TIER, title="Bench", priority_band=1, preemptible=False)
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
    return Buyer(str(tenant.pk), str(project.pk), str(owner.pk), owner.email)


def slices(pool: str) -> str:
    """The pool's SKU of slices."""
    return f"{pool}-slice"


def metal(pool: str) -> str:
    """The pool's SKU of whole nodes."""
    return f"{pool}-node"


def write(buyers: list[Buyer], path: Path) -> None:
    """Keep the buyers for client processes."""
    path.write_text(json.dumps([asdict(buyer) for buyer in buyers]), encoding="utf-8")


def read(path: Path) -> list[Buyer]:
    """The buyers that were kept."""
    return [Buyer(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
