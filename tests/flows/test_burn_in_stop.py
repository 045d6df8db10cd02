"""Is a burn-in that is stopped over for certain before its host takes work again?"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from django.db import connections

from gpuaas.kernel import clock, ids
from gpuaas.kernel.models import Event
from nodeagent.simhost.agent import SimAgent
from placement.errors import NodeStateRefused, SkuUnavailable
from placement.models import NodeTask, TaskObservation
from placement.services.burn_in import _drained_hosts, burn_in_sweep
from placement.services.burn_in_stop import burn_in_stop, burn_in_stop_sweep
from tests.builders import OPERATOR
from tests.flows.test_burn_in import drained, fresh, known, order
from tests.flows.test_burn_in_keeps_closed import dies_in_the_middle
from tests.flows.test_fault_menu import SLICE, Stage, stage

__all__ = ["stage"]
pytestmark = pytest.mark.django_db(transaction=True)


def stop(stage: Stage) -> NodeTask:
    """An operator stops the host's burn-in."""
    return burn_in_stop(node_id=stage.node.pk, reason="the wrong host", actor=OPERATOR)


async def stopped_in_the_middle(stage: Stage, agent: SimAgent) -> None:
    """The load runs when an operator stops it."""
    await agent.step()
    while not agent.backend.store.state.burning:
        await agent.step()
    await asyncio.to_thread(_stop_elsewhere, stage)
    await agent.settle()


def _stop_elsewhere(stage: Stage) -> None:
    try:
        stop(stage)
    finally:
        connections.close_all()


def loaded(stage: Stage) -> list[str]:
    """What is under load on the host's own disk."""
    found: list[list[str]] = []

    async def look(agent: SimAgent) -> None:
        agent.backend.store.refresh()
        found.append(agent.backend.store.state.loaded(stage.clock.now()))

    stage.process(look)
    return found[0]


def closed(stage: Stage) -> bool:
    """Whether the host takes nothing because of its burn-in."""
    with pytest.raises(SkuUnavailable) as told:
        stage.acme.order("h100.slice", slots=1)
    removed: dict[str, int] = told.value.facts["removed"]
    return removed == {"burn_in_runs": 1} and not stage.fresh().schedulable


def shown_by(task: NodeTask) -> list[str]:
    """By what the load was seen to be over."""
    rows = Event.objects.filter(kind="placement.node.burn_in_stopped")
    assert all(row.facts["task"] == str(task.pk) for row in rows)
    return [row.facts["shown_by"] for row in rows]


def test_one_that_no_host_has_taken_is_over_at_once(stage: Stage) -> None:
    task = order(stage)
    ended = stop(stage)
    assert (ended.pk, ended.state, ended.lease_epoch) == (task.pk, "cancelled", 1)
    assert (fresh(task).ended_at is None, drained(stage), stage.fresh().schedulable) == (
        False,
        [],
        True,
    )
    with pytest.raises(NodeStateRefused, match="no burn-in that is open"):
        stop(stage)
    stage.rounds()
    assert (loaded(stage), known(stage)) == ([], None)
    stage.lease(SLICE[0])
    assert stage.nothing_wrong()


def test_one_that_runs_is_ended_by_its_agent_and_what_it_found_is_no_evidence(
    stage: Stage,
) -> None:
    stage.menu.set("burn_in", "hang")
    task = order(stage)
    stage.process(lambda agent: stopped_in_the_middle(stage, agent))
    assert (fresh(task).state, (fresh(task).error or {})["code"]) == (
        "cancelled",
        "burn_in_stopped",
    )
    [late] = TaskObservation.objects.filter(task=task)
    assert (late.payload["code"], late.lease_epoch) == ("cancelled", 1)
    assert (loaded(stage), known(stage), shown_by(task)) == ([], None, ["the host"])
    assert stage.until(lambda: stage.fresh().schedulable)
    assert drained(stage) == []
    told = Event.objects.get(kind="placement.node.burn_in_stop")
    assert (told.reason, told.facts["begun"]) == ("the wrong host", True)
    assert stage.nothing_wrong()


def test_one_whose_agent_was_killed_keeps_its_host_closed_until_the_next_has_ended_it(
    stage: Stage,
) -> None:
    stage.menu.set("burn_in", "hang")
    task = order(stage)
    stage.process(dies_in_the_middle)
    first, again = stop(stage), stop(stage)
    assert (first.pk, again.pk, fresh(task).lease_epoch) == (task.pk, task.pk, 2)
    assert (fresh(task).ended_at, len(loaded(stage)), closed(stage)) == (None, 8, True)
    with pytest.raises(NodeStateRefused, match="being stopped"):
        order(stage)
    assert stage.nothing_wrong()
    assert stage.until(lambda: fresh(task).ended_at is not None)
    assert (loaded(stage), shown_by(task), known(stage)) == ([], ["the host"], None)
    assert stage.until(lambda: stage.fresh().schedulable)
    stage.menu.clear()
    stage.lease(SLICE[0])
    assert stage.nothing_wrong()


@pytest.mark.parametrize("fault", ["lose_reply", "duplicate"])
def test_words_that_are_lost_or_said_twice_end_it_once(stage: Stage, fault: str) -> None:
    stage.menu.set("burn_in", "hang")
    task = order(stage)
    stage.process(dies_in_the_middle)
    stop(stage)
    stage.menu.set(fault, "2")
    assert stage.until(lambda: fresh(task).ended_at is not None)
    over = fresh(task).ended_at
    stage.rounds(4)
    assert (fresh(task).ended_at, shown_by(task), known(stage)) == (over, ["the host"], None)
    assert stage.until(lambda: stage.fresh().schedulable)


def test_a_load_that_cannot_be_ended_keeps_its_host_closed_until_it_can(stage: Stage) -> None:
    stage.menu.set("burn_in", "stuck")
    task = order(stage)
    stage.process(lambda agent: stopped_in_the_middle(stage, agent))
    stage.rounds(3)
    codes = [row.payload["code"] for row in TaskObservation.objects.filter(task=task)]
    assert (codes, fresh(task).ended_at, closed(stage)) == (["load_not_over"], None, True)
    stage.menu.set("burn_in", "hang")
    assert stage.until(lambda: fresh(task).ended_at is not None)
    assert (loaded(stage), shown_by(task)) == ([], ["the host"])
    assert stage.until(lambda: stage.fresh().schedulable)


def test_a_pass_that_comes_after_the_stop_is_an_observation_and_shows_the_load_is_over(
    stage: Stage,
) -> None:
    task = order(stage)

    async def unheard(agent: SimAgent) -> None:
        await agent.step()
        stage.menu.set("drop_network", "1")
        await agent.settle()

    stage.process(unheard)
    stop(stage)
    assert closed(stage)
    stage.menu.set("drop_network", "0")
    stage.rounds(3)
    [late] = TaskObservation.objects.filter(task=task)
    assert (late.outcome, late.payload["result"]["verdict"]) == ("complete", "pass")
    assert (fresh(task).state, known(stage), shown_by(task)) == ("cancelled", None, ["the host"])
    assert stage.until(lambda: stage.fresh().schedulable)


def test_a_reboot_shows_that_the_load_is_over(stage: Stage) -> None:
    stage.menu.set("burn_in", "stuck")
    task = order(stage)
    stage.process(dies_in_the_middle)
    stop(stage)
    stage.rounds()
    assert closed(stage)

    async def reboots(agent: SimAgent) -> None:
        agent.backend.store.reboot()

    stage.process(reboots)
    stage.rounds()
    assert (shown_by(task), fresh(task).ended_at is None) == (["a new boot"], False)
    assert stage.until(lambda: stage.fresh().schedulable)


def test_a_host_that_is_never_heard_again_is_waited_for_until_the_loads_own_limit(
    stage: Stage,
) -> None:
    stage.menu.set("burn_in", "hang")
    task = order(stage)
    stage.process(dies_in_the_middle)
    stop(stage)
    assert (burn_in_stop_sweep(), fresh(task).ended_at) == (0, None)
    limit = timedelta(seconds=fresh(task).params["limit_s"])
    NodeTask.objects.filter(pk=task.pk).update(deadline_at=clock.db_now() - limit / 2)
    assert (burn_in_stop_sweep(), fresh(task).ended_at) == (0, None)
    NodeTask.objects.filter(pk=task.pk).update(deadline_at=clock.db_now() - limit * 2)
    assert (burn_in_stop_sweep(), burn_in_stop_sweep()) == (1, 0)
    assert (shown_by(task), drained(stage)) == (["its own limit"], [])
    # What the host itself reports still counts.
    stage.rounds(1)
    assert not stage.fresh().schedulable


def test_many_silent_hosts_with_long_limits_hide_none_whose_limit_is_reached(stage: Stage) -> None:
    task = order(stage)
    stage.process(dies_in_the_middle)
    stop(stage)
    now = clock.db_now()
    NodeTask.objects.filter(pk=task.pk).update(
        deadline_at=now - timedelta(hours=1), params={**task.params, "limit_s": 60}
    )
    stopped = {"node": stage.node, "kind": task.kind, "state": "cancelled", "lease_epoch": 1}
    long = {**task.params, "limit_s": 200_000}
    late = now - timedelta(hours=2)
    NodeTask.objects.bulk_create(
        NodeTask(id=ids.new_id(), params=long, deadline_at=late, **stopped) for _ in range(200)
    )
    assert (burn_in_stop_sweep(), fresh(task).ended_at is None) == (1, False)
    assert shown_by(task) == ["its own limit"]


def test_many_burn_ins_that_run_hide_no_host_whose_drain_is_left(stage: Stage) -> None:
    task = order(stage)
    assert _drained_hosts([]) == []
    NodeTask.objects.filter(pk=task.pk).update(state="failed", ended_at=clock.db_now())
    assert _drained_hosts([]) == [stage.node.pk]
    assert (burn_in_sweep(), drained(stage), _drained_hosts([])) == (1, [], [])
