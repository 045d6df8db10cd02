"""Whose rows may this code see?  Queryset scope above, row-level security beneath.

The process connects as the platform role. A tenant's request runs in one transaction in which
every statement of the tenant's side runs as ``gpuaas_app`` with the tenant named, so that a
forgotten filter returns nothing foreign. Services that touch inventory lift to the platform
role for a block and drop again.

Role and tenant travel just before the first statement that needs them, not at the block's
edge: two lifts with nothing between them cost no round trip. Every way to the database goes
past ``settle``: Django's cursors through a wrapper, prepared statements by themselves. What a
rollback to a savepoint leaves is not remembered but set again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection, transaction
from psycopg.pq import TransactionStatus

from gpuaas.kernel.errors import ProductError

APP_ROLE = "gpuaas_app"
PLATFORM_ROLE = "gpuaas_platform"
OWNER_ROLE = "gpuaas_owner"

_tenant: ContextVar[UUID | None] = ContextVar("gpuaas_tenant", default=None)
_SET = b"SELECT set_config('role', $1, true), set_config('app.tenant', $2, true)"


def current_tenant() -> UUID | None:
    """The tenant in scope, or None on the platform's side."""
    return _tenant.get()


@dataclass(slots=True)
class _Session:
    """What the database has been told in this transaction. ``known`` is False after a rollback
    to a savepoint, which took some of it back."""

    told: UUID | None = None
    known: bool = True


_session: ContextVar[_Session | None] = ContextVar("gpuaas_scope_session", default=None)


def settle() -> None:
    """Tell the database whose code comes next, if it has not been told. Before any statement.

    Raises what a statement raises in a broken transaction.
    """
    session = _session.get()
    if session is None:
        return
    wanted = _tenant.get()
    if session.known and session.told == wanted:
        return
    connection.ensure_connection()
    connection.validate_no_broken_transaction()
    role, tenant = (APP_ROLE, str(wanted)) if wanted else ("none", "")
    # Not through Django's cursor, whose wrapper would come here again.
    direct: psycopg.Connection[tuple[Any, ...]] = connection.connection
    with connection.wrap_database_errors, psycopg.RawCursor(direct) as cursor:
        cursor.execute(_SET, [role, tenant], prepare=True)
    session.told, session.known = wanted, True


def _before(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    """Around every statement of Django's cursors: the scope first.

    Savepoints need no role; one that is rolled back to takes settings back with it.
    """
    command = str(sql).lstrip()[:12].upper()
    if command.startswith("ROLLBACK"):
        session = _session.get()
        if session is not None:
            session.known = False
        return execute(sql, *rest)
    if not command.startswith(("SAVEPOINT", "RELEASE")):
        settle()
    return execute(sql, *rest)


def _restorable() -> bool:
    """False when the transaction is broken: its rollback restores the settings itself."""
    if connection.needs_rollback or connection.connection is None:
        return False
    status: TransactionStatus = connection.connection.info.transaction_status
    return status == TransactionStatus.INTRANS


@contextmanager
def _switched(tenant_id: UUID | None) -> Iterator[None]:
    token = _tenant.set(tenant_id)
    try:
        yield
    finally:
        _tenant.reset(token)


@contextmanager
def _watched() -> Iterator[None]:
    """The outermost scope of a transaction: statements are watched, and what was there before
    is there again at its end, also for what the commit itself runs."""
    if _session.get() is not None:
        yield
        return
    token = _session.set(_Session())
    try:
        with connection.execute_wrapper(_before):
            yield
    finally:
        try:
            if _restorable():
                settle()
        finally:
            _session.reset(token)


@contextmanager
def tenant_scope(tenant_id: UUID) -> Iterator[None]:
    """Run the block in one transaction as the tenant role, seeing this tenant's rows only.

    A refusal that says ``keep`` is passed on after the commit: the request and the decision
    that it tells of stay.
    """
    refused: ProductError | None = None
    with transaction.atomic(), _watched(), _switched(tenant_id):
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
