"""Does a host that was quarantined come back to where it was?"""

from __future__ import annotations

import pytest

from gpuaas.kernel import clock
from gpuaas.kernel.transitions import advance
from placement.models import Node, NodeTask
from placement.services import approvals, nodes, slots
from tests.builders import OPERATOR, a_catalogue, a_host, a_report

pytestmark = pytest.mark.django_db


def quarantined(node: Node) -> Node:
    """It is taken out for a while, and brought back."""
    nodes.node_quarantine(node_id=node.pk, reason="smoke", actor=OPERATOR)
    return nodes.node_restore(node_id=node.pk, reason="a fan", actor=OPERATOR)


def test_one_that_waited_for_its_approval_waits_for_it_again() -> None:
    a_catalogue()
    node = nodes.node_create(name="h1", actor=OPERATOR)
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    slots.slots_take(node, a_report("h1"), actor=OPERATOR)
    Node.objects.filter(pk=node.pk).update(topology_at=clock.db_now())
    back = quarantined(node)
    assert (back.state, back.schedulable) == ("verifying", False)
    done = approvals.node_approve(node_id=node.pk, actor=OPERATOR, family="h100x8")
    assert (done.state, done.free_count) == ("ready", 8)


def test_one_that_was_not_discovered_yet_is_discovered() -> None:
    node = advance(nodes.node_create(name="h1", actor=OPERATOR), "inspect", actor=OPERATOR)
    assert quarantined(node).state == "inspecting"
    assert NodeTask.objects.filter(node=node, kind="slice.topology_discover").count() == 1


def test_one_that_was_approved_is_ready() -> None:
    a_catalogue()
    assert quarantined(a_host("h1").node).state == "ready"
