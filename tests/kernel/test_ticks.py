"""Does the periodic work go on, whatever one part of it does?"""

from __future__ import annotations

import logging
import threading

import pytest
from django.db import OperationalError, connections

from gpuaas.kernel import leases, ticks
from gpuaas.kernel.ticks import Tick, Ticker


@pytest.mark.django_db
def test_each_turn_is_one_tickers() -> None:
    calls: list[str] = []
    tick = {"count": Tick("count", 60, lambda: calls.append("x"))}
    first, second = Ticker(tick), Ticker(tick)
    assert first.ask() == {"count"}
    assert second.ask() == set()
    assert calls == ["x"]


@pytest.mark.django_db
def test_a_failing_tick_stops_no_other_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[str] = []

    def fail() -> None:
        raise ValueError

    ticker = Ticker(
        {"bad": Tick("bad", 0, fail), "good": Tick("good", 0, lambda: calls.append("x"))}
    )
    for _ in range(3):
        assert ticker.ask() == {"bad", "good"}
    assert len(calls) == 3
    assert [r.getMessage() for r in caplog.records] == ["tick bad failed"]


@pytest.mark.django_db(transaction=True)
def test_a_ticker_outlives_the_database_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(ticks, "BACKOFF_S", (0.0,))
    monkeypatch.setattr(ticks, "POLL_S", 0.0)
    sound, outage = leases.take_turns, [3]
    ran = threading.Event()

    def take(periods: dict[str, float], holder: str) -> set[str]:
        if outage[0]:
            outage[0] -= 1
            raise OperationalError("the server is gone")
        return sound(periods, holder)

    monkeypatch.setattr(leases, "take_turns", take)
    ticker = Ticker({"one": Tick("one", 60, ran.set)})
    ticker.start()
    assert ran.wait(10)
    ticker.stop()
    connections.close_all()
    said = [r.getMessage() for r in caplog.records if r.name == "gpuaas.kernel.ticks"]
    assert said == [
        "the database does not answer (OperationalError); ticks wait",
        "the database answers again",
    ]


@pytest.mark.django_db
def test_a_turn_that_still_runs_is_not_taken_again_by_the_same_ticker() -> None:
    inner: list[set[str]] = []
    ticker = Ticker({"slow": Tick("slow", 0, lambda: inner.append(ticker.ask()))})
    assert ticker.ask() == {"slow"}
    assert inner == [set()]
