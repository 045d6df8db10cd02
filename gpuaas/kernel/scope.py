"""Whose rows may this code see?  Queryset scope above, row-level security beneath.

The process connects as the platform role. A tenant's request runs in one transaction in which
every statement of the tenant's side runs as ``gpuaas_app`` with the tenant named, so that a
forgotten filter returns nothing foreign. Services that touch inventory lift to the platform
role for a block and drop again.

Role and tenant travel just before the first statement that needs them, not at the block's
edge: two lifts with nothing between them cost no round trip. Every way to the database goes
past the gate of its connection: Django's cursors through a wrapper, prepared statements by
``settle``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
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


class _Gate:
    """What one connection was told and what it is to be told, in the outermost scope of a
    transaction. It belongs to the connection, not to a context or a thread's memory, so that a
    statement's scope is the one of the connection that carries it."""

    def __init__(self) -> None:
        self.wanted: UUID | None = None
        self._told: UUID | None = None
        self._known = True
        self._reading = False

    def __call__(
        self,
        execute: Callable[..., Any],
        sql: Any,
        params: Any,
        many: bool,
        context: Mapping[str, Any],
    ) -> Any:
        """Around every statement of Django's cursors: the scope first.

        Savepoints need no role. One that is rolled back to takes settings back with it: what
        was told counts as unknown then.
        """
        command = str(sql).lstrip()[:12].upper()
        if command.startswith("ROLLBACK"):
            self._known = False
            done = execute(sql, params, many, context)
            self.turn(self.wanted)
            return done
        if not command.startswith(("SAVEPOINT", "RELEASE")):
            self.settle()
            if getattr(context["cursor"], "name", None):
                # A cursor that the server keeps reads on, past any gate, with what is set then.
                self._reading = True
        return execute(sql, params, many, context)

    def turn(self, tenant_id: UUID | None) -> None:
        """From now on statements are this tenant's, or the platform's."""
        self.wanted = tenant_id
        if self._reading and _restorable():
            self.settle()

    def settle(self) -> None:
        """Tell the database whose statement comes next, if it has not been told.

        Raises what a statement raises in a broken transaction.
        """
        wanted = self.wanted
        if self._known and self._told == wanted:
            return
        connection.ensure_connection()
        connection.validate_no_broken_transaction()
        role, tenant = (APP_ROLE, str(wanted)) if wanted else ("none", "")
        # Whatever stops this halfway, nothing is taken for told.
        self._known = False
        # Not through Django's cursor, whose wrapper would come here again.
        direct: psycopg.Connection[tuple[Any, ...]] = connection.connection
        with connection.wrap_database_errors, psycopg.RawCursor(direct) as cursor:
            cursor.execute(_SET, [role, tenant], prepare=True)
        self._told, self._known = wanted, True


def _gate() -> _Gate | None:
    """The gate of this thread's connection, when a scope is open on it."""
    return _gate_on(connections[DEFAULT_DB_ALIAS])


def _gate_on(database: BaseDatabaseWrapper) -> _Gate | None:
    for one in database.execute_wrappers:
        if isinstance(one, _Gate):
            return one
    return None


def settle(database: BaseDatabaseWrapper) -> None:
    """Before a statement that does not come through Django's cursors: the scope first.

    Raises what a statement raises in a broken transaction.
    """
    gate = _gate_on(database)
    if gate is not None:
        gate.settle()


def _restorable() -> bool:
    """False when the transaction is broken: its rollback restores the settings itself."""
    if connection.needs_rollback or connection.connection is None:
        return False
    status: TransactionStatus = connection.connection.info.transaction_status
    return status == TransactionStatus.INTRANS


@contextmanager
def _switched(gate: _Gate | None, tenant_id: UUID | None) -> Iterator[None]:
    token = _tenant.set(tenant_id)
    before = gate.wanted if gate is not None else None
    try:
        if gate is not None:
            gate.turn(tenant_id)
        yield
    finally:
        _tenant.reset(token)
        if gate is not None:
            gate.turn(before)


@contextmanager
def _gated() -> Iterator[_Gate]:
    """The gate of this connection. The outermost scope installs it, and leaves the database as
    it was found, also for what the commit itself runs."""
    found = _gate()
    if found is not None:
        yield found
        return
    gate = _Gate()
    wrappers = connection.execute_wrappers
    wrappers.append(gate)
    try:
        yield gate
        # After an error the rollback takes the settings back.
        if _restorable():
            gate.settle()
    finally:
        wrappers.remove(gate)


@contextmanager
def tenant_scope(tenant_id: UUID) -> Iterator[None]:
    """Run the block in one transaction as the tenant role, seeing this tenant's rows only.

    A refusal that says ``keep`` is passed on after the commit: the request and the decision
    that it tells of stay.
    """
    refused: ProductError | None = None
    with transaction.atomic(), _gated() as gate, _switched(gate, tenant_id):
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
    with _switched(_gate(), None):
        yield
