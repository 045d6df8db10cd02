"""Is the event chain what was written?  Finds what was edited, deleted, inserted or cut off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from gpuaas.kernel import anchors, clock
from gpuaas.kernel.anchors import Head
from gpuaas.kernel.chain import COLUMNS, GENESIS, chain_of, link
from gpuaas.kernel.models.events import Lease
from gpuaas.kernel.scope import platform_scope
from gpuaas.kernel.seals import LEASE

BATCH = 5000
LAG_S = 60
SHOWN = 100
FIRST_CHAIN = UUID(int=0)

_LINKS = f"""
SELECT s.chain, s.seq, s.digest, s.event_id, e.id IS NOT NULL, e.tenant_id, {COLUMNS}
  FROM kernel_eventseal s LEFT JOIN kernel_event e ON e.id = s.event_id
 WHERE (s.chain, s.seq) > (%s, %s) AND (%s::uuid IS NULL OR s.chain = %s)
 ORDER BY s.chain, s.seq LIMIT {BATCH}
"""
_UNSEALED = """
SELECT e.id, coalesce(e.tenant_id, %(platform)s), (e.xid, e.id) <= (%(xid)s, %(id)s)
  FROM kernel_event e
 WHERE NOT EXISTS (SELECT FROM kernel_eventseal s WHERE s.event_id = e.id)
   AND ((e.xid, e.id) <= (%(xid)s, %(id)s)
        OR e.at < coalesce(%(now)s, clock_timestamp()) - make_interval(secs => %(lag)s))
   AND (%(chain)s::uuid IS NULL OR coalesce(e.tenant_id, %(platform)s) = %(chain)s)
 ORDER BY e.id LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is not as it was written; ``code`` says which kind."""

    code: str
    chain: UUID
    seq: int | None
    event: int | None
    detail: str


@dataclass
class Report:
    """What was walked and what was found; ``found`` counts also what is not listed."""

    chains: int = 0
    links: int = 0
    found: int = 0
    flaws: list[Flaw] = field(default_factory=list)

    def add(self, code: str, chain: UUID, seq: int | None, event: int | None, detail: str) -> None:
        """Count a flaw, and list it while the list is short."""
        self.found += 1
        if len(self.flaws) < SHOWN:
            self.flaws.append(Flaw(code, chain, seq, event, detail))


def verify(chain: UUID | None = None, heads: Path | None = None) -> Report:
    """Walk every chain (or one) in one snapshot and compare it with the anchored heads.

    ``heads`` is the file to compare with; by default that of the data folder.
    """
    known, bad_lines = anchors.read(heads or anchors.path())
    report = Report()
    with _snapshot():
        lengths = _walk(report, chain, known)
        _compare_lengths(report, chain, known, lengths)
        _unsealed(report, chain)
    if bad_lines:
        detail = f"{bad_lines} lines of the heads file can not be read"
        report.add("heads_unreadable", FIRST_CHAIN, None, None, detail)
    return report


@contextmanager
def _snapshot() -> Iterator[None]:
    outermost = not connection.in_atomic_block
    with transaction.atomic(), platform_scope():
        if outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def _links(chain: UUID | None) -> Iterator[tuple[Any, ...]]:
    position: tuple[UUID, int] = (FIRST_CHAIN, 0)
    while True:
        with connection.cursor() as cursor:
            cursor.execute(_LINKS, [*position, chain, chain])
            rows = cursor.fetchall()
        yield from rows
        if len(rows) < BATCH:
            return
        position = (rows[-1][0], rows[-1][1])


def _walk(report: Report, chain: UUID | None, known: Iterable[Head]) -> dict[UUID, int]:
    """Check every link; returns the length of each chain."""
    anchored: dict[UUID, dict[int, bytes]] = defaultdict(dict)
    for head in known:
        anchored[head.chain][head.seq] = head.digest
    lengths: dict[UUID, int] = {}
    previous = GENESIS
    places: dict[int, bytes] = {}
    for name, seq, stored, event, present, tenant, *fields in _links(chain):
        digest = bytes(stored)
        last = lengths.get(name, 0)
        if last == 0:
            previous = GENESIS
            places = anchored.get(name, {})
        report.links += 1
        if seq != last + 1:
            report.add("seal_missing", name, seq, event, f"places {last + 1} to {seq - 1} are gone")
        if not present:
            report.add("event_missing", name, seq, event, "its event is gone")
        elif chain_of(tenant) != name:
            report.add("event_changed", name, seq, event, "its event belongs to another tenant")
        elif seq == last + 1 and link(previous, fields) != digest:
            report.add("event_changed", name, seq, event, "event or seal is not as it was sealed")
        if places.get(seq, digest) != digest:
            report.add("chain_rewritten", name, seq, event, "another head was anchored here")
        previous = digest
        lengths[name] = seq
    report.chains = len(lengths)
    return lengths


def _compare_lengths(
    report: Report, chain: UUID | None, known: Iterable[Head], lengths: dict[UUID, int]
) -> None:
    longest: dict[UUID, int] = {}
    for head in known:
        longest[head.chain] = max(longest.get(head.chain, 0), head.seq)
    for name, seq in sorted(longest.items()):
        length = lengths.get(name, 0)
        if length < seq and chain in (None, name):
            detail = f"the chain ends at {length}; {seq} was anchored"
            report.add("chain_truncated", name, seq, None, detail)


def _unsealed(report: Report, chain: UUID | None) -> None:
    note = Lease.objects.filter(name=LEASE).values_list("note", flat=True).first() or {}
    with connection.cursor() as cursor:
        cursor.execute(
            _UNSEALED,
            {
                "platform": FIRST_CHAIN,
                "xid": note.get("xid", 0),
                "id": note.get("id", 0),
                "now": clock.stand_in(),
                "lag": LAG_S,
                "chain": chain,
                "limit": 10_000,
            },
        )
        for event, name, passed in cursor.fetchall():
            if passed:
                report.add(
                    "event_unsealed", name, None, event, "it was put in, or its seal removed"
                )
            else:
                report.add("seal_late", name, None, event, f"not sealed within {LAG_S} s")
