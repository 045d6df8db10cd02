"""Is each sealed event counted exactly once, whatever breaks, at a cost that does not grow?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from gpuaas.kernel import clock, events, measuring, on_the_spot
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.families import Family, Observation, Series
from gpuaas.kernel.measures import ENTERED, EXITED, STAYS
from gpuaas.kernel.measuring import Told, measures_sweep, totals
from gpuaas.kernel.models import Event, MeasuresRead, MeasureTotal
from gpuaas.kernel.shared_counts import SharedCounts
from gpuaas.kernel.transitions import advance
from tests.builders import OPERATOR, a_catalogue, a_tenant
from tests.kernel.factories import all_sealed, sealed

pytestmark = pytest.mark.django_db(transaction=True)

SAID = "kernel.test.said"
HEARD = Family("gpuaas_test_said", "How often something was said", ("reason",))


def said(told: Sequence[Told]) -> Iterator[Observation]:
    for one in told:
        if one.kind == SAID:
            yield Observation(HEARD, (one.reason,))


@pytest.fixture(autouse=True)
def listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_takes", {**measuring._takes, "tests.said": said})
    monkeypatch.setattr(measuring, "_families", {**measuring._families, HEARD.name: HEARD})


def say(times: int, reason: str = "hello") -> None:
    for _ in range(times):
        events.record(kind=SAID, actor=SYSTEM, reason=reason)
    assert sealed(times) == times


def heard(reason: str = "hello") -> int:
    return totals().get((HEARD.name, (reason,)), Series()).count


def test_an_event_counts_once_however_often_is_looked() -> None:
    say(3)
    assert measures_sweep() == 3
    assert measures_sweep() == 0
    assert heard() == 3
    say(2)
    say(1, "goodbye")
    assert measures_sweep() == 3
    assert (heard(), heard("goodbye")) == (5, 1)


def test_what_is_not_sealed_yet_is_counted_later() -> None:
    events.record(kind=SAID, actor=SYSTEM, reason="hello")
    assert measures_sweep() == 0
    assert heard() == 0
    assert measuring.read_until() == Event.objects.get().at
    all_sealed()
    before = clock.db_now()
    assert measures_sweep() == 1
    assert heard() == 1
    until = measuring.read_until()
    assert until is not None
    assert until >= before


def test_a_turn_that_dies_counts_nothing_and_the_next_counts_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    say(4)
    with monkeypatch.context() as broken:
        broken.setattr(MeasuresRead, "save", lambda *a, **k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            measures_sweep()
    assert heard() == 0
    assert measures_sweep() == 4
    assert heard() == 4


def test_a_turn_takes_bounded_batches_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    say(7)
    monkeypatch.setattr(measuring, "BATCH", 2)
    monkeypatch.setattr(measuring, "BATCHES", 2)
    assert measures_sweep() == 4
    until = measuring.read_until()
    assert until is not None
    assert until <= Event.objects.latest("pk").at
    assert measures_sweep() == 3
    assert measures_sweep() == 0
    assert heard() == 7


def test_who_breaks_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(told: Sequence[Told]) -> Iterator[Observation]:
        yield next(iter(said(told)))
        raise ValueError("of the test")

    monkeypatch.setattr(measuring, "_takes", {"a": breaks, "b": said})
    say(2)
    assert measures_sweep() == 2
    assert heard() == 2


def test_another_who_reads_on_at_the_moment_is_let() -> None:
    say(1)
    measures_sweep()
    say(1)
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT FROM kernel_measuresread FOR UPDATE")
            assert measures_sweep() == 0
            cursor.execute("ROLLBACK")
    finally:
        other.close()
    assert measures_sweep() == 1
    assert heard() == 2


def test_a_scrape_reads_as_many_rows_as_there_are_series() -> None:
    say(3)
    measures_sweep()
    before = MeasureTotal.objects.count()
    say(30)
    measures_sweep()
    assert MeasureTotal.objects.count() == before
    with CaptureQueriesContext(connection) as seen:
        totals()
    assert len(seen) == 1


def test_states_tell_how_long_they_were_and_how_often() -> None:
    a_catalogue()
    acme = a_tenant("acme").tenant
    suspended = advance(acme, "suspend", actor=OPERATOR)
    advance(suspended, "resume", actor=OPERATOR)
    all_sealed()
    measures_sweep()
    kept = totals()
    noun = "tenants.tenant"
    moves = {
        state: (
            kept[ENTERED.name, (noun, state)].count,
            kept.get((EXITED.name, (noun, state)), Series()).count,
        )
        for state in ("pending", "active", "suspended")
    }
    assert moves == {"pending": (1, 1), "active": (2, 1), "suspended": (1, 1)}
    stay = kept[STAYS.name, (noun, "suspended")]
    went, came = (
        Event.objects.get(kind=f"tenants.tenant.{edge}").at for edge in ("resume", "suspend")
    )
    assert stay.count == 1
    assert stay.sum_us == round((went - came) / timedelta(microseconds=1))
    assert (STAYS.name, (noun, "pending")) in kept


def test_what_is_measured_on_the_spot_is_added_up_over_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took = Family("gpuaas_test_took_seconds", "A test", ("kind",), (0.1, 1.0))
    monkeypatch.setattr(on_the_spot, "_families", {took.name: took, HEARD.name: HEARD})
    key = f"gpuaas:test:{clock.epoch_ns()}"
    url = settings.CONFIG.redis_url
    for seconds in (0.05, 0.5, 5.0):
        monkeypatch.setattr(on_the_spot, "counts", SharedCounts(url, key))
        on_the_spot.observe(took, seconds, "a")
        on_the_spot.count(HEARD, "x")
        on_the_spot.read()
    assert on_the_spot.read() == {
        (took.name, ("a",)): Series(3, 5_550_000, [1, 1, 1]),
        (HEARD.name, ("x",)): Series(3, 0, []),
    }


def test_a_block_without_an_outcome_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    took = Family("gpuaas_test_took_seconds", "A test", ("kind",), (0.1, 1.0))
    monkeypatch.setattr(on_the_spot, "_families", {took.name: took})
    url = settings.CONFIG.redis_url
    monkeypatch.setattr(on_the_spot, "counts", SharedCounts(url, f"gpuaas:test:{clock.epoch_ns()}"))
    with on_the_spot.timed(took):
        pass
    assert on_the_spot.read() == {}

    def breaks() -> None:
        with on_the_spot.timed(took) as block:
            block.labels = ("a",)
            raise ValueError("of the test")

    with pytest.raises(ValueError, match="of the test"):
        breaks()
    assert on_the_spot.read()[took.name, ("a",)].count == 1


def test_nothing_of_a_transaction_that_was_undone_is_counted() -> None:
    with transaction.atomic():
        events.record(kind=SAID, actor=SYSTEM, reason="hello")
        transaction.set_rollback(True)
    all_sealed()
    assert measures_sweep() == 0
    assert heard() == 0
