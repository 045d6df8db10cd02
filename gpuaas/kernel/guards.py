"""What does the database itself refuse?  Policies, grants and triggers made from the models.

Installed after every migrate, idempotently and in one transaction, so that a new tenant
table or lifecycle can not be forgotten; an architecture test compares the catalogue.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from django.apps import apps
from django.db import connections, models, transaction

from gpuaas.kernel.lifecycle import Lifecycle, registered
from gpuaas.kernel.scope import APP_ROLE, OWNER_ROLE, PLATFORM_ROLE

_GRANTS = {
    "none": "",
    "read": "SELECT",
    "append": "SELECT, INSERT",
    "write": "SELECT, INSERT, UPDATE, DELETE",
}
APPEND_ONLY = ("kernel_event", "kernel_eventseal")


def guarded_models() -> list[type[models.Model]]:
    """Every model of ours that declares what the tenant role may do with it."""
    return [
        model
        for model in apps.get_models()
        if hasattr(model, "tenant_grant") and not model._meta.proxy
    ]


def _roles() -> Iterator[str]:
    for role, how in (
        (OWNER_ROLE, "NOLOGIN"),
        (PLATFORM_ROLE, "NOLOGIN"),
        (APP_ROLE, "NOLOGIN"),
    ):
        yield (
            f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') "
            f"THEN CREATE ROLE {role} {how}; END IF; "
            "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
    yield (
        f"DO $$ BEGIN IF NOT pg_has_role(current_user, '{APP_ROLE}', 'SET') THEN "
        f"EXECUTE format('GRANT {APP_ROLE} TO %I', current_user); END IF; END $$"
    )


def _rights(there: Container[str]) -> Iterator[str]:
    yield f"GRANT USAGE ON SCHEMA public TO {PLATFORM_ROLE}, {APP_ROLE}"
    yield f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {PLATFORM_ROLE}"
    yield f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {PLATFORM_ROLE}"
    yield f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {PLATFORM_ROLE}"
    yield f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {APP_ROLE}"
    yield f"REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM {APP_ROLE}"
    for table in filter(there.__contains__, APPEND_ONLY):
        yield f"REVOKE UPDATE ON {table} FROM {PLATFORM_ROLE}"
    for model in guarded_models():
        rights = _GRANTS[getattr(model, "tenant_grant", "none")]
        if rights and model._meta.db_table in there:
            yield f"GRANT {rights} ON {model._meta.db_table} TO {APP_ROLE}"
    yield f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {APP_ROLE}"


def tenant_tables() -> dict[str, str]:
    """Every table with row-level security, and the column its policy compares."""
    return {
        model._meta.db_table: column
        for model in guarded_models()
        if (column := getattr(model, "tenant_column", ""))
    }


def _policies(there: Container[str]) -> Iterator[str]:
    for table, column in tenant_tables().items():
        if table not in there:
            continue
        mine = f"{column} = nullif(current_setting('app.tenant', true), '')::uuid"
        yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
        yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"
        yield f"DROP POLICY IF EXISTS tenant_rows ON {table}"
        yield f"DROP POLICY IF EXISTS platform_rows ON {table}"
        yield (
            f"CREATE POLICY tenant_rows ON {table} TO {APP_ROLE} USING ({mine}) WITH CHECK ({mine})"
        )
        yield (
            f"CREATE POLICY platform_rows ON {table} "
            f"TO {PLATFORM_ROLE}, {OWNER_ROLE}, CURRENT_USER "
            "USING (true) WITH CHECK (true)"
        )


def _lifecycle(lifecycle: Lifecycle, there: Container[str]) -> Iterator[str]:
    model = apps.get_model(lifecycle.noun)
    table = model._meta.db_table
    if table not in there:
        return
    name = f"{table}_lifecycle"
    allowed = ", ".join(f"('{a}', '{b}')" for a, b in lifecycle.pairs())
    yield (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF (OLD.state, NEW.state) NOT IN ({allowed}) THEN "
        f"RAISE EXCEPTION '{lifecycle.noun}: % to % is not a listed move', OLD.state, NEW.state "
        "USING ERRCODE = 'check_violation', CONSTRAINT = 'lifecycle'; END IF; RETURN NEW; END $$"
    )
    yield (
        f"CREATE OR REPLACE TRIGGER lifecycle BEFORE UPDATE OF state ON {table} FOR EACH ROW "
        f"WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION {name}()"
    )


def _append_only(there: Container[str]) -> Iterator[str]:
    yield (
        "CREATE OR REPLACE FUNCTION kernel_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME "
        "USING ERRCODE = 'insufficient_privilege'; END $$"
    )
    for table in filter(there.__contains__, APPEND_ONLY):
        yield (
            f"CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION kernel_append_only()"
        )


def statements(there: Container[str]) -> list[str]:
    """Everything that is installed, in order, about those of our tables that are ``there``."""
    out = [*_roles(), *_rights(there), *_policies(there), *_append_only(there)]
    for lifecycle in registered().values():
        out += _lifecycle(lifecycle, there)
    return out


def install(using: str = "default") -> None:
    """Bring the database's own guards to what the models say.

    A table that is not there has none: a migration that made it was taken back.
    """
    connection = connections[using]
    with transaction.atomic(using=using), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('gpuaas.guards'))")
        there = frozenset(connection.introspection.table_names(cursor))
        for statement in statements(there):
            cursor.execute(statement)
