"""Does a tenant's scope end where it should, on every way out?"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, connections, transaction

from gpuaas.kernel import prepared
from gpuaas.kernel.scope import current_tenant, platform_scope, tenant_scope
from tenants.models import Project, Tenant
from tests.kernel.factories import tenant


def whoami() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user::text, coalesce(current_setting('app.tenant', true), '')"
        )
        row = cursor.fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.mark.django_db(transaction=True)
def test_a_reused_connection_remembers_no_tenant() -> None:
    mine = tenant("mine")
    outside = whoami()[0]
    with tenant_scope(mine.pk):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            pid = cursor.fetchone()
        assert whoami() == ("gpuaas_app", str(mine.pk))
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone() == pid
    assert whoami() == (outside, "")
    assert current_tenant() is None


@pytest.mark.django_db(transaction=True)
def test_a_failing_request_takes_its_tenant_with_it() -> None:
    mine = tenant("mine")
    outside = whoami()[0]
    with pytest.raises(ValueError, match="boom"), tenant_scope(mine.pk):
        raise ValueError("boom")
    assert whoami() == (outside, "")
    with pytest.raises(DatabaseError), tenant_scope(mine.pk), connection.cursor() as cursor:
        cursor.execute("SELECT 1/0")
    assert whoami() == (outside, "")
    assert current_tenant() is None


@pytest.mark.django_db(transaction=True)
def test_a_refused_write_in_a_savepoint_leaves_the_scope_as_it_was() -> None:
    mine, other = tenant("mine"), tenant("other")
    with tenant_scope(mine.pk):
        with pytest.raises(DatabaseError), transaction.atomic(), platform_scope():
            Tenant.objects.create(name="x", slug=other.slug, tier=mine.tier)
        assert whoami() == ("gpuaas_app", str(mine.pk))
        assert current_tenant() == mine.pk
        assert [t.slug for t in Tenant.objects.all()] == ["mine"]


def _lifted(outside: str) -> None:
    with platform_scope():
        assert whoami() == (outside, "")


def _rolled_back(work: Callable[[], object]) -> None:
    with transaction.atomic():
        work()
        transaction.set_rollback(True)


@pytest.mark.django_db(transaction=True)
def test_what_a_rolled_back_savepoint_lifted_is_dropped_again_before_the_next_statement() -> None:
    mine = tenant("mine")
    outside = whoami()[0]
    with tenant_scope(mine.pk):
        assert whoami() == ("gpuaas_app", str(mine.pk))
        _rolled_back(lambda: _lifted(outside))
        assert whoami() == ("gpuaas_app", str(mine.pk))
        with platform_scope():
            _rolled_back(whoami)
            assert whoami() == (outside, "")
        assert prepared.rows("SELECT current_user::text", ()) == [("gpuaas_app",)]


@pytest.mark.django_db(transaction=True)
def test_every_way_to_the_database_is_in_scope_from_its_first_statement() -> None:
    mine, other = tenant("mine"), tenant("other")
    ours = "SELECT slug FROM tenants_tenant ORDER BY slug"
    for first in (
        lambda: [row[0] for row in prepared.rows(ours, ())],
        lambda: [t.slug for t in Tenant.objects.order_by("slug").iterator()],
        lambda: list(Tenant.objects.raw("SELECT * FROM tenants_tenant")),
        lambda: _many(ours),
    ):
        with platform_scope():
            pass
        with tenant_scope(mine.pk):
            with platform_scope():
                pass
            assert len(first()) == 1
            with platform_scope():
                assert len(first()) == 2
            assert len(first()) == 1
    assert {t.slug for t in Tenant.objects.all()} == {mine.slug, other.slug}


def _many(sql: str) -> list[str]:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
        return [row[0] for row in cursor.fetchall()]


@pytest.mark.django_db(transaction=True)
def test_a_scope_in_a_longer_transaction_ends_with_itself() -> None:
    mine, other = tenant("mine"), tenant("other")
    outside = whoami()[0]
    with transaction.atomic():
        with tenant_scope(mine.pk):
            with tenant_scope(other.pk):
                assert whoami() == ("gpuaas_app", str(other.pk))
            assert whoami() == ("gpuaas_app", str(mine.pk))
        assert whoami() == (outside, "")
        with pytest.raises(DatabaseError), transaction.atomic(), tenant_scope(mine.pk):
            Project.objects.create(tenant=other, name="planted", slug="planted")
        assert whoami() == (outside, "")


@pytest.mark.django_db(transaction=True)
def test_platform_scope_ends_inside_the_tenants_scope_also_when_it_fails() -> None:
    mine = tenant("mine")
    outside = whoami()[0]
    with tenant_scope(mine.pk):
        with platform_scope():
            assert whoami() == (outside, "")
        with pytest.raises(Tenant.DoesNotExist), platform_scope():
            Tenant.objects.get(slug="nobody")
        assert whoami() == ("gpuaas_app", str(mine.pk))
    with platform_scope():
        assert whoami() == (outside, "")


@pytest.mark.django_db(transaction=True)
def test_a_tenant_can_not_write_into_another_tenant() -> None:
    mine, other = tenant("mine"), tenant("other")
    theirs = Project.objects.create(tenant=other, name="theirs", slug="theirs")
    with tenant_scope(mine.pk):
        assert Project.objects.filter(pk=theirs.pk).update(name="taken") == 0
        assert Project.objects.filter(pk=theirs.pk).delete()[0] == 0
        ours = Project.objects.create(tenant=mine, name="ours", slug="ours")
    with pytest.raises(DatabaseError, match="row-level security"), tenant_scope(mine.pk):
        Project.objects.create(tenant=other, name="planted", slug="planted")
    with pytest.raises(DatabaseError, match="row-level security"), tenant_scope(mine.pk):
        Project.objects.filter(pk=ours.pk).update(tenant=other)
    assert list(Project.objects.filter(tenant=other).values_list("name", flat=True)) == ["theirs"]


@pytest.mark.django_db(transaction=True)
def test_scopes_of_two_threads_do_not_mix() -> None:
    tenants = [tenant("a"), tenant("b")]
    both = threading.Barrier(2)
    seen: dict[str, list[str]] = {}

    def look(who: Tenant) -> None:
        try:
            for _ in range(20):
                both.wait(10)
                with tenant_scope(who.pk):
                    slugs = [t.slug for t in Tenant.objects.all()]
                    seen.setdefault(who.slug, []).extend(slugs)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=look, args=(who,)) for who in tenants]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"a": ["a"] * 20, "b": ["b"] * 20}
