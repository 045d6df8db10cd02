"""How do the demo's people and catalogue come into the database?  Through services, once.

Every part looks for itself whether it is there, so that a start after an interrupted one goes
on where that ended, and a later one changes nothing. What a person changed since stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db import transaction

from admission.services import tenancies
from gpuaas.demo import world
from gpuaas.demo.world import FamilyPlan, Person, TenantPlan
from gpuaas.kernel.actor import Actor
from placement.models import Image, NodeFamily, Pool
from tenants.models import (
    Envelope,
    Member,
    Project,
    ResourceClass,
    Role,
    Sku,
    SlaTier,
    SshKey,
    Tenant,
    User,
)
from tenants.services import access, catalogue, tenancy
from tenants.services.operators import operator_create
from tenants.states import SkuState, TenantState

Say = Callable[[str], None]
REASON = "demo set-up"
KEY_NAME = "desktop"


def load(passwords: Mapping[str, str], say: Say) -> None:
    """Bring in whatever of the demo's world is not there yet."""
    operator = _operators(passwords)
    say(f"{len(world.OPERATORS)} operators can sign in")
    _shelf()
    for family in world.FAMILIES:
        _skus(family, operator)
    say(f"{len(world.FAMILIES)} node families, {Sku.objects.count()} SKUs with prices")
    for plan in world.TENANTS:
        _tenant(plan, passwords, operator)
        say(f"tenant {plan.name}: {len(plan.people)} people, tier {plan.tier}")


@transaction.atomic
def _operators(passwords: Mapping[str, str]) -> Actor:
    users = []
    for person in world.OPERATORS:
        user = User.objects.filter(email__iexact=person.email).first()
        if user is None:
            user, _ = operator_create(
                email=person.email, full_name=person.name, password=passwords[person.email]
            )
        users.append(user)
    return access.user_actor(user=users[0], tenant_id=None)


@transaction.atomic
def _shelf() -> None:
    for name, title, band, preemptible, protected_s, available_ppm, target_s, gives in world.TIERS:
        SlaTier.objects.get_or_create(
            name=name,
            defaults={
                "title": title,
                "priority_band": band,
                "preemptible": preemptible,
                "protected_run_s": protected_s,
                "availability_ppm": available_ppm,
                "provision_target_s": target_s,
                "isolation": gives,
            },
        )
    for name, title in world.POOLS:
        Pool.objects.get_or_create(name=name, defaults={"title": title})
    for name, title in world.CLASSES:
        ResourceClass.objects.get_or_create(name=name, defaults={"title": title})
    for name, title, shapes in world.IMAGES:
        Image.objects.get_or_create(
            name=name, defaults={"title": title, "shapes": list(shapes), "reference": name}
        )
    for family in world.FAMILIES:
        NodeFamily.objects.get_or_create(
            name=family.name,
            defaults={
                "title": family.title,
                "gpu_model": family.gpu_model,
                "slots": family.slots,
            },
        )


@transaction.atomic
def _skus(family: FamilyPlan, actor: Actor) -> None:
    """A slice and a whole-node product of the family, and parts of its GPUs, on sale."""
    for name, shape, most, units, price, title in (
        (
            f"{family.sku}-slice",
            "gpu_slice",
            family.slots,
            1000,
            family.slot_hour_micro,
            f"Slots of {family.title}",
        ),
        (
            f"{family.sku}-node",
            "baremetal",
            1,
            1000 * family.slots,
            family.node_hour_micro,
            f"A whole host: {family.title}",
        ),
    ):
        sku = Sku.objects.filter(name=name).first()
        if sku is None:
            sku = catalogue.sku_create(
                name=name,
                title=title,
                shape=shape,
                family=family.name,
                resource_class=family.resource_class,
                hour_micro=price,
                actor=actor,
                pool=family.pool,
                slots_max=most,
                units_milli=units,
                exclusive_nic=family.exclusive_nic and shape == "gpu_slice",
                description=family.blurb,
            )
        _on_sale(sku, actor)
    for part in family.parts:
        sku = Sku.objects.filter(name=part.sku).first()
        if sku is None:
            sku = catalogue.sku_create(
                name=part.sku,
                title=part.title,
                shape=part.shape,
                family=family.name,
                resource_class=family.resource_class,
                hour_micro=part.hour_micro,
                actor=actor,
                pool=family.pool,
                units_milli=part.units_milli,
                part_profile=part.profile,
                part_milli=part.milli,
                part_memory_mib=part.memory_mib,
            )
        _on_sale(sku, actor)


def _on_sale(sku: Sku, actor: Actor) -> None:
    if sku.state == SkuState.DRAFT:
        catalogue.sku_publish(sku=sku.name, actor=actor, reason=REASON)


@transaction.atomic
def _tenant(plan: TenantPlan, passwords: Mapping[str, str], operator: Actor) -> None:
    """One tenant, wholly or not at all."""
    users = {person.email: _account(person, passwords) for person in plan.people}
    tenant = Tenant.objects.filter(slug=plan.slug).first()
    if tenant is None:
        tenant = tenancy.tenant_create(
            name=plan.name, tier=plan.tier, actor=operator, owner_email=plan.owner.email
        )
        tenant.refresh_from_db()
    if tenant.state == TenantState.PENDING:
        tenancies.tenant_approve(tenant_id=tenant.pk, reason=REASON, actor=operator)
    for person in plan.people:
        if not Member.objects.filter(tenant=tenant, user=users[person.email]).exists():
            tenancy.member_add(
                tenant_id=tenant.pk, email=person.email, role=Role(person.role), actor=operator
            )
    owner = access.user_actor(user=users[plan.owner.email], tenant_id=tenant.pk)
    for project in plan.projects:
        if not Project.objects.filter(tenant=tenant, slug=project).exists():
            tenancy.project_create(tenant_id=tenant.pk, name=project, actor=owner)
    for resource_class, slots in plan.envelope:
        if not Envelope.objects.filter(tenant=tenant, resource_class__name=resource_class).exists():
            tenancy.envelope_set(
                tenant_id=tenant.pk,
                resource_class=resource_class,
                nominal_milli=slots * 1000,
                reason=REASON,
                actor=operator,
            )
    if not SshKey.objects.filter(tenant=tenant, name=KEY_NAME).exists():
        access.ssh_key_add(
            tenant_id=tenant.pk,
            user_id=users[plan.owner.email].pk,
            name=KEY_NAME,
            public_key=_public_key(plan.owner.email),
            actor=owner,
        )


def _account(person: Person, passwords: Mapping[str, str]) -> User:
    user = User.objects.filter(email__iexact=person.email).first()
    return user or User.objects.create_user(
        person.email, passwords[person.email], full_name=person.name
    )


def _public_key(comment: str) -> str:
    """A public key whose private half nobody keeps: simulated hosts let nobody in."""
    raw = Ed25519PrivateKey.generate().public_key()
    text = raw.public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    ).decode("ascii")
    return f"{text} {comment}"
