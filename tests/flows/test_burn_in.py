"""Is a host burnt in by its own agent, over HTTP, and does its result decide what it is sold as?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from gpuaas.kernel import clock, errors
from gpuaas.kernel.models import Event
from nodeagent.protocol import CompleteRequest
from nodeagent.simhost.agent import SimAgent
from placement.errors import NodeStateRefused, SkuUnavailable, WireRefused
from placement.models import (
    NodeCapability,
    NodeDrain,
    NodeTask,
    ReadinessEvidence,
    TaskObservation,
)
from placement.services import nodes
from placement.services.burn_in import VALID_S, burn_in_order, burn_in_sweep
from placement.services.evidence import evidence_give, readiness_sweep
from placement.services.readiness_terms import readiness_terms_set
from placement.services.tasks import leases_sweep, task_complete
from placement.states import TaskState
from tests.builders import OPERATOR
from tests.flows.test_fault_menu import SLICE, Stage, stage

__all__ = ["stage"]
pytestmark = pytest.mark.django_db(transaction=True)


def order(stage: Stage, duration_s: int = 60) -> NodeTask:
    """An operator has the host burnt in."""
    return burn_in_order(
        node_id=stage.node.pk, duration_s=duration_s, reason="new in the rack", actor=OPERATOR
    )


def ended(stage: Stage, task: NodeTask) -> NodeTask:
    """The task once it has come to its end."""
    assert stage.until(lambda: fresh(task).state in ("succeeded", "failed"))
    return fresh(task)


def fresh(task: NodeTask) -> NodeTask:
    """The task's row."""
    return NodeTask.objects.get(pk=task.pk)


def known(stage: Stage) -> ReadinessEvidence | None:
    """What is known of the host's burn-in."""
    return ReadinessEvidence.objects.filter(node=stage.node, check_name="burn_in").first()


def shapes(stage: Stage) -> dict[str, str]:
    """Where each capability stands."""
    rows = NodeCapability.objects.filter(node=stage.node)
    return dict(rows.values_list("capability", "state"))


def drained(stage: Stage) -> list[str]:
    """Who has drained the host."""
    rows = NodeDrain.objects.filter(node=stage.node, ended_at__isnull=True)
    return [row.owner["name"] for row in rows]


def test_nothing_is_placed_meanwhile_and_a_pass_is_evidence_with_an_end(stage: Stage) -> None:
    task = order(stage)
    assert (fresh(task).params["limit_s"], order(stage).pk) == (666, task.pk)
    assert (stage.fresh().schedulable, drained(stage)) == (False, ["platform/burn-in"])
    with pytest.raises(SkuUnavailable):
        stage.acme.order("h100.slice", slots=1)
    assert ended(stage, task).state == "succeeded"
    row = known(stage)
    assert row is not None
    assert (row.verdict, row.source) == ("pass", "hook")
    assert row.facts["method"] == "simulated_load"
    assert row.expires_at == row.observed_at + timedelta(seconds=VALID_S)
    assert (drained(stage), stage.fresh().schedulable) == ([], True)
    told = Event.objects.get(kind="placement.node.burn_in")
    assert (told.reason, told.facts["gpus"]) == ("new in the rack", 8)
    stage.lease(SLICE[0])
    assert stage.nothing_wrong()


def test_a_failed_one_takes_every_shape_back_by_rule_and_a_good_one_gives_it_back(
    stage: Stage,
) -> None:
    """Nobody's terms ask for a burn-in here: one that failed counts all the same."""
    stage.menu.set("burn_in", "fail")
    assert ended(stage, order(stage)).state == "succeeded"
    assert shapes(stage) == {"slices": "suspended", "baremetal": "suspended"}
    row = known(stage)
    assert row is not None
    assert "3 wrong results" in row.reason
    assert (drained(stage), stage.fresh().schedulable, stage.fresh().takes) == ([], False, "none")
    stage.menu.clear()
    ended(stage, order(stage))
    assert shapes(stage) == {"slices": "promoted", "baremetal": "promoted"}
    assert stage.fresh().schedulable
    assert stage.nothing_wrong()


def test_one_that_hangs_past_its_limit_counts_as_failed(stage: Stage) -> None:
    stage.menu.set("burn_in", "hang")
    task = ended(stage, order(stage))
    assert (task.state, (task.error or {})["code"]) == ("failed", "burn_in_overdue")
    row = known(stage)
    assert row is not None
    assert (row.verdict, "666 seconds" in row.reason) == ("fail", True)
    assert shapes(stage)["slices"] == "suspended"
    assert drained(stage) == []


def test_one_that_the_host_goes_on_with_past_its_deadline_is_given_up_and_says_nothing(
    stage: Stage,
) -> None:
    task = order(stage)
    NodeTask.objects.filter(pk=task.pk).update(
        state=TaskState.PENDING, deadline_at=clock.db_now() - timedelta(seconds=1)
    )
    leases_sweep()
    assert fresh(task).state == "failed"
    assert (burn_in_sweep(), drained(stage), known(stage)) == (0, [], None)


def test_a_reboot_in_the_middle_is_asked_again_and_then_passes(stage: Stage) -> None:
    stage.menu.set("reboot", "node.burn_in:burning")
    task = ended(stage, order(stage))
    assert (task.state, task.attempt) == ("succeeded", 2)
    assert known(stage) is not None


def test_a_result_that_comes_too_late_changes_nothing(stage: Stage) -> None:
    """The host works on while nobody hears it; its lease ends; then it is heard again."""
    stage.menu.set("burn_in", "hang")
    task = order(stage)
    NodeTask.objects.filter(pk=task.pk).update(max_attempts=1)

    async def unheard(agent: SimAgent) -> None:
        await agent.step()
        stage.menu.set("drop_network", "1")
        stage.menu.set("burn_in", "fail")
        await agent.settle()

    stage.process(unheard)
    NodeTask.objects.filter(pk=task.pk).update(lease_until=clock.db_now() - timedelta(seconds=1))
    leases_sweep()
    assert (fresh(task).state, (fresh(task).error or {})["code"]) == ("failed", "task_overdue")
    stage.menu.set("drop_network", "0")
    stage.rounds(3)
    [late] = TaskObservation.objects.filter(task=task)
    assert (late.outcome, late.payload["result"]["verdict"]) == ("complete", "fail")
    burn_in_sweep()
    assert (known(stage), drained(stage), shapes(stage)["slices"]) == (None, [], "promoted")


def test_a_host_with_leases_is_not_burnt_in_and_is_told_what_to_do(stage: Stage) -> None:
    stage.lease(SLICE[0])
    with pytest.raises(NodeStateRefused) as refused:
        order(stage)
    assert (refused.value.facts["claims"], "drain it" in refused.value.detail) == (2, True)
    with pytest.raises(errors.InvalidRequest):
        order(stage, duration_s=5)
    assert drained(stage) == []


def test_a_persons_drain_stays_theirs(stage: Stage) -> None:
    nodes.node_drain(node_id=stage.node.pk, reason="a bad fan", actor=OPERATOR)
    ended(stage, order(stage))
    assert drained(stage) == [OPERATOR.name]
    assert not stage.fresh().schedulable


def test_where_the_terms_ask_for_one_it_promotes_the_host_and_one_by_hand_does_too(
    stage: Stage,
) -> None:
    readiness_terms_set(
        family="h100x8",
        required={"slices": {"burn_in": 86_400}, "baremetal": {}},
        reason="burn in first",
        actor=OPERATOR,
    )
    readiness_sweep()
    assert shapes(stage) == {"slices": "suspended", "baremetal": "promoted"}
    ended(stage, order(stage))
    assert shapes(stage)["slices"] == "promoted"
    ReadinessEvidence.objects.filter(check_name="burn_in").delete()
    NodeCapability.objects.update(rejudge=True)
    readiness_sweep()
    assert shapes(stage)["slices"] == "suspended"
    evidence_give(
        node_id=stage.node.pk, check="burn_in", verdict="pass", reason="by hand", actor=OPERATOR
    )
    assert shapes(stage)["slices"] == "promoted"


def test_a_pass_before_the_time_is_over_is_no_result(stage: Stage) -> None:
    task = order(stage)
    epoch, boot = 1, stage.fresh().boot_id
    NodeTask.objects.filter(pk=task.pk).update(
        state=TaskState.LEASED, attempt=1, lease_epoch=epoch, boot_id=boot
    )
    gpus = [{"uuid": gpu, "ok": True, "detail": ""} for gpu in task.params["gpus"]]
    result = {"verdict": "pass", "method": "load", "detail": "", "ran_s": 59, "gpus": gpus}
    with pytest.raises(WireRefused) as refused:
        task_complete(
            node=stage.fresh(),
            task_id=task.pk,
            message=CompleteRequest(epoch, boot, result),
        )
    [told] = refused.value.errors
    assert (told.pointer, told.code) == ("/result/ran_s", "too_short")
    assert (known(stage), fresh(task).state, stage.fresh().schedulable) == (None, "leased", False)
