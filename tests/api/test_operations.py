"""Is an operation the run itself, and is it waited for without a connection?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import connection, connections

from gpuaas.kernel.notify import hub
from tests.api.client import Caller, caller_of, order_body
from tests.builders import Host, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/projects/default/allocations"


@pytest.fixture
def host() -> Iterator[Host]:
    a_catalogue()
    yield a_host()
    hub.stop()


@pytest.fixture
def acme(host: Host) -> Caller:
    return caller_of(a_tenant("acme"))


def looks(until: Callable[[], bool], most: int = 500) -> Iterator[None]:
    """Looks of a hundredth of a second each, once ``until`` holds; at most ``most`` in all."""
    pause = threading.Event()
    for _ in range(most):
        if until():
            yield
        pause.wait(0.01)


def no_open_transaction() -> bool:
    """Whether no other connection holds a transaction open."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in trans%'")
        row: tuple[int] = cursor.fetchone()
    return row == (0,)


def in_background(work: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_waiting_client_hears_of_the_end_and_holds_no_connection(
    acme: Caller, host: Host
) -> None:
    operation = acme.post(PATH, order_body()).json()
    quiet: list[bool] = []

    def work() -> None:
        # Right after parking the last look may still be under way; then nothing is held.
        quiet.append(any(no_open_transaction() for _ in looks(lambda: hub.parked == 1)))
        host.work()

    thread = in_background(work)
    answer = acme.get(f"/operations/{operation['id']}?wait=30s")
    thread.join()
    body = answer.json()
    assert (body["done"], body["state"], body["progress"]["percent"]) == (True, "succeeded", 100)
    assert quiet == [True]
    assert hub.parked == 0
    assert "Retry-After" not in answer.headers


def test_a_lease_is_asked_for_and_waited_for_in_one_call(acme: Caller, host: Host) -> None:
    def work() -> None:
        next(looks(lambda: hub.parked == 1))
        host.work()

    thread = in_background(work)
    answer = acme.post(f"{PATH}?wait=30s", order_body())
    thread.join()
    assert (answer.status_code, answer.json()["state"]) == (202, "succeeded")
    times = [step["ended_at"] for step in answer.json()["steps"] if step["ended_at"]]
    assert times
    assert all(at.endswith("Z") for at in [*times, answer.json()["created_at"]])


def test_an_answer_comes_when_the_time_is_over(acme: Caller) -> None:
    operation = acme.post(PATH, order_body()).json()
    answer = acme.get(f"/operations/{operation['id']}?wait=1s")
    assert (answer.status_code, answer.json()["done"]) == (200, False)
    assert answer.headers["Retry-After"] == "2"


def test_above_the_limit_of_parked_requests_the_answer_comes_at_once(
    acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = acme.post(PATH, order_body()).json()
    monkeypatch.setattr(hub, "limit", 0)
    answer = acme.get(f"/operations/{operation['id']}?wait=60s")
    assert answer.json()["done"] is False


@pytest.mark.parametrize("wait", ["soon", "-1", "1.5", "30m", "99999s"])
def test_a_wait_that_is_no_number_of_seconds_is_refused(acme: Caller, wait: str) -> None:
    operation = acme.post(PATH, order_body()).json()
    answer = acme.get(f"/operations/{operation['id']}?wait={wait}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/wait"


def test_operations_are_found_by_state_and_target(acme: Caller, host: Host) -> None:
    operation = acme.post(PATH, order_body()).json()
    target = operation["target"]["id"]
    assert len(acme.get(f"/operations?target={target}").json()["items"]) == 1
    assert acme.get("/operations?state=succeeded").json()["items"] == []
    host.work()
    assert len(acme.get("/operations?state=succeeded").json()["items"]) == 1
    other = caller_of(a_tenant("globex"))
    assert other.get("/operations").json()["items"] == []
    assert other.get(f"/operations/{operation['id']}").status_code == 404
