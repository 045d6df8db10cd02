"""Does a person's drain outrank automation's, and is it known whose it is?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.actor import system
from gpuaas.kernel.models import Event
from placement.errors import DrainNotYours
from placement.models import NodeDrain
from placement.services.nodes import node_drain, node_undrain
from tests.builders import OPERATOR, Host, a_catalogue, a_host

pytestmark = pytest.mark.django_db
WATCH, OTHER = system("watch"), system("other")


@pytest.fixture
def host() -> Host:
    a_catalogue()
    return a_host()


def test_a_person_takes_over_what_automation_drained_and_it_cannot_end_it_then(host: Host) -> None:
    node_drain(node_id=host.node.pk, reason="fans", actor=WATCH)
    drain = node_drain(node_id=host.node.pk, reason="I want to look", actor=OPERATOR)
    assert (drain.owner, drain.reason) == (OPERATOR.as_json(), "I want to look")
    before = Event.objects.get(kind="placement.node.drain_taken_over").before or {}
    assert before["reason"] == "fans"
    with pytest.raises(DrainNotYours):
        node_undrain(node_id=host.node.pk, reason="fans are well", actor=WATCH)
    assert not host.fresh().schedulable


def test_automation_leaves_a_persons_drain_as_it_is(host: Host) -> None:
    node_drain(node_id=host.node.pk, reason="mine", actor=OPERATOR)
    node_drain(node_id=host.node.pk, reason="fans", actor=WATCH)
    assert NodeDrain.objects.get().owner == OPERATOR.as_json()


def test_automation_ends_its_own_and_no_other_part_s(host: Host) -> None:
    node_drain(node_id=host.node.pk, reason="fans", actor=WATCH, slot_index=3)
    with pytest.raises(DrainNotYours):
        node_undrain(node_id=host.node.pk, reason="", actor=OTHER, slot_index=3)
    node_undrain(node_id=host.node.pk, reason="fans are well", actor=WATCH, slot_index=3)
    assert host.fresh().free_count == 8


def test_a_person_ends_any(host: Host) -> None:
    node_drain(node_id=host.node.pk, reason="fans", actor=WATCH)
    node_undrain(node_id=host.node.pk, reason="I looked", actor=OPERATOR)
    assert host.fresh().schedulable
