"""Does a state move once, by a listed edge, with one event, whoever races?"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from gpuaas.kernel import errors
from gpuaas.kernel.actor import SYSTEM
from gpuaas.kernel.models import Event
from gpuaas.kernel.transitions import advance
from tenants.models import Tenant
from tests.kernel.factories import tenant


def moves(of: Tenant) -> list[str]:
    return list(
        Event.objects.filter(subject_id=of.pk).order_by("pk").values_list("kind", flat=True)
    )


@pytest.mark.django_db
def test_a_move_changes_state_version_and_fields_and_leaves_one_event() -> None:
    mine = tenant("mine")
    row = advance(
        mine,
        "approve",
        actor=SYSTEM,
        reason="checked",
        changes={"name": "Mine Ltd"},
        facts={"ticket": 7},
    )
    assert (row.state, row.version, row.name) == ("active", mine.version + 1, "Mine Ltd")
    mine.refresh_from_db()
    assert (mine.state, mine.version, mine.name) == ("active", row.version, "Mine Ltd")
    event = Event.objects.get(subject_id=mine.pk)
    assert (event.kind, event.reason, event.facts) == (
        "tenants.tenant.approve",
        "checked",
        {"ticket": 7},
    )
    assert (event.before, event.after) == ({"state": "pending"}, {"state": "active"})


@pytest.mark.django_db
def test_a_stale_object_changes_nothing() -> None:
    mine = tenant("mine")
    stale = Tenant.objects.get(pk=mine.pk)
    advance(mine, "approve", actor=SYSTEM)
    with pytest.raises(errors.ConcurrentUpdate):
        advance(stale, "reject", actor=SYSTEM)
    assert moves(mine) == ["tenants.tenant.approve"]


@pytest.mark.django_db
def test_an_unlisted_move_is_refused_and_leaves_no_event() -> None:
    mine = tenant("mine")
    with pytest.raises(errors.TransitionRefused) as refusal:
        advance(mine, "resume", actor=SYSTEM)
    assert refusal.value.facts == {"state": "pending", "edge": "resume"}
    assert (Tenant.objects.get(pk=mine.pk).state, moves(mine)) == ("pending", [])


@pytest.mark.django_db
def test_what_is_gone_is_not_found() -> None:
    mine = tenant("mine")
    Tenant.objects.filter(pk=mine.pk).delete()
    with pytest.raises(errors.NotFound):
        advance(mine, "approve", actor=SYSTEM)


@pytest.mark.django_db
def test_a_rolled_back_move_leaves_neither_state_nor_event() -> None:
    mine = tenant("mine")
    with transaction.atomic():
        advance(mine, "approve", actor=SYSTEM)
        transaction.set_rollback(True)
    assert (Tenant.objects.get(pk=mine.pk).state, moves(mine)) == ("pending", [])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("edges", [["approve"] * 6, ["approve", "reject"] * 3])
def test_of_many_racing_moves_exactly_one_happens(edges: list[str]) -> None:
    for round_ in range(5):
        mine = tenant(f"race-{round_}")
        ready = threading.Barrier(len(edges))

        def pull(edge: str, mine: Tenant = mine, ready: threading.Barrier = ready) -> str:
            try:
                seen = Tenant.objects.get(pk=mine.pk)
                ready.wait(10)
                return str(advance(seen, edge, actor=SYSTEM).state)
            except errors.ConcurrentUpdate:
                return "lost"
            finally:
                connections.close_all()

        with ThreadPoolExecutor(len(edges)) as pool:
            outcomes = list(pool.map(pull, edges))
        won = [state for state in outcomes if state != "lost"]
        assert len(won) == 1
        mine.refresh_from_db()
        assert (mine.state, mine.version, len(moves(mine))) == (won[0], 2, 1)
