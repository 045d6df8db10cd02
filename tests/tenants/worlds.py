"""What do the tests of the tenants app stand on, and what must hold after every step?"""

from __future__ import annotations

from uuid import UUID

import psycopg
from django.db import DatabaseError, connection, transaction

from gpuaas.kernel import audits
from gpuaas.kernel.audits import Finding
from tenants.models import Project, ResourceClass, SlaTier, Tenant
from tenants.services import cohorts, tenancy
from tests.builders import CLASS, OPERATOR

COHORTS = {"root": None, "left": "root", "right": "root", "deep": "left", "other": None}
CHECKED = (
    "placement.claims",
    "placement.quota",
    "tenants.cohorts",
    "tenants.envelopes",
    "tenants.projects",
)


def a_class(name: str = CLASS) -> ResourceClass:
    """A resource class, and the tier that tenants get."""
    SlaTier.objects.get_or_create(
        name="standard", defaults={"title": "Standard", "priority_band": 1, "preemptible": False}
    )
    kind, _ = ResourceClass.objects.get_or_create(name=name, defaults={"title": name})
    return kind


def the_cohorts() -> None:
    """Two trees: one with three levels, one of a single cohort."""
    for name, parent in COHORTS.items():
        cohorts.cohort_create(name=name, parent=parent, actor=OPERATOR)


def an_active_tenant(slug: str) -> Tenant:
    """Approved, without an envelope."""
    tenant = tenancy.tenant_create(name=slug, actor=OPERATOR)
    return tenancy.tenant_approve(tenant_id=tenant.pk, reason="test", actor=OPERATOR)


def project_of(tenant: Tenant) -> Project:
    """Its first project."""
    return Project.objects.get(tenant=tenant, slug="default")


def charge(*rows: tuple[Tenant, UUID | None, ResourceClass, int]) -> str:
    """Charge a batch as the commit function does: the refusal's code, or an empty string."""
    columns = (
        [str(tenant.pk) for tenant, _, _, _ in rows],
        [str(project) if project else None for _, project, _, _ in rows],
        [str(kind.pk) for _, _, kind, _ in rows],
        [amount for _, _, _, amount in rows],
    )
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "SELECT tenants_charge_many(%s::uuid[], %s::uuid[], %s::uuid[], %s::bigint[])",
                columns,
            )
    except DatabaseError as refused:
        cause = refused.__cause__
        if not isinstance(cause, psycopg.Error) or cause.diag.sqlstate != "GP001":
            raise
        return str(cause.diag.message_hint)
    return ""


def findings(*names: str) -> list[Finding]:
    """What the audits of these names say; all that watch quota unless told otherwise."""
    registered = audits.registered()
    return [finding for name in names or CHECKED for finding in registered[name]()]
