"""What follows from errors of a GPU: a judgement with numbers, and no more than it says?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuaas.kernel import clock, errors
from nodeagent.host.facts import present
from nodeagent.protocol import TelemetryReport
from nodeagent.telemetry.window import WindowBuilder
from placement.domain import xids
from placement.domain.health import (
    ASKS_FOR as ASKS,
)
from placement.domain.health import (
    CLEAN_WINDOW,
    DeviceFacts,
    SeenXid,
    Told,
    judge,
    worst_of,
)
from placement.domain.xids import CATALOGUE, POLICIES, xid_of
from placement.errors import SkuUnavailable
from placement.models import (
    Allocation,
    CleanupProof,
    DeviceHealth,
    Slot,
    XidEvent,
)
from placement.node_tasks import ObservedReport
from placement.selectors import differences_of, posture_of
from placement.services import health as service
from placement.services.allocations import allocation_release
from placement.services.breaker import breaker_set
from placement.services.nodes import node_drain, node_retire
from placement.services.observed import node_observed
from placement.services.telemetry import telemetry_take
from tests.builders import (
    BOOT,
    BOTH_KINDS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_parts_catalogue,
    a_tenant,
    cut_slots,
    drive_all,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def seen(xid: int, hours: float = 1, boot: str = "b1", allocation: str = "") -> SeenXid:
    """An error some hours ago."""
    return SeenXid(xid, NOW - hours * HOUR, boot, 1, allocation)


def facts(*errors_: SeenXid, **more: Any) -> DeviceFacts:
    """A GPU that showed these errors, in the boot in which the host is still."""
    return DeviceFacts(xids=errors_, boot=more.pop("boot", "b1"), observed=True, **more)


FOLLOWS = {
    xids.IGNORE: ("healthy", ()),
    xids.WATCH: ("degraded", ()),
    xids.TENANT: ("healthy", ("tenant_fault",)),
    xids.RESTART: ("degraded", ()),
    xids.AT_RELEASE: ("degraded", ("reset_at_release",)),
    xids.RESET: ("unhealthy", ("prevent_slot",)),
    xids.FOLLOW: ("unhealthy", ("prevent_slot",)),
    xids.REBOOT: ("unhealthy", ("prevent_node",)),
    xids.REPAIR: ("unhealthy", ("prevent_slot", "needs_repair")),
}


@pytest.mark.parametrize("number", [*sorted(CATALOGUE), 999])
def test_every_error_number_has_the_consequence_of_its_policy(number: int) -> None:
    found = judge(facts(seen(number)), NOW)
    assert (found.classification, found.consequences) == FOLLOWS[xid_of(number).policy]
    for finding in found.findings:
        assert finding.numbers["xid"] == number
        assert finding.unblock
    assert xid_of(number).policy in POLICIES


@pytest.mark.parametrize(
    ("number", "policy"),
    [
        (13, "tenant"),
        (31, "tenant"),
        (43, "ignore"),
        (48, "reset"),
        (63, "at_release"),
        (64, "repair"),
        (74, "reset"),
        (79, "reboot"),
        (94, "restart"),
        (95, "reset"),
        (119, "reset"),
        (147, "reset"),
        (154, "follow"),
    ],
)
def test_the_numbers_that_matter_have_their_policy(number: int, policy: str) -> None:
    assert xid_of(number).policy == policy


@pytest.mark.parametrize(
    ("what", "word"),
    [
        (facts(seen(48), reset_at=NOW), "healthy"),
        (facts(seen(48), reset_at=NOW - 2 * HOUR), "unhealthy"),
        (facts(seen(48), boot="b2"), "healthy"),
        (DeviceFacts(xids=(seen(48),), boot="b2", observed=False), "unhealthy"),
        (facts(seen(79), reset_at=NOW), "unhealthy"),
        (facts(seen(79), boot="b2"), "healthy"),
        (facts(seen(64, hours=300), reset_at=NOW, boot="b2"), "unhealthy"),
        (facts(seen(64), lifted_at=NOW), "healthy"),
        (facts(seen(64), lifted_at=NOW - 2 * HOUR), "unhealthy"),
        (facts(seen(92, hours=23)), "degraded"),
        (facts(seen(92, hours=25)), "healthy"),
        (facts(seen(48, hours=300)), "unhealthy"),
    ],
    ids=[
        "a reset was proven after it",
        "the reset was before it",
        "the host has rebooted and sees the GPU",
        "the host has rebooted and says nothing of the GPU",
        "no reset of a slot brings a lost GPU back",
        "a reboot brings a lost GPU back",
        "a row that cannot be remapped is mended by no reboot",
        "somebody has looked at it",
        "it came again after somebody looked",
        "watched for a day",
        "a clean day is over",
        "time alone is no reset",
    ],
)
def test_what_ends_an_error_has_to_be_seen(what: DeviceFacts, word: str) -> None:
    assert judge(what, NOW).classification == word


def test_two_reboots_for_one_error_are_enough() -> None:
    first, second, third = (seen(79, hours=9 - 3 * n, boot=f"b{n}") for n in range(3))
    once = judge(facts(first, second, boot="b1"), NOW)
    assert once.consequences == ("prevent_node",)
    again = judge(facts(first, second, third, boot="b2"), NOW)
    assert again.consequences == ("prevent_slot", "needs_repair")
    assert again.findings[0].numbers == {"xid": 79, "count": 1, "reboots": 2}
    assert "2 reboots have not ended it" in again.findings[0].detail
    # And a third reboot does not make it well again.
    assert judge(facts(first, second, third, lifted_at=NOW, boot="b2"), NOW).findings == ()


def test_a_fault_of_many_tenants_is_the_gpus_own() -> None:
    two = [seen(13, allocation=f"a{n}") for n in range(2)]
    assert judge(facts(*two), NOW).consequences == ("tenant_fault",)
    three = judge(facts(*two, seen(31, allocation="a3"), seen(13, allocation="a4")), NOW)
    assert three.classification == "unhealthy"
    assert three.findings[0].numbers["allocations"] == 3


@pytest.mark.parametrize(
    ("code", "detail", "consequences", "finding"),
    [
        ("gpu_recovery_required", f"{ASKS}gpu_reset", ("prevent_slot",), "gpu_needs_reset"),
        ("gpu_recovery_required", f"{ASKS}drain_and_reset", ("prevent_slot",), "gpu_needs_reset"),
        ("gpu_recovery_required", f"{ASKS}node_reboot", ("prevent_node",), "node_needs_reboot"),
        ("gpu_recovery_required", f"{ASKS}a miracle", ("prevent_slot",), "gpu_needs_reset"),
        ("record_damaged", "one.json", ("prevent_slot",), "record_damaged"),
        ("machine_not_restarted", "no image", ("prevent_slot",), "machine_not_restarted"),
        ("gpu_in_use", "open in 78 (nv-hostengine)", ("prevent_slot",), "gpu_in_use"),
        ("gpu_serial_changed", "another card", ("prevent_slot",), "gpu_needs_repair"),
        ("gpu_row_remap_failed", "a row", ("prevent_slot", "needs_repair"), "gpu_needs_repair"),
        ("gpu_lost", "it is lost", ("prevent_node",), "node_needs_reboot"),
    ],
)
def test_what_the_host_says_of_a_gpu_is_the_authority(
    code: str, detail: str, consequences: tuple[str, ...], finding: str
) -> None:
    # Not even what an operator set aside, or a proven reset, speaks against it.
    told = Told(code, detail)
    found = judge(facts(conditions=(told,), reset_at=NOW, lifted_at=NOW), NOW)
    assert (found.consequences, found.findings[0].code) == (consequences, finding)


def test_uncorrectable_errors_are_reset_away_at_the_release() -> None:
    found = judge(facts(ecc_uncorrected=3), NOW)
    assert (found.classification, found.consequences) == ("degraded", ("reset_at_release",))
    assert judge(facts(ecc_uncorrected=0), NOW).classification == "healthy"
    assert judge(facts(ecc_uncorrected=None), NOW).classification == "healthy"


def test_the_gravest_class_of_several_is_shown() -> None:
    assert worst_of(["healthy", "unhealthy", "degraded"]) == "unhealthy"
    assert worst_of([]) == "healthy"


# What follows on a host.


@pytest.fixture
def host(db: None) -> Host:
    """A ready host."""
    a_catalogue()
    return a_host("h1")


@pytest.fixture
def acme(host: Host) -> TenantWorld:
    """A tenant."""
    return a_tenant("acme")


def tell(host: Host, xid: int, gpu: int = 1, seq: int = 1) -> None:
    """The host's driver told an error of one GPU."""
    tell_of(host, f"GPU-h1-{gpu}", xid, seq)


def tell_of(host: Host, device: str | None, xid: int, seq: int = 1) -> None:
    """The host's driver told an error of what it names so; None: of what it does not name."""
    builder = WindowBuilder("host", seq * 60, seq)
    builder.add("GPU-h1-1", {"gpu_utilisation": present(1)})
    builder.add_xid(device, xid, seq * 60)
    message = TelemetryReport(host.boot, (builder.close(seq * 60 + 60),), 0)
    telemetry_take(node=host.fresh(), message=TelemetryReport.from_json(message.to_json()))


def observe(host: Host, *conditions: tuple[str, str, int], unseen: int = -1) -> None:
    """A report that sees every GPU but one, with these conditions of some."""
    host.seq += 1
    gpus = [
        {
            "id": f"GPU-h1-{k}",
            "presence": "unknown" if k == unseen else "present",
            "holder": None,
            "clean": None,
        }
        for k in range(8)
    ]
    body = {
        "boot_id": host.fresh().boot_id,
        "seq": host.seq,
        "at": 0,
        "vms": [],
        "devices": {"gpus": gpus, "nics": [], "nvmes": []},
        "conditions": [
            {"code": code, "detail": detail, "device": f"GPU-h1-{gpu}"}
            for code, detail, gpu in conditions
        ],
    }
    node_observed(node=host.fresh(), message=ObservedReport.from_json(body, ""))


def slot(host: Host, index: int = 1) -> Slot:
    """One slot now."""
    return Slot.objects.get(node=host.node, index=index)


pg = pytest.mark.django_db


@pg
def test_an_error_blocks_its_slot_alone_and_names_who_had_it(host: Host, acme: TenantWorld) -> None:
    acme.order(slots=2)
    host.work()
    tell(host, 48)
    event = XidEvent.objects.get()
    assert event.allocation == acme.tenant.allocations.get().pk
    assert (event.xid, event.boot_id, event.policy) == (48, BOOT, "reset")
    assert (slot(host).state, (slot(host).block_owner or {})["id"]) == ("blocked", "health")
    node = host.fresh()
    assert (node.schedulable, node.free_count, node.health) == (True, 6, "ok")
    assert acme.tenant.allocations.get().state == "active"
    # It is nobody's to accept among what differs: it has its own way out.
    assert [d for d in differences_of(node) if d.to_accept] == []


@pg
def test_the_cleanup_that_resets_a_gpu_lifts_its_block(host: Host, acme: TenantWorld) -> None:
    acme.order(slots=2)
    host.work()
    tell(host, 48)
    allocation_release(allocation_id=acme.tenant.allocations.get().pk, reason="", actor=acme.actor)
    drive_all()
    host.work()
    assert acme.tenant.allocations.get().state == "released"
    service.health_sweep()
    assert slot(host).state == "approved"
    assert (host.fresh().free_count, DeviceHealth.objects.get().classification) == (8, "healthy")


@pg
def test_a_lost_gpu_takes_the_host_out_until_it_has_rebooted(host: Host, acme: TenantWorld) -> None:
    tell(host, 79)
    assert posture_of(host.fresh()) == "unavailable"
    assert [c["code"] for c in host.fresh().conditions] == ["node_needs_reboot"]
    with pytest.raises(SkuUnavailable) as refused:
        acme.order(slots=1)
    assert refused.value.facts["removed"] == {"device_health": 1}
    host.report()
    assert not host.fresh().schedulable
    host.boot = "boot-00000002"
    host.lease()
    observe(host)
    assert (host.fresh().schedulable, slot(host).state) == (True, "approved")


@pg
@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("gpu_recovery_required", "the driver asks for gpu_reset"),
        ("gpu_serial_changed", "another card than the one that was read there last"),
        ("record_damaged", "the helper's record cannot be read"),
        ("machine_not_restarted", "this host has no image small [image_unknown]"),
        ("gpu_in_use", "it is open in 78 (nv-hostengine)"),
    ],
)
def test_what_is_one_gpus_own_leaves_the_host_at_work(host: Host, code: str, detail: str) -> None:
    observe(host, (code, detail, 3))
    node = host.fresh()
    assert (node.schedulable, node.free_count, slot(host, 3).state) == (True, 7, "blocked")
    assert node.conditions[0]["slots"] == [3]
    observe(host)
    assert (host.fresh().free_count, slot(host, 3).state) == (8, "approved")


@pg
def test_a_gpu_that_asks_for_a_reboot_takes_the_host_out(host: Host) -> None:
    observe(host, ("gpu_recovery_required", "the driver asks for node_reboot", 3))
    assert not host.fresh().schedulable
    observe(host)
    assert host.fresh().schedulable


@pg
def test_what_the_driver_changed_its_mind_about_waits_for_the_host(host: Host) -> None:
    tell(host, 154)
    assert slot(host).state == "blocked"
    finding = DeviceHealth.objects.get().findings[0]
    assert (finding["code"], finding["numbers"]["xid"]) == ("gpu_needs_reset", 154)


@pg
@pytest.mark.parametrize(("number", "code"), [(13, "gpu_tenant_fault"), (92, "gpu_watched")])
def test_an_error_that_keeps_no_work_away_is_told_by_its_code(
    host: Host, acme: TenantWorld, number: int, code: str
) -> None:
    acme.order(slots=2)
    host.work()
    tell(host, number)
    (finding,) = DeviceHealth.objects.get().findings
    assert (finding["code"], finding["numbers"]["xid"]) == (code, number)
    assert (slot(host).state, host.fresh().free_count) == ("approved", 6)


@pg
def test_what_somebody_else_has_blocked_or_drained_is_never_lifted(host: Host) -> None:
    row = slot(host)
    Slot.objects.filter(pk=row.pk).update(
        state="blocked", block_reason="a card vanished", block_owner={"id": "identity"}
    )
    node_drain(node_id=host.node.pk, slot_index=2, reason="mine", actor=OPERATOR)
    for gpu in (1, 2):
        tell(host, 48, gpu=gpu, seq=gpu)
    assert (slot(host).block_owner, slot(host, 2).state) == ({"id": "identity"}, "blocked")
    for gpu in (1, 2):
        service.health_lift(
            node_id=host.node.pk, gpu_uuid=f"GPU-h1-{gpu}", reason="looked at", actor=OPERATOR
        )
    assert (slot(host).state, slot(host).block_owner) == ("blocked", {"id": "identity"})
    assert slot(host, 2).state == "approved"
    # The operator's drain outranks what automation found and is still there.
    assert host.fresh().free_count == 6


@pg
def test_an_operator_lifts_what_only_a_person_can_end(host: Host) -> None:
    tell(host, 64)
    service.health_sweep()
    assert slot(host).state == "blocked"
    row = service.health_lift(
        node_id=host.node.pk, gpu_uuid="GPU-h1-1", reason="replaced", actor=OPERATOR
    )
    assert (row.classification, row.lift_reason, slot(host).state) == (
        "healthy",
        "replaced",
        "approved",
    )
    tell(host, 64, seq=9)
    assert slot(host).state == "blocked"
    with pytest.raises(errors.NotFound):
        service.health_lift(node_id=host.node.pk, gpu_uuid="GPU-none", reason="x", actor=OPERATOR)


@pg
def test_a_tenants_own_fault_blocks_nothing(host: Host) -> None:
    tell(host, 31)
    assert (slot(host).state, host.fresh().free_count) == ("approved", 8)
    row = DeviceHealth.objects.get()
    assert (row.classification, row.consequences) == ("healthy", ["tenant_fault"])


@pg
def test_silence_after_an_error_ends_nothing_but_what_was_watched(host: Host) -> None:
    tell(host, 92)
    tell(host, 48, gpu=2, seq=2)
    XidEvent.objects.update(created_at=clock.db_now() - CLEAN_WINDOW - HOUR)
    service.health_sweep()
    words = dict(DeviceHealth.objects.values_list("gpu_uuid", "classification"))
    assert words == {"GPU-h1-1": "healthy", "GPU-h1-2": "unhealthy"}


@pg
def test_a_repeated_report_keeps_an_error_once_and_old_ones_go(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "KEPT", 3)
    for _ in range(2):
        tell(host, 13)
    assert XidEvent.objects.count() == 1
    for seq in range(2, 8):
        tell(host, 13, seq=seq)
    assert XidEvent.objects.count() == 3


@pg
def test_the_breaker_holds_what_would_take_too_much_of_a_pool(host: Host) -> None:
    breaker_set(pool="default", percent=0, floor=0, window_s=3600, reason="careful", actor=OPERATOR)
    tell(host, 48)
    row = DeviceHealth.objects.get()
    assert (row.classification, row.consequences, slot(host).state) == (
        "unhealthy",
        [],
        "approved",
    )
    # What the host itself says now is not held.
    observe(host, ("gpu_recovery_required", "the driver asks for gpu_reset", 1))
    assert slot(host).state == "blocked"


@pg
def test_a_host_that_is_out_is_left_out_of_those_that_are_judged(host: Host) -> None:
    gone = a_host("h2")
    long_ago = clock.db_now() - timedelta(days=3)
    for node in (gone.node, host.node):
        DeviceHealth.objects.create(
            node=node,
            gpu_uuid=f"GPU-{node.name}-1",
            classification="unhealthy",
            since=long_ago,
            checked_at=long_ago,
        )
    node_retire(node_id=gone.node.pk, reason="sold", actor=OPERATOR)
    assert service.health_sweep() == 1
    assert DeviceHealth.objects.get(node=host.node).classification == "healthy"


@pg
def test_the_last_of_many_cleanups_is_the_one_that_counts(host: Host, acme: TenantWorld) -> None:
    for _ in range(2):
        acme.order(slots=2)
        host.work()
        latest = acme.tenant.allocations.latest("created_at")
        allocation_release(allocation_id=latest.pk, reason="", actor=acme.actor)
        drive_all()
        host.work()
    proofs = CleanupProof.objects.filter(complete=True, claim__slot_index=1)
    assert proofs.count() == 2
    last = max(proofs.values_list("created_at", flat=True))
    now = clock.db_now()
    assert service._resets(host.fresh(), now)[1] == last
    proofs.update(created_at=now - timedelta(days=15))
    assert 1 not in service._resets(host.fresh(), now)


@pg
def test_an_error_of_a_gpu_with_several_parts_is_laid_to_nobody() -> None:
    a_catalogue()
    a_parts_catalogue()
    host = a_host("h1", parts=BOTH_KINDS)
    cut_slots(host, "mig", 1)
    a_tenant("acme").order("h100.1g")
    tell(host, 13)
    assert XidEvent.objects.get().allocation == Allocation.objects.get().pk
    a_tenant("beta").order("h100.1g")
    tell(host, 13, seq=2)
    assert XidEvent.objects.latest("created_at").allocation is None
