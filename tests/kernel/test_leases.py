"""Does only one hold a lease, and does each period have one turn?"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from gpuaas.kernel import clock, leases


@pytest.mark.django_db
def test_a_lease_is_one_holders_until_it_lapses_or_is_released(at: clock.FakeClock) -> None:
    assert leases.acquire("cycle", 10, "a") == 1
    assert leases.acquire("cycle", 10, "b") is None
    at.advance(5)
    assert leases.acquire("cycle", 10, "a") == 1
    at.advance(9)
    assert leases.acquire("cycle", 10, "b") is None
    leases.release("cycle", "b")
    assert leases.acquire("cycle", 10, "b") is None
    at.advance(1)
    assert leases.acquire("cycle", 10, "b") == 2
    leases.release("cycle", "b")
    assert leases.acquire("cycle", 10, "a") == 3


@pytest.mark.django_db
def test_a_lapsed_lease_gets_a_new_epoch_even_from_the_same_holder(at: clock.FakeClock) -> None:
    assert leases.acquire("cycle", 10, "a") == 1
    at.advance(10)
    assert leases.acquire("cycle", 10, "a") == 2


@pytest.mark.django_db
def test_turns_come_once_a_period(at: clock.FakeClock) -> None:
    assert leases.take_turns({"fast": 1, "slow": 60}, "a") == {"fast", "slow"}
    assert leases.take_turns({"fast": 1, "slow": 60}, "a") == set()
    at.advance(1)
    assert leases.take_turns({"fast": 1, "slow": 60}, "b") == {"fast"}


@pytest.mark.django_db(transaction=True)
def test_many_processes_asking_at_once_get_one_lease() -> None:
    ready = threading.Barrier(8)

    def ask(who: int) -> int | None:
        try:
            ready.wait(10)
            return leases.acquire("race", 60, f"holder-{who}")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(ask, range(8)))
    assert sorted(e for e in got if e is not None) == [1]
