"""Whose is a GPU that is reported by another host than before?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodeagent.protocol import TopologyReport, WireError
from placement.models import GpuDevice, Slot
from placement.services import nodes, slots
from tests.builders import OPERATOR, a_catalogue, a_host, a_report

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_gpus_of_a_retired_host_come_back_under_another_name() -> None:
    a_catalogue()
    old = a_host("host-1")
    again = nodes.node_create(name="host-1b", actor=OPERATOR)
    said = slots.slots_take(again, a_report("host-1"), actor=OPERATOR)
    assert len(said) == 8
    assert Slot.objects.filter(node=again).count() == 0
    nodes.node_retire(node_id=old.node.pk, reason="renamed", actor=OPERATOR)
    assert slots.slots_take(again, a_report("host-1"), actor=OPERATOR) == []
    assert Slot.objects.filter(node=again, state="verified").count() == 8
    assert GpuDevice.objects.filter(node=again).count() == 8


def test_a_slot_cannot_name_the_uuid_of_another_gpu() -> None:
    report = a_report("host-1")
    assert TopologyReport.from_json(report.to_json(), "") == report
    stolen = replace(report.slots[0], gpu_uuid="GPU-host-2-0")
    told = {**report.to_json(), "slots": [stolen.to_json(), *report.to_json()["slots"][1:]]}
    with pytest.raises(WireError, match="UUID"):
        TopologyReport.from_json(told, "")
