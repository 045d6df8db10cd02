"""Is a host sold only as what its evidence carries, and taken back by rule?"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.kernel import clock, errors
from gpuaas.kernel.models import Event
from placement.audits.capacity import capacity
from placement.errors import EvidenceNotEnough, NodeStateRefused, ReasonMissing, SkuUnavailable
from placement.models import (
    Allocation,
    Node,
    NodeCapability,
    NodeTask,
    ReadinessEvidence,
    ReadinessTerms,
)
from placement.selectors import posture_of
from placement.selectors.readiness_terms import readiness_terms_list, readiness_terms_now
from placement.services import evidence as service
from placement.services import nodes
from placement.services.allocations import Ticket
from placement.services.capabilities import evidence_from_discovery
from placement.services.readiness_terms import readiness_terms_preview, readiness_terms_set
from tenants.errors import PreviewStale
from tests.builders import OPERATOR, Host, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def host(db: None) -> Host:
    """A host that was approved on the evidence of its discovery."""
    a_catalogue()
    return a_host("h1")


@pytest.fixture
def acme(host: Host) -> TenantWorld:
    """A tenant."""
    return a_tenant("acme")


def states(host: Host) -> dict[str, str]:
    """Where each capability of the host stands."""
    rows = NodeCapability.objects.filter(node=host.node)
    return dict(rows.values_list("capability", "state"))


def say(host: Host, check: str, verdict: str, **more: object) -> None:
    """What is known of one check is something else from now on."""
    rows = ReadinessEvidence.objects.filter(node=host.node, check_name=check)
    rows.update(verdict=verdict, **more)
    NodeCapability.objects.filter(node=host.node).update(rejudge=True)
    service.readiness_sweep()


def no_findings() -> bool:
    """Whether the fold agrees with what it is made of."""
    return not capacity()


def test_approving_promotes_what_the_evidence_carries_and_says_so(host: Host) -> None:
    assert states(host) == {"slices": "promoted", "baremetal": "promoted"}
    assert (host.fresh().takes, host.fresh().schedulable) == ("any", True)
    told = Event.objects.get(kind="placement.node.approve", subject_id=host.node.pk)
    assert told.facts["capabilities"] == {"slices": "promoted", "baremetal": "promoted"}
    kept = ReadinessEvidence.objects.get(node=host.node, check_name="iommu")
    assert (kept.verdict, kept.source, kept.boot_id) == ("pass", "discovery", host.boot)
    assert no_findings()


def test_a_check_that_fails_takes_its_shape_back_and_leaves_what_runs(
    host: Host, acme: TenantWorld
) -> None:
    acme.order(slots=1)
    host.work()
    before = host.fresh().generation
    say(host, "iommu", "fail", reason="the kernel has no IOMMU groups: it is off")
    assert states(host) == {"slices": "suspended", "baremetal": "promoted"}
    assert (host.fresh().takes, host.fresh().schedulable) == ("baremetal", True)
    assert host.fresh().generation > before
    assert Allocation.objects.get().state == "active"
    with pytest.raises(SkuUnavailable) as refused:
        acme.order(slots=1)
    assert refused.value.facts["removed"] == {"capability_evidence": 1}
    miss = NodeCapability.objects.get(node=host.node, capability="slices").misses[0]
    assert (miss["check"], miss["code"]) == ("iommu", "evidence_failed")
    assert no_findings()


def test_evidence_that_comes_back_lifts_its_own_suspension(host: Host, acme: TenantWorld) -> None:
    say(host, "iommu", "fail")
    say(host, "iommu", "pass")
    assert states(host)["slices"] == "promoted"
    assert isinstance(acme.order(slots=1), Ticket)


def test_gpus_that_could_not_be_cleaned_after_a_machine_keep_a_host_from_slices(
    host: Host, acme: TenantWorld
) -> None:
    pci = "0000:60:00.0"
    told = {"device": pci, "name": "gpu_cleanable", "presence": "absent", "reason": "hive_shared"}
    well = [
        {"device": None, "name": name, "presence": "present", "value": value}
        for name, value in (("amdgpu_driver", "True"), ("iommu", "8 groups"), ("vfio_pci", "True"))
    ]
    gpu = {"index": 0, "uuid": "u", "uuid_source": "amdsmi", "pci": pci, "numa": 0}
    node = nodes.locked(host.node.pk)
    evidence_from_discovery(node, {"gpus": [gpu], "facts": [*well, told]}, actor=OPERATOR)
    nodes.refold(node)
    assert states(host) == {"slices": "suspended", "baremetal": "promoted"}
    with pytest.raises(SkuUnavailable):
        acme.order(slots=1)
    with pytest.raises(EvidenceNotEnough) as refused:
        service.node_promote(
            node_id=host.node.pk, capability="slices", reason="it is wanted", actor=OPERATOR
        )
    (miss,) = refused.value.facts["misses"]
    assert (miss["check"], miss["code"]) == ("vfio", "evidence_failed")
    assert miss["reason"].startswith(f"{pci} could not be cleaned after a machine had it (hive_")
    assert no_findings()


def test_evidence_that_expires_demotes_by_the_sweep_alone(host: Host) -> None:
    ended = clock.db_now() - timedelta(days=31)
    ReadinessEvidence.objects.filter(node=host.node).update(observed_at=ended)
    NodeCapability.objects.filter(node=host.node).update(holds_until=clock.db_now())
    service.readiness_sweep()
    assert states(host) == {"slices": "suspended", "baremetal": "suspended"}
    assert (host.fresh().takes, host.fresh().schedulable) == ("none", False)
    assert posture_of(host.fresh()) == "unavailable"
    row = NodeCapability.objects.get(node=host.node, capability="slices")
    assert {miss["code"] for miss in row.misses} == {"evidence_expired"}
    assert no_findings()


def test_evidence_that_nobody_gave_is_told_as_missing(host: Host) -> None:
    say(host, "vfio", "unknown", reason="nobody could tell")
    row = NodeCapability.objects.get(node=host.node, capability="slices")
    assert [(miss["check"], miss["code"]) for miss in row.misses] == [("vfio", "evidence_missing")]
    assert row.state == "suspended"


def test_a_host_is_looked_at_again_before_its_evidence_ends(host: Host) -> None:
    NodeTask.objects.all().delete()
    NodeCapability.objects.filter(node=host.node).update(renew_at=clock.db_now())
    service.readiness_sweep()
    service.readiness_sweep()
    assert NodeTask.objects.filter(kind="slice.topology_discover").count() == 1


def test_a_missing_prerequisite_is_evidence_against_slices_and_goes_with_its_report(
    host: Host,
) -> None:
    host.report("prerequisite_missing")
    assert states(host)["slices"] == "suspended"
    assert states(host)["baremetal"] == "promoted"
    host.report()
    assert states(host)["slices"] == "promoted"
    assert host.fresh().schedulable


def test_an_operator_demotes_and_only_an_operator_promotes_again(host: Host) -> None:
    service.node_demote(
        node_id=host.node.pk, capability="slices", reason="a bad batch of risers", actor=OPERATOR
    )
    assert host.fresh().takes == "baremetal"
    say(host, "iommu", "pass")
    assert states(host)["slices"] == "demoted"
    for _ in range(2):
        service.node_promote(
            node_id=host.node.pk, capability="slices", reason="risers changed", actor=OPERATOR
        )
    row = NodeCapability.objects.get(node=host.node, capability="slices")
    assert (row.state, row.decision) == ("promoted", "risers changed")
    assert (row.decided_by or {})["id"] == "operator"
    assert host.fresh().takes == "any"


def test_a_promotion_that_the_evidence_does_not_carry_names_every_check(host: Host) -> None:
    service.node_demote(
        node_id=host.node.pk, capability="slices", reason="looked at", actor=OPERATOR
    )
    say(host, "iommu", "fail", reason="it is off")
    say(host, "vfio", "unknown", reason="nobody knows")
    with pytest.raises(EvidenceNotEnough) as refused:
        service.node_promote(
            node_id=host.node.pk, capability="slices", reason="please", actor=OPERATOR
        )
    assert "iommu failed: it is off; vfio missing: nobody knows" in str(refused.value.detail)
    assert states(host)["slices"] == "demoted"


def test_a_host_that_is_not_approved_is_not_promoted(db: None) -> None:
    a_catalogue()
    node = nodes.node_create(name="new", actor=OPERATOR)
    with pytest.raises(NodeStateRefused):
        service.node_promote(node_id=node.pk, capability="slices", reason="eager", actor=OPERATOR)


def test_terms_of_a_family_ask_for_a_burn_in_and_promote_by_themselves(host: Host) -> None:
    readiness_terms_set(
        family="h100x8",
        required={"slices": {"iommu": None, "burn_in": 86_400}, "baremetal": {"driver": None}},
        auto_promote=True,
        reason="new hosts burn in first",
        actor=OPERATOR,
    )
    service.readiness_sweep()
    assert states(host) == {"slices": "suspended", "baremetal": "promoted"}
    service.evidence_give(
        node_id=host.node.pk,
        check="burn_in",
        verdict="pass",
        reason="24 hours at full load",
        actor=OPERATOR,
    )
    assert states(host)["slices"] == "promoted"
    other = a_host("h2")
    assert states(other) == {"slices": "candidate", "baremetal": "promoted"}
    assert other.fresh().takes == "baremetal"
    service.evidence_give(
        node_id=other.node.pk, check="burn_in", verdict="pass", reason="done", actor=OPERATOR
    )
    assert states(other)["slices"] == "promoted"
    assert other.fresh().takes == "any"


def test_a_driver_below_the_familys_baseline_is_not_sold(host: Host) -> None:
    say(host, "driver", "pass", version=[535, 183])
    readiness_terms_set(
        family="h100x8",
        required={"slices": {"driver": None}, "baremetal": {"driver": None}},
        driver_min="550.54",
        reason="a fix that everybody needs",
        actor=OPERATOR,
    )
    service.readiness_sweep()
    assert host.fresh().takes == "none"
    miss = NodeCapability.objects.get(node=host.node, capability="slices").misses[0]
    assert "535.183 is below the family's 550.54" in miss["reason"]


def test_a_preview_says_whom_terms_would_move_and_they_move_exactly_those(host: Host) -> None:
    a_host("h2")
    service.evidence_give(
        node_id=host.node.pk, check="burn_in", verdict="pass", reason="done", actor=OPERATOR
    )
    given: dict[str, Any] = {"required": {"slices": {"burn_in": None}, "baremetal": {}}}
    shown = readiness_terms_preview(family="h100x8", **given)
    told = [(one.node, one.capability, one.move) for one in shown.moved]
    assert told == [("h2", "slices", "suspend")]
    assert (shown.hosts, shown.demoted, shown.promoted) == (2, 1, 0)
    assert ("slices burn_in", "not needed", "no end") in shown.changes
    assert not ReadinessTerms.objects.exists()
    a_host("h3")
    how: dict[str, Any] = {"family": "h100x8", "reason": "because", "actor": OPERATOR, **given}
    with pytest.raises(PreviewStale):
        readiness_terms_set(seen=shown.digest, **how)
    fresh = readiness_terms_preview(family="h100x8", **given)
    readiness_terms_set(seen=fresh.digest, **how)
    service.readiness_sweep()
    found = NodeCapability.objects.filter(state="suspended").order_by("node__name", "capability")
    assert list(found.values_list("node__name", "capability")) == [
        ("h2", "slices"),
        ("h3", "slices"),
    ]


def test_terms_of_every_other_family_spare_one_with_its_own(host: Host) -> None:
    own: dict[str, Any] = {"required": {}, "reason": "nothing", "actor": OPERATOR}
    readiness_terms_set(family="h100x8", **own)
    assert readiness_terms_preview(family="any", required={}).hosts == 0
    assert readiness_terms_now("h100x8").version == 1
    assert readiness_terms_list()[0].family == "any"
    assert readiness_terms_now("any").version == 0
    assert {n.check for n in readiness_terms_now("any").required} >= {"driver", "iommu"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"check": "iommu"}, "/check"),
        ({"check": "nonsense"}, "/check"),
        ({"verdict": "unknown"}, "/verdict"),
        ({"valid_s": 5}, "/valid_s"),
    ],
)
def test_what_is_read_from_the_host_cannot_be_handed_in(
    host: Host, given: dict[str, object], field: str
) -> None:
    how: dict[str, object] = {"check": "burn_in", "verdict": "pass", "reason": "because", **given}
    with pytest.raises(errors.InvalidRequest) as refused:
        service.evidence_give(node_id=host.node.pk, actor=OPERATOR, **how)  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.errors[0].pointer == field


def test_evidence_without_a_reason_is_refused(host: Host) -> None:
    with pytest.raises(ReasonMissing):
        service.evidence_give(
            node_id=host.node.pk, check="burn_in", verdict="pass", reason=" ", actor=OPERATOR
        )


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"family": "none-such"}, "/family"),
        ({"required": {"halves": {}}}, "/required"),
        ({"required": {"slices": {"luck": None}}}, "/required"),
        ({"required": {"slices": {"driver": 1}}}, "/required"),
        ({"driver_min": "new"}, "/driver_min"),
        ({"firmware_min": "best"}, "/firmware_min"),
    ],
)
def test_terms_that_mean_nothing_name_their_field(
    host: Host, given: dict[str, object], field: str
) -> None:
    how: dict[str, object] = {"family": "", "required": {}, "reason": "because", **given}
    with pytest.raises(errors.InvalidRequest) as refused:
        readiness_terms_set(actor=OPERATOR, **how)  # type: ignore[arg-type]  # wrong on purpose
    assert refused.value.errors[0].pointer == field


def test_a_host_that_an_older_control_plane_approved_gets_its_capabilities(host: Host) -> None:
    NodeCapability.objects.all().delete()
    Node.objects.update(takes="none")
    service.readiness_sweep()
    assert (states(host)["slices"], host.fresh().takes) == ("promoted", "any")


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("driver", "iommu", "vfio", "numa", "fabric", "runtime")),
        st.sampled_from(("pass", "fail", "unknown", "old")),
    ),
    max_size=8,
)


@given(steps=_STEPS)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_order_of_evidence_leaves_a_host_promoted_without_it(
    host: Host, steps: list[tuple[str, str]]
) -> None:
    for check, verdict in steps:
        if verdict == "old":
            say(host, check, "pass", observed_at=clock.db_now() - timedelta(days=40))
        else:
            say(host, check, verdict, observed_at=clock.db_now())
        for row in NodeCapability.objects.filter(node=host.node):
            assert (row.state == "promoted") == (not row.misses)
        node = host.fresh()
        assert (node.takes == "none") == (not node.schedulable)
        assert no_findings()
    for check in ("driver", "iommu", "vfio", "numa", "fabric", "runtime"):
        say(host, check, "pass", observed_at=clock.db_now())
    assert host.fresh().takes == "any"
