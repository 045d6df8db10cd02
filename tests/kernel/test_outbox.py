"""Does every delivery come once, in order, and does poison stay alone?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import UUID

import pytest
from django.db import OperationalError, connections

from gpuaas.kernel import clock, errors, events, outbox
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Delivery, Event
from tenants.models import Tenant
from tests.kernel.factories import tenant

HAPPENED = "kernel.test.happened"


@pytest.fixture
def at() -> Iterator[clock.FakeClock]:
    with clock.use(clock.FakeClock(datetime.now(UTC))) as fake:
        assert isinstance(fake, clock.FakeClock)
        fake.advance(3600)
        yield fake


class Ear:
    """A handler that remembers what it heard; it fails for the subjects it is told to."""

    def __init__(self) -> None:
        self.heard: list[tuple[UUID | None, int]] = []
        self.fails_for: dict[UUID | None, Exception] = {}

    def __call__(self, event: Event) -> None:
        if event.subject_id in self.fails_for:
            raise self.fails_for[event.subject_id]
        self.heard.append((event.subject_id, event.facts["n"]))


@pytest.fixture
def ear(monkeypatch: pytest.MonkeyPatch) -> Ear:
    monkeypatch.setattr(events, "_subscribers", {})
    made = Ear()
    outbox.subscribe("ear", {HAPPENED: made})
    return made


def say(subject: Tenant | None, n: int) -> Event:
    return events.record(kind=HAPPENED, subject=subject, actor=SYSTEM, facts={"n": n})


@pytest.mark.django_db
def test_deliveries_of_one_subject_come_in_order_and_once(at: clock.FakeClock, ear: Ear) -> None:
    a, b = tenant("a"), tenant("b")
    for n in range(5):
        say(a, n)
        say(b, n)
    say(None, 9)
    assert outbox.sweep() == 11
    assert outbox.sweep() == 0
    assert [n for s, n in ear.heard if s == a.pk] == list(range(5))
    assert [n for s, n in ear.heard if s == b.pk] == list(range(5))
    assert (None, 9) in ear.heard


@pytest.mark.django_db
def test_an_event_nobody_subscribed_to_leaves_no_delivery(ear: Ear) -> None:
    events.record(kind="kernel.test.other", actor=SYSTEM)
    assert Delivery.objects.count() == 0


@pytest.mark.django_db
def test_poison_is_set_aside_and_what_follows_it_is_delivered(
    at: clock.FakeClock, ear: Ear
) -> None:
    a, b = tenant("a"), tenant("b")
    say(a, 1)
    ear.fails_for[a.pk] = ValueError("token=hunter2")
    say(b, 1)
    outbox.sweep()
    assert ear.heard == [(b.pk, 1)]
    for _ in range(outbox.ATTEMPTS - 1):
        at.advance(outbox.RETRY.most_s)
        outbox.sweep()
    bad = Delivery.objects.get(subject_id=a.pk)
    assert (bad.state, bad.attempts, bad.last_error) == ("failed", outbox.ATTEMPTS, "ValueError")
    del ear.fails_for[a.pk]
    say(a, 2)
    outbox.sweep()
    assert (a.pk, 2) in ear.heard
    outbox.requeue(bad.pk, actor=SYSTEM, reason="mended")
    outbox.sweep()
    assert (a.pk, 1) in ear.heard
    with pytest.raises(errors.NotFound):
        outbox.requeue(bad.pk, actor=SYSTEM, reason="again")


@pytest.mark.django_db
def test_what_a_failing_handler_wrote_is_undone(at: clock.FakeClock, ear: Ear) -> None:
    def half(event: Event) -> None:
        events.record(kind="kernel.test.half", actor=SYSTEM)
        raise ValueError

    outbox.subscribe("half", {"kernel.test.started": half})
    events.record(kind="kernel.test.started", actor=SYSTEM)
    outbox.sweep()
    assert not Event.objects.filter(kind="kernel.test.half").exists()
    assert Delivery.objects.get(subscriber="half").attempts == 1


@pytest.mark.django_db
def test_a_failure_keeps_the_subjects_later_deliveries_behind_it(
    at: clock.FakeClock, ear: Ear
) -> None:
    a = tenant("a")
    say(a, 1)
    say(a, 2)
    ear.fails_for[a.pk] = ValueError()
    outbox.sweep()
    del ear.fails_for[a.pk]
    assert outbox.sweep() == 0
    at.advance(outbox.RETRY.first_s)
    assert outbox.sweep() == 2
    assert ear.heard == [(a.pk, 1), (a.pk, 2)]


@pytest.mark.django_db
def test_a_busy_database_costs_no_attempt(at: clock.FakeClock, ear: Ear) -> None:
    a = tenant("a")
    say(a, 1)
    ear.fails_for[a.pk] = OperationalError("deadlock detected")
    outbox.sweep()
    row = Delivery.objects.get(subject_id=a.pk)
    assert (row.state, row.attempts) == ("pending", 0)


@pytest.mark.django_db
def test_a_handler_that_kills_its_process_is_counted_and_set_aside(
    at: clock.FakeClock, ear: Ear
) -> None:
    class Killed(BaseException):
        pass

    def kill(event: Event) -> None:
        raise Killed

    outbox.subscribe("killer", {"kernel.test.poison": kill})
    events.record(kind="kernel.test.poison", actor=SYSTEM)
    for _ in range(outbox.ATTEMPTS):
        with pytest.raises(Killed):
            outbox.sweep()
        assert outbox.sweep() == 0
        at.advance(outbox.LEASE_S)
    outbox.sweep()
    row = Delivery.objects.get(subscriber="killer")
    assert (row.state, row.done_at) == ("failed", None)


@pytest.mark.django_db(transaction=True)
def test_parallel_deliverers_keep_each_subjects_order_and_repeat_nothing(ear: Ear) -> None:
    subjects = [tenant(f"t{i}") for i in range(4)]
    for n in range(25):
        for subject in subjects:
            say(subject, n)
    ready = threading.Barrier(4)

    def work(_: int) -> int:
        try:
            ready.wait(10)
            handled, idle = 0, 0
            while idle < 3:
                got = outbox.deliver(7)
                handled += got
                idle = 0 if got else idle + 1
            return handled
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        handled = sum(pool.map(work, range(4)))
    handled += outbox.deliver()
    assert handled == 100
    for subject in subjects:
        assert [n for s, n in ear.heard if s == subject.pk] == list(range(25))
    assert Delivery.objects.filter(state="done").count() == 100
