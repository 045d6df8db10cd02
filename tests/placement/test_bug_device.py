"""Whose is a GPU that is reported by another host than before?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuaas.kernel.transitions import advance
from nodeagent.protocol import DeviceMode, TopologyReport, WireError
from nodeagent.protocol.messages import CompleteRequest
from placement.audits.claims import devices
from placement.errors import DeviceInTwoSlots
from placement.models import GpuDevice, Node, Slot
from placement.services import approvals, nodes, slots, tasks
from tests.builders import OPERATOR, a_catalogue, a_host, a_report

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_gpus_of_a_retired_host_come_back_under_another_name() -> None:
    a_catalogue()
    old = a_host("host-1")
    again = nodes.node_create(name="host-1b", actor=OPERATOR)
    said = slots.slots_take(again, a_report("host-1"), actor=OPERATOR)
    assert sum("belongs to another node" in words for words in said) == 8
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


def a_candidate(name: str, report: TopologyReport) -> Node:
    """A node whose discovery brought these slots, before approval."""
    node = nodes.node_create(name=name, actor=OPERATOR)
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    assert slots.slots_take(node, report, actor=OPERATOR) == []
    return node


def with_nic(report: TopologyReport, *indices: int) -> TopologyReport:
    """The report with one exclusive NIC named by several slots."""
    return replace(
        report,
        slots=tuple(
            replace(slot, nic="mlx5_0", nic_mode=DeviceMode.EXCLUSIVE)
            if slot.index in indices
            else slot
            for slot in report.slots
        ),
    )


def test_an_approval_names_the_device_that_two_slots_of_a_node_have() -> None:
    a_catalogue()
    node = a_candidate("host-1", with_nic(a_report("host-1"), 2, 5))
    with pytest.raises(DeviceInTwoSlots) as refused:
        approvals.node_approve(node_id=node.pk, actor=OPERATOR, family="h100x8")
    assert "slot 2 of host-1 and slot 5 of host-1" in refused.value.detail
    assert f"nic:{node.num}:mlx5_0" in refused.value.detail
    assert "discovery again" in refused.value.unblock
    assert set(Slot.objects.values_list("state", flat=True)) == {"verified"}


def test_an_approval_names_the_device_that_a_slot_of_another_node_has() -> None:
    a_catalogue()
    old = a_host("host-1")
    node = a_candidate("host-2", a_report("host-2"))
    twin = Slot.objects.get(node=old.node, index=3)
    Slot.objects.filter(pk=twin.pk).update(device_uids=[*twin.device_uids, "gpu:GPU-host-2-6"])
    with pytest.raises(DeviceInTwoSlots) as refused:
        approvals.node_approve(node_id=node.pk, actor=OPERATOR, family="h100x8")
    assert "gpu:GPU-host-2-6 is in slot 3 of host-1 and slot 6 of host-2" in refused.value.detail
    Slot.objects.filter(node=node).update(state="approved")
    assert "device_in_two_slots" in {finding.code for finding in devices()}


def test_a_gpu_that_has_got_another_number_keeps_its_slot() -> None:
    a_catalogue()
    host = a_host("host-1")
    report = a_report("host-1")
    swapped = replace(
        report,
        slots=tuple(
            replace(s, gpu_uuid=f"GPU-host-1-{(3, 2)[s.index - 2]}") if s.index in (2, 3) else s
            for s in report.slots
        ),
        gpus=tuple(
            replace(g, uuid=f"GPU-host-1-{(3, 2)[g.index - 2]}") if g.index in (2, 3) else g
            for g in report.gpus
        ),
    )
    nodes.node_discover(node_id=host.node.pk, actor=OPERATOR)
    (task,) = host.lease()
    tasks.task_complete(
        node=host.fresh(),
        task_id=task.pk,
        message=CompleteRequest(
            lease_epoch=task.lease_epoch, boot_id=host.boot, result=swapped.to_json()
        ),
    )
    findings = [f for f in host.fresh().topology["findings"] if f["code"].startswith("differs")]
    assert findings == []
    assert list(
        Slot.objects.filter(node=host.node, index__in=[2, 3]).values_list("gpu_uuid", "state")
    ) == [("GPU-host-1-2", "approved"), ("GPU-host-1-3", "approved")]


def test_candidates_keep_their_numbers_when_the_report_numbers_them_anew() -> None:
    a_catalogue()
    report = a_report("host-1")
    node = a_candidate("host-1", report)
    swapped = replace(
        report,
        slots=tuple(
            replace(s, gpu_uuid=f"GPU-host-1-{(1, 0)[s.index]}") if s.index < 2 else s
            for s in report.slots
        ),
    )
    slots.slots_take(node, swapped, actor=OPERATOR)
    now = Slot.objects.filter(node=node, state="verified", index__lt=2).order_by("index")
    assert list(now.values_list("gpu_uuid", flat=True)) == ["GPU-host-1-0", "GPU-host-1-1"]
