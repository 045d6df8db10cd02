"""Does the database itself refuse what the tables do not allow?"""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from gpuaas.kernel import events, guards, ids
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import platform_scope, tenant_scope
from tenants.models import Tenant
from tests.kernel.factories import tenant

pytestmark = pytest.mark.django_db


def test_a_tenant_sees_its_own_row_and_no_other() -> None:
    mine, other = tenant("mine"), tenant("other")
    with tenant_scope(mine.pk):
        assert [t.slug for t in Tenant.objects.all()] == ["mine"]
        with platform_scope():
            assert {t.slug for t in Tenant.objects.all()} == {"mine", "other"}
        assert not Tenant.objects.filter(pk=other.pk).exists()


def test_with_no_tenant_named_the_tenant_role_sees_nothing() -> None:
    tenant("mine")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL ROLE gpuaas_app")
        cursor.execute("SELECT count(*) FROM tenants_tenant")
        assert cursor.fetchone() == (0,)
        cursor.execute("SET LOCAL ROLE NONE")


def test_the_tenant_role_cannot_touch_inventory() -> None:
    mine = tenant("mine")
    with (
        pytest.raises(DatabaseError, match="permission denied"),
        tenant_scope(mine.pk),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT * FROM placement_node")


def test_an_event_can_be_neither_changed_nor_removed() -> None:
    event = events.record(kind="kernel.test.happened", actor=SYSTEM)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Event.objects.filter(pk=event.pk).update(reason="tampered")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        Event.objects.filter(pk=event.pk).delete()
    assert Event.objects.get(pk=event.pk).reason == ""


def test_sql_cannot_make_an_unlisted_move() -> None:
    mine = tenant("mine")
    with pytest.raises(DatabaseError, match="not a listed move"), transaction.atomic():
        Tenant.objects.filter(pk=mine.pk).update(state="deleted")
    mine.refresh_from_db()
    assert mine.state == "pending"


def test_ids_of_one_process_are_in_order_and_version_seven() -> None:
    made = [ids.new_id() for _ in range(500)]
    assert made == sorted(made)
    assert {i.version for i in made} == {7}


def test_a_table_whose_migration_was_taken_back_keeps_no_other_from_its_guards() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE tenants_sshkey CASCADE")
        cursor.execute("DROP POLICY tenant_rows ON tenants_project")
        guards.install()
        cursor.execute("SELECT FROM pg_policies WHERE tablename = 'tenants_project'")
        assert cursor.rowcount == 2
