"""Does a look for a part of a GPU read no more rows of ten thousand hosts than of a hundred?

Rows are counted by PostgreSQL's own statistics of the transaction, under both kinds of plans that
a prepared statement may get.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, transaction

from placement.domain.fit import Want
from placement.domain.parts import PartAsk
from placement.models import CutSlot, Node, NodeFamily, Pool
from placement.snapshots import Target, part_candidates
from tests.builders import (
    BOTH_KINDS,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
)

pytestmark = pytest.mark.django_db(transaction=True)

SMALL, LARGE = 100, 10_000
LIMIT = 24
MOST = 6 * LIMIT
"""Rows that a look reads at most: a few of each candidate, which are its cut slots and its node."""
_CLONE = """
WITH host AS (SELECT * FROM placement_node WHERE name = 'host-1'),
made AS (
    INSERT INTO placement_node
    SELECT (jsonb_populate_record(NULL::placement_node, to_jsonb(host) || jsonb_build_object(
               'id', gen_random_uuid(), 'num', host.num + g, 'name', 'clone-' || g))).*
      FROM host, generate_series(%(first)s, %(last)s) g RETURNING id, num),
slot AS (
    INSERT INTO placement_slot
    SELECT (jsonb_populate_record(NULL::placement_slot, to_jsonb(s) || jsonb_build_object(
               'id', gen_random_uuid(), 'node_id', made.id,
               'gpu_uuid', s.gpu_uuid || '-' || made.num))).*
      FROM placement_slot s JOIN host ON host.id = s.node_id, made
     WHERE s.cut <> 'whole' RETURNING id, node_id, index)
INSERT INTO placement_cutslot
SELECT (jsonb_populate_record(NULL::placement_cutslot, to_jsonb(k) || jsonb_build_object(
           'slot_id', slot.id, 'node_id', made.id, 'node_num', made.num))).*
  FROM placement_cutslot k JOIN host ON host.id = k.node_id
  JOIN slot ON slot.index = k.slot_index JOIN made ON made.id = slot.node_id
"""
_READ = """
SELECT coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)
  FROM pg_stat_xact_user_tables WHERE relname IN ('placement_node', 'placement_cutslot')
"""


class Fleet:
    """Hosts with one GPU cut for MIG and one for shares; it grows by copies of the first."""

    def __init__(self) -> None:
        a_catalogue()
        a_parts_catalogue()
        self.acme: TenantWorld = a_tenant("acme", envelope_slots=100_000)
        host = a_host("host-1", parts=BOTH_KINDS)
        cut_slots(host, "mig", 0)
        cut_slots(host, "share", 1)
        self.hosts = 1
        self.where = Target(Pool.objects.get().pk, NodeFamily.objects.get().pk, 8)

    def grow(self, hosts: int) -> None:
        """So many hosts, and what the planner knows of them."""
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL statement_timeout = 0")
            cursor.execute(_CLONE, {"first": self.hosts, "last": hosts - 1})
            cursor.execute("ANALYZE placement_node; ANALYZE placement_cutslot")
        self.hosts = hosts

    def read(self, want: Want, plan: str) -> tuple[int, int]:
        """Rows that one look reads, and how many places it finds."""
        assert want.part is not None
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL plan_cache_mode = {plan}")
            cursor.execute(_READ)
            before = cursor.fetchone()[0]
            places, _ = part_candidates(self.where, want, want.part, limit=LIMIT)
            cursor.execute(_READ)
            return int(cursor.fetchone()[0] - before), len(places)


def full(kind: str, *, but: int = 0) -> None:
    """Nothing is left of any cut slot of a kind, but on the hosts with the highest numbers."""
    rows = CutSlot.objects.filter(cut=kind)
    keep = list(rows.order_by("-node_num").values_list("pk", flat=True)[:but])
    taken = {"state": 0x1FF} if kind == "mig" else {"memory_used_mib": 80_000}
    rows.exclude(pk__in=keep).update(free_milli=0, **taken)


def asks(tenant: TenantWorld) -> Iterator[tuple[str, Want]]:
    """A small and a large part of each kind."""
    for part in (
        PartAsk("mig", profile="1g.10gb"),
        PartAsk("mig", profile="3g.40gb"),
        PartAsk("share", milli=100, memory_mib=8_000),
        PartAsk("share", milli=900, memory_mib=60_000),
    ):
        yield part.kind, Want(1, tenant=tenant.tenant.pk, part=part)


def arrange(room: str) -> int:
    """The fleet as a case wants it; how many hosts have room then."""
    Node.objects.update(schedulable=True)
    CutSlot.objects.update(open=True, free_milli=1000, state=0, memory_used_mib=0)
    if room == "nearly nowhere":
        full("mig", but=1)
        full("share", but=1)
    if room == "nowhere":
        full("mig")
        full("share")
    if room == "nearly all closed":
        Node.objects.exclude(name="host-1").update(schedulable=False)
        CutSlot.objects.exclude(node__name="host-1").update(open=False)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE placement_node; ANALYZE placement_cutslot")
    return {"everywhere": LIMIT, "nowhere": 0}.get(room, 1)


def belittle(rows: int) -> None:
    """The planner takes both tables for nearly empty, as after a vacuum that met rows which were
    not committed yet."""
    with connection.cursor() as cursor:
        for name in ("placement_node", "placement_cutslot"):
            cursor.execute(
                "SELECT pg_restore_relation_stats("
                "'schemaname', 'public', 'relname', %s, 'reltuples', %s::real)",
                (name, rows),
            )


def ordered(fleet: Fleet, sku: str) -> int:
    """Rows that a whole order reads, from the look to its commit."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_READ)
        before = cursor.fetchone()[0]
        fleet.acme.order(sku)
        cursor.execute(_READ)
        return int(cursor.fetchone()[0] - before)


def test_a_look_and_an_order_read_a_few_rows_of_ten_thousand_hosts() -> None:
    fleet = Fleet()
    fleet.grow(LARGE)
    for room in ("nearly nowhere", "nowhere", "nearly all closed", "everywhere"):
        expected = arrange(room)
        for kind, want in asks(fleet.acme):
            for plan in ("force_custom_plan", "force_generic_plan"):
                rows, found = fleet.read(want, plan)
                assert found == expected, (room, kind, plan)
                assert rows <= MOST, (room, str(want.part), plan)
    for sku in ("h100.1g", "h100.third"):
        assert ordered(fleet, sku) <= MOST


def test_a_planner_that_takes_the_tables_for_empty_reads_no_more() -> None:
    fleet = Fleet()
    fleet.grow(LARGE)
    for room in ("nearly nowhere", "nowhere", "everywhere"):
        expected = arrange(room)
        for believed in (0, 10, 100):
            belittle(believed)
            for kind, want in asks(fleet.acme):
                for plan in ("force_custom_plan", "force_generic_plan"):
                    rows, found = fleet.read(want, plan)
                    assert found == expected, (room, kind, plan)
                    assert rows <= MOST, (room, believed, str(want.part), plan)


def test_a_fleet_of_a_hundred_is_read_as_a_whole_at_most_once_for_each_candidate() -> None:
    fleet = Fleet()
    fleet.grow(SMALL)
    assert arrange("everywhere") == LIMIT
    for _, want in asks(fleet.acme):
        rows, found = fleet.read(want, "auto")
        assert found == LIMIT
        assert rows <= 2 * SMALL * (LIMIT + 2)
