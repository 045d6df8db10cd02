"""Does the chain show every way of tampering with it?"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.kernel import anchors, events, ids, seals, verifier
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.chain import PLATFORM, canonical
from gpuaas.kernel.models import Event, EventSeal, Lease
from tests.kernel.factories import sealed

HAPPENED = "kernel.test.happened"


def say(tenant_id: UUID | None, n: int) -> Event:
    return events.record(kind=HAPPENED, actor=SYSTEM, tenant_id=tenant_id, facts={"n": n})


def sql(statement: str, *args: Any) -> int:
    """Run a statement as somebody would who owns the tables: past the append-only triggers."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in ("kernel_event", "kernel_eventseal"):
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER append_only")
        cursor.execute(statement, args)
        changed = int(cursor.rowcount)
        for table in ("kernel_event", "kernel_eventseal"):
            cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER append_only")
        return changed


def codes(heads: Path) -> set[str]:
    return {flaw.code for flaw in verifier.verify(heads=heads).flaws}


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    return tmp_path / anchors.NAME


def history(chains: list[UUID | None], length: int) -> None:
    """Events in several chains, sealed in settled transactions."""
    for n in range(length):
        say(chains[n % len(chains)], n)
    assert sealed(length) == length


@pytest.mark.django_db(transaction=True)
def test_each_chain_counts_from_one_without_gaps_and_nothing_is_found(heads: Path) -> None:
    mine = ids.new_id()
    history([mine, None], 20)
    assert seals.sweep() == 0
    for chain in (mine, PLATFORM):
        places = EventSeal.objects.filter(chain=chain).order_by("seq")
        assert [s.seq for s in places] == list(range(1, 11))
    anchors.append(heads)
    report = verifier.verify(heads=heads)
    assert (report.chains, report.links, report.found) == (2, 20, 0)


@pytest.mark.django_db(transaction=True)
def test_an_event_of_a_running_transaction_holds_up_what_came_after_it() -> None:
    opened, close = threading.Event(), threading.Event()

    def slow() -> None:
        try:
            with transaction.atomic():
                say(None, 1)
                opened.set()
                close.wait(20)
        finally:
            connections.close_all()

    writer = threading.Thread(target=slow)
    writer.start()
    assert opened.wait(10)
    say(None, 2)
    assert seals.sweep() == 0
    close.set()
    writer.join()
    assert sealed(2) == 2
    order = EventSeal.objects.order_by("seq").values_list("event__facts__n", flat=True)
    assert list(order) == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_two_sealers_at_once_make_one_chain(heads: Path) -> None:
    for n in range(40):
        say(None, n)
    ready = threading.Barrier(3)

    def work() -> None:
        try:
            ready.wait(10)
            for _ in range(5):
                seals.sweep()
        finally:
            connections.close_all()

    sealers = [threading.Thread(target=work) for _ in range(3)]
    for sealer in sealers:
        sealer.start()
    for sealer in sealers:
        sealer.join()
    left = 40 - EventSeal.objects.count()
    assert sealed(left) == left
    assert EventSeal.objects.count() == 40
    assert verifier.verify(heads=heads).found == 0


@pytest.mark.django_db(transaction=True)
def test_a_restored_database_goes_on_sealing_where_its_dump_ended(heads: Path) -> None:
    history([None], 5)
    sql("UPDATE kernel_event SET xid = xid + 1000000000")
    sql("DELETE FROM kernel_eventseal")
    Lease.objects.filter(name=seals.LEASE).update(note={})
    # What a dump holds: numbers of another cluster, some of its events not sealed yet.
    sql("DELETE FROM kernel_eventseal WHERE seq > 3")
    Lease.objects.filter(name=seals.LEASE).update(note={"xid": 1_000_000_000, "id": 3})
    say(None, 6)
    assert sealed(6) == 6
    say(None, 7)
    assert sealed(1) == 1
    assert EventSeal.objects.count() == 7
    assert verifier.verify(heads=heads).found == 0


TAMPERINGS = ["edit", "delete", "delete_both", "insert", "swap", "truncate", "move", "unseal"]


def tamper(how: str, dice: random.Random) -> None:
    """Change the history at one random place."""
    event_ids = list(Event.objects.order_by("pk").values_list("pk", flat=True))
    victim = dice.choice(event_ids)
    seal = EventSeal.objects.get(event_id=victim)
    if how == "edit":
        column, value = dice.choice(
            [
                ("reason", "'because'"),
                ("facts", "'{\"n\": -1}'"),
                ("actor", '\'{"kind": "user"}\''),
                ("at", "at + interval '1 microsecond'"),
                ("kind", "kind || 'x'"),
                ("before", "'null'"),
                ("correlation", "'x'"),
                ("subject_id", "gen_random_uuid()"),
            ]
        )
        assert sql(f"UPDATE kernel_event SET {column} = {value} WHERE id = %s", victim) == 1
    elif how == "delete":
        assert sql("DELETE FROM kernel_event WHERE id = %s", victim) == 1
    elif how == "delete_both":
        sql("DELETE FROM kernel_event WHERE id = %s", victim)
        sql("DELETE FROM kernel_eventseal WHERE id = %s", seal.pk)
    elif how == "unseal":
        sql("DELETE FROM kernel_eventseal WHERE id = %s", seal.pk)
    elif how == "insert":
        sql(
            "INSERT INTO kernel_event (id, uid, xid, tenant_id, kind, subject_kind, actor, reason,"
            " facts, correlation) SELECT -id, gen_random_uuid(), xid, tenant_id, kind,"
            " subject_kind, actor, reason, facts, correlation FROM kernel_event WHERE id = %s",
            victim,
        )
    elif how == "swap":
        other = dice.choice([e for e in event_ids if e != victim])
        sql("UPDATE kernel_eventseal SET event_id = -1 WHERE event_id = %s", victim)
        sql("UPDATE kernel_eventseal SET event_id = %s WHERE event_id = %s", victim, other)
        sql("UPDATE kernel_eventseal SET event_id = %s WHERE event_id = -1", other)
    elif how == "move":
        sql("UPDATE kernel_event SET tenant_id = gen_random_uuid() WHERE id = %s", victim)
    else:
        sql(
            "DELETE FROM kernel_event WHERE id IN (SELECT event_id FROM kernel_eventseal"
            " WHERE chain = %s AND seq >= %s)",
            seal.chain,
            seal.seq,
        )
        sql("DELETE FROM kernel_eventseal WHERE chain = %s AND seq >= %s", seal.chain, seal.seq)


@pytest.mark.django_db(transaction=True)
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@pytest.mark.parametrize("how", TAMPERINGS)
def test_tampering_anywhere_is_found(how: str, heads: Path, seed: int) -> None:
    dice = random.Random(seed)
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE kernel_eventseal, kernel_event CASCADE")
    Lease.objects.filter(name=seals.LEASE).delete()
    heads.unlink(missing_ok=True)
    history([None, ids.new_id(), ids.new_id()][: dice.randint(1, 3)], dice.randint(3, 12))
    anchors.append(heads)
    assert codes(heads) == set()
    tamper(how, dice)
    assert codes(heads) != set()


@pytest.mark.django_db(transaction=True)
def test_a_history_rewritten_with_right_digests_still_differs_from_the_anchor(heads: Path) -> None:
    history([None], 6)
    anchors.append(heads)
    sql("UPDATE kernel_event SET reason = 'rewritten' WHERE facts = '{\"n\": 2}'")
    sql("DELETE FROM kernel_eventseal")
    Lease.objects.filter(name=seals.LEASE).delete()
    assert sealed(6) == 6
    assert codes(heads) == {"chain_rewritten"}


@pytest.mark.django_db(transaction=True)
def test_the_heads_file_holds_the_last_head_of_each_chain_and_stays_small(
    heads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = ids.new_id()
    history([mine, None], 4)
    assert anchors.append(heads) == 2
    assert anchors.append(heads) == 0
    heads.write_text(heads.read_text() + '{"at": "half')
    history([mine], 1)
    assert anchors.append(heads) == 1
    known, bad = anchors.read(heads)
    assert ([(h.chain, h.seq) for h in known][-1], bad) == ((mine, 3), 1)
    assert heads.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(anchors, "LIMIT_BYTES", 10)
    history([mine], 1)
    assert anchors.append(heads) == 1
    known, bad = anchors.read(heads)
    assert ({h.chain: h.seq for h in known}, len(known), bad) == ({mine: 4, PLATFORM: 2}, 2, 0)
    assert verifier.verify(heads=heads).found == 0


@pytest.mark.django_db(transaction=True)
def test_an_event_that_nobody_seals_is_reported_as_late(heads: Path) -> None:
    say(None, 1)
    assert codes(heads) == set()
    sql("UPDATE kernel_event SET at = at - interval '5 minutes'")
    assert codes(heads) == {"seal_late"}


def test_canonical_bytes_tell_null_from_empty_and_fields_from_each_other() -> None:
    forms: list[list[str | None]] = [["ab", ""], ["a", "b"], ["ab", None], ["", "ab"], ["-", ""]]
    assert len({canonical(form) for form in forms}) == len(forms)
    assert canonical(["é", None]) == "2:é-".encode()
