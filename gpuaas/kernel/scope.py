"""Whose rows may this code see?  Queryset scope above, row-level security beneath.

The process connects as the platform role. A tenant's request runs in one transaction
whose first statement drops to ``gpuaas_app`` and names the tenant, so that a forgotten
filter returns nothing foreign. Services that touch inventory lift to the platform role
for a block and drop again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

from django.db import connection, transaction
from psycopg.pq import TransactionStatus

from gpuaas.kernel.errors import ProductError

APP_ROLE = "gpuaas_app"
PLATFORM_ROLE = "gpuaas_platform"
OWNER_ROLE = "gpuaas_owner"

_tenant: ContextVar[UUID | None] = ContextVar("gpuaas_tenant", default=None)
_SET = "SELECT set_config('role', %s, true), set_config('app.tenant', %s, true)"


def current_tenant() -> UUID | None:
    """The tenant in scope, or None on the platform's side."""
    return _tenant.get()


def _apply(tenant_id: UUID | None) -> None:
    role, tenant = (APP_ROLE, str(tenant_id)) if tenant_id else ("none", "")
    with connection.cursor() as cursor:
        cursor.execute(_SET, [role, tenant])


def _restorable() -> bool:
    """False when the transaction is broken: its rollback restores the settings itself."""
    if connection.needs_rollback or connection.connection is None:
        return False
    status: TransactionStatus = connection.connection.info.transaction_status
    return status == TransactionStatus.INTRANS


@contextmanager
def _switched(tenant_id: UUID | None) -> Iterator[None]:
    before = _tenant.get()
    _apply(tenant_id)
    token = _tenant.set(tenant_id)
    try:
        yield
    finally:
        _tenant.reset(token)
        if _restorable():
            _apply(before)


@contextmanager
def tenant_scope(tenant_id: UUID) -> Iterator[None]:
    """Run the block in one transaction as the tenant role, seeing this tenant's rows only.

    A refusal that says ``keep`` is passed on after the commit: the request and the decision
    that it tells of stay.
    """
    refused: ProductError | None = None
    with transaction.atomic(), _switched(tenant_id):
        try:
            yield
        except ProductError as error:
            if not error.keep:
                raise
            refused = error
    if refused is not None:
        raise refused


@contextmanager
def platform_scope() -> Iterator[None]:
    """Lift to the platform role inside a tenant's transaction; outside one, change nothing."""
    if _tenant.get() is None:
        yield
        return
    with _switched(None):
        yield
