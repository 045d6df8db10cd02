"""Does a look for whole slots read few rows of ten thousand hosts, whatever the planner believes?

Rows are counted by PostgreSQL's own statistics of the transaction, under both kinds of plans that
a prepared statement may get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, transaction

from placement.domain.fit import Want
from placement.models import Node, NodeFamily, Pool
from placement.services.statistics import statistics_mend
from placement.snapshots import Target, candidates
from tests.builders import TenantWorld, a_catalogue, a_host, a_tenant
from tests.placement.test_part_look_cost import belittle

pytestmark = pytest.mark.django_db(transaction=True)

LARGE, LIMIT = 10_000, 24
MOST = 6 * LIMIT
TICKS = 20
TABLES = ("placement_node", "placement_cutslot")
PLANS = ("force_custom_plan", "force_generic_plan")
_CLONE = """
WITH host AS (SELECT * FROM placement_node WHERE name = 'host-1')
INSERT INTO placement_node
SELECT (jsonb_populate_record(NULL::placement_node, to_jsonb(host) || jsonb_build_object(
           'id', gen_random_uuid(), 'num', host.num + g, 'name', 'clone-' || g))).*
  FROM host, generate_series(1, %s) g
"""
_READ = """
SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
  FROM pg_stat_xact_user_tables WHERE relname = 'placement_node'
"""


@pytest.fixture
def acme() -> Iterator[TenantWorld]:
    """A tenant, and a large fleet of which the planner knows. Nobody else counts it meanwhile."""
    a_catalogue()
    acme = a_tenant("acme", envelope_slots=100_000)
    a_host("host-1")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute(_CLONE, [LARGE - 1])
        cursor.execute("ANALYZE placement_node; ANALYZE placement_cutslot")
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    yield acme
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} RESET (autovacuum_enabled)")


def read(act: Callable[[], Any], plan: str = "auto") -> int:
    """Rows of hosts that something reads."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL plan_cache_mode = {plan}")
        cursor.execute(_READ)
        before = cursor.fetchone()[0]
        act()
        cursor.execute(_READ)
        return int(cursor.fetchone()[0] - before)


def planned() -> list[Any]:
    """What the planner believes, and what was counted when: for whoever reads a failure."""
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN SELECT FROM placement_node ORDER BY num")
        plan = [line for (line,) in cursor.fetchall()]
        cursor.execute(
            "SELECT c.relname, c.reltuples, c.relpages, s.last_autovacuum, s.last_autoanalyze,"
            " s.last_analyze, s.n_live_tup, s.n_dead_tup, now()"
            " FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid"
            " WHERE c.relname = ANY (%s)",
            [list(TABLES)],
        )
        return [*plan, *cursor.fetchall()]


def looks(acme: TenantWorld) -> list[Callable[[], Any]]:
    """Whatever looks for whole slots: of a host in part, of a whole one, and an order."""
    where = Target(Pool.objects.get().pk, NodeFamily.objects.get().pk, 8)
    small, whole = (
        Want(2, tenant=acme.tenant.pk),
        Want(0, tenant=acme.tenant.pk),
    )
    return [
        lambda: candidates(where, small, levels=range(2, 9), limit=LIMIT),
        lambda: candidates(where, whole, levels=[8], limit=LIMIT),
        lambda: acme.order(slots=1),
    ]


def test_looks_read_few_rows_once_the_planner_has_been_told_that_there_are_hosts(
    acme: TenantWorld,
) -> None:
    assert statistics_mend() == 0, "nothing is counted anew where it is about right"
    for believed in (0, 10, 1000):
        belittle(believed)
        if not believed:
            worst = max(read(look, plan) for look in looks(acme) for plan in PLANS)
            assert worst >= LARGE / 10, "what this is about"
        assert statistics_mend() >= 1
        # Where somebody else has the table in hand, it is the next tick that counts.
        assert any(statistics_mend() == 0 for _ in range(TICKS))
        for look in looks(acme):
            for plan in PLANS:
                assert read(look, plan) <= MOST, (believed, plan, planned())
    assert statistics_mend() == 0
    Node.objects.exclude(name="host-1").delete()
    assert statistics_mend() == 0, "it may take a table for larger than it is"


def test_the_platform_may_have_hosts_counted_anew_and_a_tenant_may_not() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT has_function_privilege(r, 'placement_statistics_mend()', 'EXECUTE')"
            " FROM unnest(ARRAY['gpuaas_platform', 'gpuaas_app']) r"
        )
        assert cursor.fetchall() == [(True,), (False,)]
