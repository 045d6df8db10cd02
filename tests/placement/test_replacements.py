"""Does a slot go on with another card only after it was declared, seen and approved?"""

from __future__ import annotations

import pytest

from gpuaas.kernel.errors import NotFound
from gpuaas.kernel.models import Event
from placement.errors import CardInUse, CardNotSeen
from placement.models import CardReplacement, Claim, GpuDevice, NodeTask, Slot
from placement.services.differences import slot_accept
from placement.services.health import health_sweep
from placement.services.replacements import card_approve, card_cancel, card_replace, card_seen
from tests.builders import OPERATOR, Host, a_catalogue, a_host, a_tenant
from tests.placement.test_health import observe, tell
from tests.placement.test_identity import discovered, report_with, slots_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def host() -> Host:
    a_catalogue()
    host = a_host("h1")
    discovered(host, report_with(host))
    return host


def declare(host: Host, index: int = 3) -> CardReplacement:
    return card_replace(node_id=host.node.pk, slot_index=index, reason="XID 79", actor=OPERATOR)


def approve(host: Host, index: int = 3) -> CardReplacement:
    return card_approve(node_id=host.node.pk, slot_index=index, reason="checked", actor=OPERATOR)


def test_a_replaced_card_continues_the_slot_with_the_new_identity(host: Host) -> None:
    declare(host)
    row = declare(host)
    assert CardReplacement.objects.count() == 1
    assert slots_of(host)[3][0] == "blocked"
    assert host.fresh().free_count == 7
    assert NodeTask.objects.filter(kind="slice.topology_discover", state="pending").count() == 1
    with pytest.raises(CardNotSeen):
        approve(host)
    discovered(host, report_with(host, swap=(3,)))
    seen = card_seen(row)
    assert seen is not None
    assert seen["gpu_uuid"] == "GPU-new-3"
    assert slots_of(host)[3] == ("blocked", "GPU-h1-3")
    for _ in range(2):
        done = approve(host)
    assert (done.state, done.old_uuid, done.new_uuid) == ("approved", "GPU-h1-3", "GPU-new-3")
    assert done.old_device["uuid"] == "GPU-h1-3"
    assert slots_of(host)[3] == ("approved", "GPU-new-3")
    assert (host.fresh().free_count, host.fresh().slot_count) == (8, 8)
    assert Slot.objects.filter(gpu_uuid="GPU-h1-3", state="retired").count() == 1
    assert not GpuDevice.objects.filter(uuid="GPU-h1-3").exists()
    kinds = Event.objects.filter(kind__startswith="placement.cardreplacement")
    assert sorted(kinds.values_list("kind", flat=True)) == [
        "placement.cardreplacement.approve",
        "placement.cardreplacement.declare",
    ]


def test_a_slot_that_is_held_keeps_its_card(host: Host) -> None:
    a_tenant().order(slots=1)
    index = Claim.objects.get().slot_index
    with pytest.raises(CardInUse) as refused:
        declare(host, index)
    assert refused.value.facts == {"claims": 1}
    assert slots_of(host)[index][0] == "approved"


def test_a_declaration_taken_back_leaves_the_old_card_to_be_accepted(host: Host) -> None:
    declare(host)
    for _ in range(2):
        row = card_cancel(
            node_id=host.node.pk, slot_index=3, reason="it was reseated", actor=OPERATOR
        )
    assert row.state == "cancelled"
    with pytest.raises(NotFound):
        approve(host)
    slot_accept(node_id=host.node.pk, slot_index=3, reason="same card", actor=OPERATOR)
    assert slots_of(host)[3] == ("approved", "GPU-h1-3")


def test_what_was_never_declared_is_not_approved(host: Host) -> None:
    discovered(host, report_with(host, swap=(3,)))
    with pytest.raises(NotFound):
        approve(host)
    assert slots_of(host)[3] == ("blocked", "GPU-h1-3")


def test_a_card_that_automation_had_blocked_is_not_sold_by_its_trouble_going_with_it(
    host: Host,
) -> None:
    observe(host, ("gpu_row_remap_failed", "a row could not be remapped", 3))
    assert slots_of(host)[3][0] == "blocked"
    declare(host)
    observe(host)
    health_sweep()
    assert slots_of(host)[3] == ("blocked", "GPU-h1-3")
    discovered(host, report_with(host, swap=(3,)))
    assert approve(host).new_uuid == "GPU-new-3"
    assert slots_of(host)[3] == ("approved", "GPU-new-3")
    assert host.fresh().free_count == 8


def test_a_host_is_not_kept_from_work_by_a_card_that_is_gone(host: Host) -> None:
    tell(host, 79, gpu=3)
    assert not host.fresh().schedulable
    declare(host)
    discovered(host, report_with(host, swap=(3,)))
    approve(host)
    assert (host.fresh().schedulable, host.fresh().free_count) == (True, 8)
