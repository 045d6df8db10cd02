"""How does an event get its place in the chain?

Writers only insert; one sealer at a time walks behind them, in the order of (transaction,
id), below the oldest transaction that still runs: nothing can appear there any more. The
heads of the chains also go to a file outside the database, so that a tail which is cut off
shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from gpuaas.kernel import anchors, notify
from gpuaas.kernel.chain import COLUMNS, GENESIS, chain_of, link
from gpuaas.kernel.models.events import Lease
from gpuaas.kernel.scope import platform_scope

BATCH = 2000
LEASE = "event-seals"
FEED = "events"
"""Published whenever something was sealed; ``events:<chain>`` for one chain."""

_SETTLED = f"""
SELECT e.id, e.tenant_id, e.xid, {COLUMNS}
  FROM kernel_event e
 WHERE (e.xid, e.id) > (%s, %s) AND e.xid < %s
 ORDER BY e.xid, e.id LIMIT %s
"""
_RESTORED = f"""
SELECT e.id, e.tenant_id, e.xid, {COLUMNS}
  FROM kernel_event e
 WHERE (e.xid < %s OR e.xid >= %s)
   AND NOT EXISTS (SELECT FROM kernel_eventseal s WHERE s.event_id = e.id)
 ORDER BY e.xid, e.id LIMIT %s
"""
_HEADS = """
SELECT c.chain, s.seq, s.digest
  FROM unnest(%s::uuid[]) AS c(chain)
 CROSS JOIN LATERAL (SELECT seq, digest FROM kernel_eventseal
                      WHERE chain = c.chain ORDER BY seq DESC LIMIT 1) AS s
"""
_SEAL = """
INSERT INTO kernel_eventseal (chain, seq, event_id, digest)
SELECT * FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bytea[])
"""
_WAITING = """
SELECT e.at FROM kernel_event e
 WHERE (e.xid, e.id) > (
       coalesce((SELECT (note ->> 'xid')::bigint FROM kernel_lease WHERE name = %s), 0),
       coalesce((SELECT (note ->> 'id')::bigint FROM kernel_lease WHERE name = %s), 0))
 ORDER BY e.xid, e.id LIMIT 1
"""
LAST_ID = 2**63 - 1
Position = tuple[int, int]
Row = tuple[int, UUID | None, int, *tuple[str | None, ...]]


def sweep(limit: int = 20_000) -> int:
    """Seal what has settled, in batches, up to about ``limit`` events; returns how many.

    Another sealer at work means 0. What was sealed is anchored outside the database.
    """
    sealed = 0
    while sealed < limit:
        batch = _seal_batch()
        sealed += batch
        if batch < BATCH:
            break
    return sealed


def waiting_since() -> datetime | None:
    """When the first event happened that has no seal yet; None where all have one."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [LEASE, LEASE])
        row = cursor.fetchone()
    return row[0] if row else None


def anchor() -> int:
    """Write changed heads to the file beside the database; returns how many lines."""
    return anchors.append(anchors.path())


@transaction.atomic
def _seal_batch() -> int:
    with platform_scope():
        Lease.objects.get_or_create(name=LEASE)
        lease = (
            Lease.objects.select_for_update(no_key=True, skip_locked=True)
            .filter(name=LEASE)
            .first()
        )
        if lease is None:
            return 0
        before = (int(lease.note.get("xid", 0)), int(lease.note.get("id", 0)))
        rows, after = _settled(before)
        if after != before:
            lease.note = {"xid": after[0], "id": after[1]}
            lease.save(update_fields=["note"])
        if rows:
            chains = _append(rows)
            notify.publish(FEED, *(f"{FEED}:{chain}" for chain in chains))
    return len(rows)


def _settled(position: Position) -> tuple[list[Row], Position]:
    """The next events in order, none of which can be overtaken any more, and where they end."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint "
            "FROM pg_current_snapshot() AS s"
        )
        oldest, newest = cursor.fetchone()
        restored = newest <= position[0]
        if restored:
            # A database restored from a dump counts its transactions from the beginning
            # again. What the dump held is settled; behind it the count starts anew.
            cursor.execute(_RESTORED, [oldest, newest, BATCH])
        else:
            cursor.execute(_SETTLED, [*position, oldest, BATCH])
        rows: list[Row] = cursor.fetchall()
    if restored:
        return rows, position if len(rows) == BATCH else (oldest - 1, LAST_ID)
    return rows, (rows[-1][2], rows[-1][0]) if rows else position


def _append(rows: Sequence[Row]) -> list[UUID]:
    """Write one seal per event; returns the chains that grew."""
    chains = sorted({chain_of(row[1]) for row in rows})
    with connection.cursor() as cursor:
        cursor.execute(_HEADS, [chains])
        heads = {chain: (int(seq), bytes(digest)) for chain, seq, digest in cursor.fetchall()}
        places: list[UUID] = []
        seqs: list[int] = []
        digests: list[bytes] = []
        for row in rows:
            chain = chain_of(row[1])
            seq, digest = heads.get(chain, (0, GENESIS))
            heads[chain] = (seq + 1, link(digest, row[3:]))
            places.append(chain)
            seqs.append(seq + 1)
            digests.append(heads[chain][1])
        cursor.execute(_SEAL, [places, seqs, [row[0] for row in rows], digests])
    return chains
