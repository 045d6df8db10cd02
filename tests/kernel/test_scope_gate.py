"""Is there a way to the database with another's scope, now that it is sent late?"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pytest
from django.db import DataError, connection, connections, transaction

from gpuaas.config import CHECKOUT
from gpuaas.kernel import prepared, scope
from gpuaas.kernel.scope import platform_scope, tenant_scope
from tenants.models import Project
from tests.kernel.factories import tenant
from tests.kernel.test_scope import whoami

pytestmark = pytest.mark.django_db(transaction=True)
APPS = ("gpuaas", "tenants", "admission", "placement", "runtime_enforcement")


def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def as_tenant(pk: UUID) -> tuple[str, str]:
    return "gpuaas_app", str(pk)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tenants that the database was told, in order; an empty name is the platform."""
    told: list[str] = []

    class Spy(psycopg.RawCursor[Any]):
        def execute(self, query: Any, params: Any = None, **rest: Any) -> Any:
            if query == scope._SET:
                told.append(params[1])
            return super().execute(query, params, **rest)

    monkeypatch.setattr(psycopg, "RawCursor", Spy)
    return told


def fail_at_once(pk: UUID) -> None:
    with pytest.raises(ValueError, match="boom"), tenant_scope(pk):
        raise ValueError("boom")


def fail_in_platform_scope(_: object = None) -> None:
    with platform_scope():
        whoami()
        raise ValueError("boom")


def fail_lifted(pk: UUID) -> None:
    with pytest.raises(ValueError, match="boom"), tenant_scope(pk), connection.cursor() as cursor:
        fail_in_platform_scope(cursor.execute("SELECT 1"))


def end_by_a_page_of_an_error(pk: UUID) -> None:
    with tenant_scope(pk):
        whoami()
        transaction.set_rollback(True)


@pytest.mark.parametrize("ended", [fail_at_once, fail_lifted, end_by_a_page_of_an_error])
def test_a_request_that_ended_badly_leaves_nothing_to_the_next_on_its_connection(
    ended: Callable[[UUID], None],
) -> None:
    mine, other = tenant("mine"), tenant("other")
    before, outside = backend(), whoami()
    ended(mine.pk)
    assert not connection.execute_wrappers
    with tenant_scope(other.pk):
        assert whoami() == as_tenant(other.pk)
        assert backend() == before
    ended(mine.pk)
    assert whoami() == outside
    assert backend() == before


def test_the_platform_and_another_tenant_follow_in_the_same_transaction() -> None:
    mine, other = tenant("mine"), tenant("other")
    outside = whoami()
    with transaction.atomic():
        with tenant_scope(mine.pk):
            assert whoami() == as_tenant(mine.pk)
        with platform_scope():
            assert prepared.rows("SELECT current_user::text", ()) == [(outside[0],)]
        fail_lifted(mine.pk)
        assert whoami() == outside
        with tenant_scope(other.pk), platform_scope():
            assert whoami() == outside
        with tenant_scope(other.pk):
            assert whoami() == as_tenant(other.pk)
    assert whoami() == outside


def test_a_cursor_from_before_the_scope_is_in_it_too() -> None:
    mine = tenant("mine")
    with connection.cursor() as cursor:
        with tenant_scope(mine.pk):
            cursor.execute("SELECT current_user")
            assert cursor.fetchone() == ("gpuaas_app",)
            with platform_scope():
                pass
            cursor.executemany("SELECT set_config('a.role', current_user, %s)", [(True,)])
            cursor.execute("SELECT current_setting('a.role')")
            assert cursor.fetchone() == ("gpuaas_app",)
        cursor.execute("SELECT current_user")
        assert cursor.fetchone() != ("gpuaas_app",)


def test_rows_that_the_server_hands_out_bit_by_bit_stay_the_tenants() -> None:
    mine, other = tenant("mine"), tenant("other")
    for owner in (mine, other):
        for n in range(6):
            Project.objects.create(tenant=owner, name=f"p{n}", slug=f"p{n}")
    with tenant_scope(mine.pk):
        expected = Project.objects.count()
        seen = []
        for project in Project.objects.order_by("slug").iterator(chunk_size=1):
            seen.append(project.tenant_id)
            with platform_scope():
                assert Project.objects.filter(tenant=other).exists()
            with tenant_scope(other.pk):
                assert whoami() == as_tenant(other.pk)
            with pytest.raises(ValueError, match="boom"), transaction.atomic():
                fail_in_platform_scope()
    assert expected >= 6
    assert seen == [mine.pk] * expected


def test_code_in_a_context_of_its_own_is_not_lifted_on_the_tenants_connection() -> None:
    mine = tenant("mine")
    with tenant_scope(mine.pk):
        assert Context().run(whoami) == as_tenant(mine.pk)
        assert whoami() == as_tenant(mine.pk)


def test_a_thread_that_inherits_the_context_tells_its_own_connection() -> None:
    mine, other = tenant("mine"), tenant("other")
    outside = whoami()
    found: list[tuple[str, str]] = []

    def work() -> None:
        try:
            found.append(whoami())
            with tenant_scope(other.pk):
                found.append(whoami())
                with platform_scope():
                    found.append(whoami())
            with platform_scope():
                found.append(whoami())
        finally:
            connections.close_all()

    with tenant_scope(mine.pk):
        whoami()
        thread = threading.Thread(target=copy_context().run, args=(work,))
        thread.start()
        thread.join(30)
        assert whoami() == as_tenant(mine.pk)
    assert found == [outside, as_tenant(other.pk), outside, outside]


def test_what_waits_for_the_commit_runs_outside_the_scope() -> None:
    mine = tenant("mine")
    outside = whoami()
    found: list[tuple[str, str]] = []
    with tenant_scope(mine.pk):
        whoami()
        transaction.on_commit(lambda: found.append(whoami()))
    assert found == [outside]


def test_a_scope_whose_sending_was_cut_off_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tenant("mine")

    class CutOff(psycopg.RawCursor[Any]):
        def execute(self, *args: Any, **rest: Any) -> Any:
            super().execute(*args, **rest)
            raise KeyboardInterrupt

    with tenant_scope(mine.pk):
        assert whoami() == as_tenant(mine.pk)
        with platform_scope(), monkeypatch.context() as patched:
            patched.setattr(psycopg, "RawCursor", CutOff)
            with pytest.raises(KeyboardInterrupt):
                whoami()
        assert whoami() == as_tenant(mine.pk)


def test_blocks_with_nothing_between_them_are_not_told(sent: list[str]) -> None:
    mine = tenant("mine")
    with tenant_scope(mine.pk):
        with platform_scope():
            pass
        with transaction.atomic(), platform_scope():
            whoami()
        with platform_scope():
            whoami()
    assert sent == []
    with tenant_scope(mine.pk):
        whoami()
        with platform_scope():
            pass
        whoami()
        with platform_scope():
            whoami()
    assert sent == [str(mine.pk), ""]


def found_in(pattern: str) -> set[str]:
    wanted = re.compile(pattern)
    return {
        path.relative_to(CHECKOUT).as_posix()
        for app in APPS
        for path in (CHECKOUT / app).rglob("*.py")
        if wanted.search(path.read_text(encoding="utf-8"))
    }


def test_nothing_but_the_scope_and_prepared_statements_uses_the_drivers_connection() -> None:
    past = (
        r"(connection|database|\])\.connection\b"
        r"|\bcursor\.(copy|stream|callproc|cursor)\b|\.callproc\("
    )
    assert found_in(past) == {"gpuaas/kernel/prepared.py", "gpuaas/kernel/scope.py"}


def test_nothing_but_the_scope_sets_roles_or_tenants_or_ends_transactions_by_hand() -> None:
    by_hand = (
        r"set_config\('(role|app\.)|\"\s*(SET|RESET)\s+(LOCAL\s+|SESSION\s+)?(ROLE|SESSION|app\.)"
        r"|\"\s*(ROLLBACK|SAVEPOINT|DISCARD)\b|\.savepoint(_rollback|_commit)?\("
    )
    assert found_in(by_hand) == {"gpuaas/kernel/scope.py"}


def test_only_prepared_statements_travel_together() -> None:
    assert found_in(r"\.pipeline\(") == {"gpuaas/kernel/prepared.py"}


def settings() -> tuple[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('enable_sort'), current_setting('enable_bitmapscan')"
        )
        row: tuple[str, str] = cursor.fetchone()
    return row


def test_statements_that_travel_together_are_in_the_scope_and_leave_the_planner_as_it_was() -> None:
    mine = tenant("mine")
    seen: LiteralString = (
        "SELECT current_user::text, current_setting('app.tenant'), current_setting('enable_sort')"
    )
    with tenant_scope(mine.pk):
        assert prepared.rows_in_index_order(seen, ()) == [(*as_tenant(mine.pk), "off")]
        assert settings() == ("on", "on")
        with transaction.atomic():
            with pytest.raises(DataError), transaction.atomic():
                prepared.rows_in_index_order("SELECT 1 / %s::int", (0,))
            assert settings() == ("on", "on")
            assert prepared.rows_in_index_order(seen, ()) == [(*as_tenant(mine.pk), "off")]
        assert whoami() == as_tenant(mine.pk)
    with pytest.raises(DataError):
        prepared.rows_in_index_order("SELECT 1 / %s::int", (0,))
    assert settings() == ("on", "on")
