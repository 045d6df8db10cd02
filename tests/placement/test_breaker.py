"""Does automation stop by itself before it has taken a pool away?"""

from __future__ import annotations

import threading
from uuid import UUID

import pytest
from django.db import connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from gpuaas.kernel import errors, ids
from gpuaas.kernel.actor import system
from gpuaas.kernel.clock import FakeClock, use
from gpuaas.kernel.clock import now as time_now
from gpuaas.kernel.models import Event
from placement.domain.breaker import Limits, ruling
from placement.models import AutomaticAction, BreakerRule, Node, Pool
from placement.services.breaker import (
    breaker_allows,
    breaker_set,
    held_allow,
    held_reject,
    held_sweep,
)
from placement.services.nodes import locked
from tests.builders import OPERATOR, Host, a_catalogue, a_host

PART = system("detector")


def ids_of(count: int) -> list[UUID]:
    return [ids.new_id() for _ in range(count)]


@given(
    total=st.integers(0, 300),
    percent=st.integers(0, 100),
    floor=st.integers(0, 5),
    wishes=st.integers(0, 60),
)
def test_no_more_nodes_than_the_share_are_ever_acted_upon(
    total: int, percent: int, floor: int, wishes: int
) -> None:
    limits, acted = Limits(percent, floor), set[UUID]()
    for node in ids_of(wishes):
        if ruling(node, acted, total=total, limits=limits).allowed:
            acted.add(node)
            assert ruling(node, acted, total=total, limits=limits).allowed
    assert len(acted) == min(wishes, max(floor, total * percent // 100))


def hosts(count: int) -> list[Host]:
    a_catalogue()
    return [a_host(f"host-{k}") for k in range(count)]


@transaction.atomic
def ask(host: Host, kind: str = "quarantine", reason: str = "device_health") -> bool:
    return breaker_allows(node=locked(host.node.pk), kind=kind, reason=reason, actor=PART)


@pytest.mark.django_db
def test_beyond_the_share_an_action_is_held_once_and_said_once() -> None:
    a, b, c = hosts(3)
    assert [ask(a), ask(a, "repair"), ask(b), ask(b), ask(c)] == [True, True, False, False, False]
    held = AutomaticAction.objects.filter(state="held").order_by("created_at")
    assert [(row.node_id, row.asked) for row in held] == [(b.node.pk, 2), (c.node.pk, 1)]
    said = Event.objects.filter(kind="placement.automaticaction.hold")
    assert {event.reason for event in said} == {"breaker_held"}
    assert said.count() == 2
    first = said.order_by("id")[0]
    assert (first.facts["acted"], first.facts["most"], first.facts["nodes"]) == (1, 1, 3)


@pytest.mark.django_db
def test_what_is_held_goes_on_when_the_window_has_passed() -> None:
    a, b = hosts(2)
    clock = FakeClock(time_now())
    with use(clock):
        assert (ask(a), ask(b)) == (True, False)
        clock.advance(3601)
        assert ask(b)
    assert AutomaticAction.objects.filter(state="taken").count() == 2


@pytest.mark.django_db
def test_an_operator_lets_a_held_action_go_on() -> None:
    a, b = hosts(2)
    assert (ask(a), ask(b)) == (True, False)
    row = AutomaticAction.objects.get(state="held")
    held_allow(action_id=row.pk, reason="both are broken, I looked", actor=OPERATOR)
    assert ask(b)
    row.refresh_from_db()
    assert (row.state, row.decision) == ("taken", "both are broken, I looked")
    assert row.decided_by == OPERATOR.as_json()


@pytest.mark.django_db
def test_a_rejected_action_stays_undone_for_a_window_and_is_then_asked_anew() -> None:
    a, b = hosts(2)
    clock = FakeClock(time_now())
    with use(clock):
        assert (ask(a), ask(b)) == (True, False)
        row = AutomaticAction.objects.get(state="held")
        with pytest.raises(errors.ProductError) as refused:
            held_reject(action_id=row.pk, reason=" ", actor=OPERATOR)
        assert refused.value.code == "reason_missing"
        held_reject(action_id=row.pk, reason="the sensor lies", actor=OPERATOR)
        clock.advance(1800)
        assert not ask(b)
        clock.advance(1801)
        # The share is free again, and the rejection is over.
        assert ask(b)
    assert sorted(AutomaticAction.objects.values_list("state", flat=True)) == [
        "lapsed",
        "taken",
        "taken",
    ]


@pytest.mark.django_db
def test_a_wish_that_nobody_has_any_more_lapses() -> None:
    a, b = hosts(2)
    clock = FakeClock(time_now())
    with use(clock):
        assert (ask(a), ask(b)) == (True, False)
        clock.advance(3500)
        assert held_sweep() == 0
        clock.advance(200)
        assert held_sweep() == 1
    assert AutomaticAction.objects.filter(state="lapsed").count() == 1


@pytest.mark.django_db
def test_a_pool_has_its_own_limits_and_each_wrong_one_is_named() -> None:
    a, b = hosts(2)
    breaker_set(
        pool="default", percent=0, floor=0, window_s=600, reason="audit week", actor=OPERATOR
    )
    assert (ask(a), ask(b)) == (False, False)
    assert BreakerRule.objects.get().version == 2
    with pytest.raises(errors.InvalidRequest) as refused:
        breaker_set(
            pool="default", percent=101, floor=0, window_s=1, reason="why not", actor=OPERATOR
        )
    assert [error.pointer for error in refused.value.errors] == ["/percent", "/window_s"]


@pytest.mark.django_db(transaction=True)
def test_a_crowd_of_detectors_gets_no_more_than_the_share() -> None:
    crowd = hosts(6)
    Pool.objects.get(name="default")
    start, answers = threading.Barrier(6), []

    def detect(host: Host) -> None:
        try:
            start.wait(10)
            answers.append(ask(host))
        finally:
            connection.close()

    threads = [threading.Thread(target=detect, args=(host,)) for host in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answers) == [False] * 5 + [True]
    assert Node.objects.filter(automatic_actions__state="taken").count() == 1
