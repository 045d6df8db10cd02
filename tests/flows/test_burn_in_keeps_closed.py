"""Does a host stay closed for as long as its load can run, whoever ends or owns the drain?"""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.db import connection, connections, transaction

from gpuaas.kernel import clock
from nodeagent.simhost.agent import SimAgent
from placement.errors import SkuUnavailable
from placement.models import NodeDrain, NodeTask
from placement.selectors import posture_of
from placement.services import maintenance, nodes
from placement.services.burn_in import burn_in_over, burn_in_sweep
from placement.services.tasks import leases_sweep
from placement.states import TaskState
from tests.builders import OPERATOR
from tests.flows.test_burn_in import drained, ended, fresh, known, order
from tests.flows.test_fault_menu import SLICE, Stage, stage

__all__ = ["stage"]
pytestmark = pytest.mark.django_db(transaction=True)


def refused(stage: Stage) -> dict[str, int]:
    """What removed the fleet's hosts from a request for one slot."""
    with pytest.raises(SkuUnavailable) as told:
        stage.acme.order("h100.slice", slots=1)
    removed: dict[str, int] = told.value.facts["removed"]
    return removed


async def dies_in_the_middle(agent: SimAgent) -> None:
    """The agent's process ends while the load runs."""
    for _ in range(50):
        await agent.step()
        if agent.backend.store.state.burning:
            break
    await agent._drop_work()


def test_a_person_who_lifts_the_drain_does_not_open_the_host(stage: Stage) -> None:
    task = order(stage)
    nodes.node_drain(node_id=stage.node.pk, reason="mine now", actor=OPERATOR)
    nodes.node_undrain(node_id=stage.node.pk, reason="ready to go", actor=OPERATOR)
    assert (drained(stage), stage.fresh().schedulable) == ([], False)
    assert (posture_of(stage.fresh()), refused(stage)) == ("draining", {"burn_in_runs": 1})
    assert stage.nothing_wrong()
    assert ended(stage, task).state == "succeeded"
    # Nobody's drain is left by which the end could be seen: it is seen all the same.
    assert stage.until(lambda: stage.fresh().schedulable)
    stage.lease(SLICE[0])


def test_a_window_that_ends_does_not_open_the_host_and_lifts_its_drain_afterwards(
    stage: Stage,
) -> None:
    now = clock.db_now()
    [window] = maintenance.window_plan(
        selector=maintenance.Selector(nodes=("host-1",)),
        starts_at=now + timedelta(hours=1),
        ends_at=now + timedelta(hours=2),
        reason="new fans",
        actor=OPERATOR,
    )
    maintenance.window_announce(window_id=window.pk, reason="soon", actor=OPERATOR)
    maintenance.window_start(window_id=window.pk, actor=OPERATOR)
    task = order(stage)
    maintenance.window_end(window_id=window.pk, actor=OPERATOR)
    assert (drained(stage), stage.fresh().schedulable) == (["maintenance window"], False)
    ended(stage, task)
    assert stage.until(lambda: stage.fresh().health == "ok")
    maintenance.maintenance_sweep()
    assert (drained(stage), stage.fresh().schedulable) == ([], True)


def test_one_that_is_given_up_opens_the_host_at_once_where_nobody_drains_it(
    stage: Stage,
) -> None:
    task = order(stage)
    NodeDrain.objects.update(ended_at=clock.db_now())
    NodeTask.objects.filter(pk=task.pk).update(
        state=TaskState.PENDING, deadline_at=clock.db_now() - timedelta(seconds=1)
    )
    leases_sweep()
    assert (fresh(task).state, stage.fresh().schedulable) == ("failed", True)
    second = order(stage)
    assert (burn_in_sweep(), stage.fresh().schedulable) == (0, False)
    assert fresh(second).state == "pending"


def test_a_host_whose_agent_was_restarted_stays_closed_until_its_load_is_over(
    stage: Stage,
) -> None:
    stage.menu.set("burn_in", "hang")
    task = order(stage)
    stage.process(dies_in_the_middle)
    stage.menu.clear()
    for _ in range(6):
        stage.rounds()
    # Busy with the load that outlived its agent: it waits, and no attempt is used up by it.
    waiting = fresh(task)
    assert (waiting.state, waiting.attempt, (waiting.error or {})["code"]) == (
        "pending",
        1,
        "hook_busy",
    )
    assert waiting.due_at > clock.db_now() + timedelta(seconds=30)
    # Given up meanwhile, with no proof of the host's that the load has ended.
    NodeTask.objects.filter(pk=task.pk).update(deadline_at=clock.db_now() - timedelta(seconds=1))
    leases_sweep()
    burn_in_sweep()
    assert (fresh(task).state, drained(stage), known(stage)) == ("failed", [], None)
    stage.rounds()
    assert [one["code"] for one in stage.fresh().conditions] == ["burn_in_runs"]
    assert (stage.fresh().schedulable, refused(stage)) == (False, {"burn_in_runs": 1})
    stage.clock.time += fresh(task).params["limit_s"]
    assert stage.until(lambda: stage.fresh().schedulable)
    assert stage.fresh().conditions == []
    stage.lease(SLICE[0])
    assert stage.nothing_wrong()


def waits_for_a_lock() -> bool:
    """Whether somebody waits for what this transaction has."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock')"
        )
        (waits,) = cursor.fetchone()
    return bool(waits)


def test_a_sweep_that_crosses_the_order_of_another_leaves_that_ones_drain(stage: Stage) -> None:
    """The earlier one is over, its drain is still there, and the next is ordered just then."""
    NodeTask.objects.filter(pk=order(stage).pk).update(
        state=TaskState.FAILED, error={"code": "x", "detail": ""}, ended_at=clock.db_now()
    )
    lifted: list[bool] = []

    def sweep() -> None:
        try:
            lifted.append(burn_in_over(stage.node.pk))
        finally:
            connections.close_all()

    other = threading.Thread(target=sweep)
    with transaction.atomic():
        nodes.locked(stage.node.pk)
        other.start()
        end = time.monotonic() + 30
        while not waits_for_a_lock() and time.monotonic() < end:
            time.sleep(0.01)
        assert waits_for_a_lock()
        order(stage)
    other.join()
    assert (lifted, drained(stage)) == ([False], ["platform/burn-in"])
    assert not stage.fresh().schedulable
