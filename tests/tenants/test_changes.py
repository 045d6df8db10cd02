"""Do versions, bursts, wishes, caps and projects change as they promise?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from gpuaas.kernel import clock, errors, outbox
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.models import Event
from placement.models import Allocation
from tenants.domain.caps import Ask, Caps, committed_micro, first_breach
from tenants.models import (
    BurstRule,
    Envelope,
    EnvelopeVersion,
    QuotaCounter,
    TenantCaps,
)
from tenants.selectors import increase_list
from tenants.services import (
    bursts,
    caps,
    cohorts,
    deletion,
    envelopes,
    increases,
    quota,
)
from tenants.snapshots import cohort_tree, quota_state
from tests.builders import (
    CLASS,
    OPERATOR,
    TenantWorld,
    a_catalogue,
    a_host,
    a_tenant,
    state_of,
)
from tests.tenants.worlds import charge, findings

pytestmark = pytest.mark.django_db


@pytest.fixture
def acme() -> TenantWorld:
    a_catalogue()
    return a_tenant(envelope_slots=4)


def limit(world: TenantWorld, slots: int, **more: object) -> Envelope:
    """Set the envelope."""
    return envelopes.envelope_set(
        tenant_id=world.tenant.pk,
        resource_class=CLASS,
        nominal_milli=slots * 1000,
        reason="test",
        actor=OPERATOR,
        **more,  # type: ignore[arg-type]  # free terms
    )


def counter(world: TenantWorld) -> QuotaCounter:
    """What is in force."""
    return QuotaCounter.objects.get(tenant=world.tenant)


def refusal(call: Callable[[], object]) -> str:
    """The code with which it is refused."""
    with pytest.raises(ProductError) as refused:
        call()
    return refused.value.code


def pointers(call: Callable[[], object]) -> list[str]:
    """The fields that are named in the refusal of an invalid request."""
    with pytest.raises(errors.InvalidRequest) as refused:
        call()
    return [error.pointer for error in refused.value.errors]


def test_a_scheduled_version_is_in_force_from_its_moment(acme: TenantWorld) -> None:
    with clock.use(clock.FakeClock(clock.now())) as now:
        version = envelopes.envelope_schedule(
            tenant_id=acme.tenant.pk,
            resource_class=CLASS,
            nominal_milli=9000,
            effective_from=now.now() + timedelta(hours=1),
            reason="growth",
            actor=OPERATOR,
        )
        called_off = envelopes.envelope_schedule(
            tenant_id=acme.tenant.pk,
            resource_class=CLASS,
            nominal_milli=1000,
            effective_from=now.now() + timedelta(hours=1),
            reason="mistake",
            actor=OPERATOR,
        )
        envelopes.envelope_version_cancel(
            version_id=called_off.pk, reason="mistake", actor=OPERATOR
        )
        assert envelopes.envelopes_apply_due() == 0
        assert counter(acme).limit_milli == 4000
        assert isinstance(now, clock.FakeClock)
        now.advance(3600)
        assert envelopes.envelopes_apply_due() == 1
        assert envelopes.envelopes_apply_due() == 0
    assert counter(acme).limit_milli == 9000
    assert Envelope.objects.get(tenant=acme.tenant).version == version.version
    code = refusal(
        lambda: envelopes.envelope_version_cancel(
            version_id=version.pk, reason="late", actor=OPERATOR
        )
    )
    assert code == "version_in_force"


def test_lowering_below_use_needs_a_policy_and_shows_the_excess(acme: TenantWorld) -> None:
    a_host()
    acme.order(slots=3)
    assert refusal(lambda: limit(acme, 1)) == "envelope_below_use"
    assert counter(acme).limit_milli == 4000
    limit(acme, 1, on_excess="grandfather")
    assert counter(acme).grandfathered_milli == 2000
    assert counter(acme).drain_at is None
    told = Event.objects.get(kind="tenants.quota.excess")
    assert (told.tenant_id, told.facts["excess_milli"]) == (acme.tenant.pk, 2000)
    assert refusal(lambda: acme.order(slots=1)) == "envelope_exceeded"
    limit(acme, 3)
    assert counter(acme).grandfathered_milli == 0


def test_a_drain_releases_the_newest_leases_after_its_delay_and_no_more(
    acme: TenantWorld,
) -> None:
    host = a_host()
    leases = [acme.order(slots=1).allocation_id for _ in range(3)]
    first, second, third = (lease for lease in leases if lease is not None)
    host.work()
    with clock.use(clock.FakeClock(clock.now())) as now:
        limit(acme, 1, on_excess="drain", drain_after_s=600)
        assert isinstance(now, clock.FakeClock)
        now.advance(599)
        assert quota.drains_announce() == 0
        now.advance(2)
        assert quota.drains_announce() == 1
        assert quota.drains_announce() == 0
        outbox.sweep()
        assert [state_of(x) for x in (first, second, third)] == [
            "active",
            "releasing",
            "releasing",
        ]
        now.advance(quota.DRAIN_AGAIN_S + 1)
        assert quota.drains_announce() == 1
        outbox.sweep()
        assert state_of(first) == "active"
    host.work()
    assert Allocation.objects.get(pk=third).outcome_code == "envelope_lowered"
    assert (counter(acme).used_milli, counter(acme).grandfathered_milli) == (1000, 0)
    assert counter(acme).drain_at is None
    assert findings() == []


def test_a_burst_opens_and_closes_by_the_clock_and_repeats(acme: TenantWorld) -> None:
    def burst(opens: datetime, **more: object) -> BurstRule:
        return bursts.burst_create(
            tenant_id=acme.tenant.pk,
            resource_class=CLASS,
            name="night",
            extra_milli=2000,
            opens_at=opens,
            closes_at=opens + timedelta(hours=1),
            actor=OPERATOR,
            **more,  # type: ignore[arg-type]  # free terms
        )

    with clock.use(clock.FakeClock(clock.now())) as now:
        assert isinstance(now, clock.FakeClock)
        soon = now.now() + timedelta(minutes=1)
        assert refusal(lambda: burst(soon)) == "burst_without_cohort"
        cohorts.cohort_create(name="all", actor=OPERATOR)
        cohorts.tenant_cohort_set(
            tenant_id=acme.tenant.pk, cohort="all", reason="test", actor=OPERATOR
        )
        assert pointers(lambda: burst(soon, every_s=60)) == ["/closes_at"]
        rule = burst(soon, every_s=86_400)
        assert counter(acme).borrow_milli == 0
        for _ in range(2):
            now.advance(61)
            assert bursts.bursts_turn() == 1
            assert counter(acme).borrow_milli == 2000
            now.advance(3600)
            assert bursts.bursts_turn() == 1
            assert counter(acme).borrow_milli == 0
            now.advance(86_400 - 3661)
        ended = bursts.burst_end(burst_id=rule.pk, reason="over", actor=OPERATOR)
    assert ended.state == "ended"
    assert findings() == []


def test_a_wish_shows_what_is_promised_beside_what_can_be_delivered(acme: TenantWorld) -> None:
    a_tenant("globex", envelope_slots=6)

    def ask(slots: int = 8) -> object:
        return increases.increase_ask(
            tenant_id=acme.tenant.pk,
            resource_class=CLASS,
            nominal_asked_milli=slots * 1000,
            justification="a larger model",
            actor=acme.actor,
        )

    assert pointers(lambda: ask(4)) == ["/nominal_asked_milli"]
    ask()
    assert refusal(ask) == "increase_open_already"
    [wish] = increase_list(acme.tenant.pk, "asked")
    view = increases.increase_view(wish, deliverable_milli=12_000)
    assert (view.granted_milli, view.granted_after_milli) == (10_000, 14_000)
    assert view.overcommitted
    increases.increase_approve(
        increase_id=wish.pk, reason="two more", nominal_granted_milli=6000, actor=OPERATOR
    )
    assert counter(acme).limit_milli == 6000
    ask()
    [wish] = increase_list(acme.tenant.pk, "asked")
    refused = increases.increase_refuse(increase_id=wish.pk, reason="no room", actor=OPERATOR)
    assert (refused.state, refused.decision_reason) == ("refused", "no room")
    assert counter(acme).limit_milli == 6000


@pytest.mark.parametrize(
    ("cap", "ask", "code", "never"),
    [
        ({"shapes": ("gpu_slice",)}, {"shape": "baremetal"}, "shape_not_allowed", True),
        ({"zones": ("a",)}, {"zones": ("a", "b")}, "zone_not_allowed", True),
        ({"best_band": 2}, {"band": 1}, "band_not_allowed", True),
        ({"slots_per_request": 2}, {"slots": 3}, "request_too_large", True),
        ({"allocations": 3}, {"live": 3}, "too_many_allocations", False),
        ({"allocations": 3}, {"allocations": 4}, "too_many_allocations", True),
        ({"waiting": 1}, {"waiting": 1, "would_wait": True}, "too_many_waiting", False),
        ({"spend_hard_micro": 5}, {"committed_micro": 6}, "spend_cap_exceeded", False),
    ],
)
def test_each_cap_refuses_with_its_own_code(
    cap: dict[str, object], ask: dict[str, object], code: str, never: bool
) -> None:
    asked = Ask(**{"shape": "gpu_slice", "slots": 1, "band": 2, **ask})  # type: ignore[arg-type]  # free fields
    found = first_breach(Caps(**cap), asked)  # type: ignore[arg-type]  # free fields
    assert found is not None
    assert (found.code, found.never) == (code, never)
    assert errors.catalogue()[code].unblock
    assert first_breach(Caps(), asked) is None


def test_what_a_month_is_committed_to_is_rounded_up() -> None:
    assert committed_micro(accrued_micro=10, hour_micro=7, seconds_left=1800) == 14
    assert committed_micro(accrued_micro=10, hour_micro=7, seconds_left=0) == 10


def test_caps_are_versioned_and_the_soft_one_is_told_once_a_month(acme: TenantWorld) -> None:
    def put(version: int | None = None, **changes: object) -> TenantCaps:
        return caps.caps_set(
            tenant_id=acme.tenant.pk,
            changes=changes,
            reason="test",
            actor=OPERATOR,
            version=version,
        )

    row = put(0, allocations=3, spend_soft_micro=100, spend_hard_micro=200)
    assert row.version == 1
    assert refusal(lambda: put(0, allocations=4)) == "stale_resource_version"
    assert pointers(lambda: put(spend_soft_micro=300)) == ["/spend_soft_micro"]
    assert pointers(lambda: put(shapes=["torus"])) == ["/shapes"]
    assert pointers(lambda: put(colour=1)) == ["/colour"]
    warn = [
        caps.spend_warn(tenant_id=acme.tenant.pk, committed_micro=spent, actor=OPERATOR)
        for spent in (100, 101, 150)
    ]
    assert warn == [False, True, False]
    assert put(1, allocations=None).allocations is None


@pytest.mark.parametrize("bad", [-1, 2**63, 1.5, float("nan"), 1e3, "1000", True, None])
def test_an_amount_at_the_edge_is_refused_with_its_field_and_writes_nothing(
    acme: TenantWorld, bad: object
) -> None:
    before = (Event.objects.count(), EnvelopeVersion.objects.count())
    who = {"tenant_id": acme.tenant.pk, "resource_class": CLASS, "actor": OPERATOR}

    def envelope(field: str) -> Callable[[], object]:
        terms = {"nominal_milli": 1000, field: bad}
        return lambda: envelopes.envelope_set(**who, reason="test", **terms)  # type: ignore[arg-type]  # bad on purpose

    assert pointers(envelope("nominal_milli")) == ["/nominal_milli"]
    assert pointers(envelope("borrow_milli")) == ["/borrow_milli"]
    if bad is not None:
        assert pointers(envelope("lend_milli")) == ["/lend_milli"]
    asked = pointers(
        lambda: increases.increase_ask(
            **who,  # type: ignore[arg-type]  # the same three
            nominal_asked_milli=bad,  # type: ignore[arg-type]  # bad on purpose
            justification="more",
        )
    )
    assert asked == ["/nominal_asked_milli"]
    assert (Event.objects.count(), EnvelopeVersion.objects.count()) == before


def test_nothing_may_be_held_under_a_nominal_of_zero_which_is_an_envelope(
    acme: TenantWorld,
) -> None:
    assert limit(acme, 0).nominal_milli == 0
    a_host()
    assert refusal(lambda: acme.order(slots=1)) == "envelope_exceeded"


def test_a_project_has_its_own_limit_inside_the_tenants(acme: TenantWorld) -> None:
    a_host()

    def put(most: int | None, **more: object) -> object:
        return envelopes.project_quota_set(
            project_id=acme.project.pk,
            resource_class=CLASS,
            limit_milli=most,
            reason="test",
            actor=acme.actor,
            **more,  # type: ignore[arg-type]  # free terms
        )

    put(1000)
    acme.order(slots=1)
    assert refusal(lambda: acme.order(slots=1)) == "project_quota_exceeded"
    assert refusal(lambda: put(0)) == "project_quota_below_use"
    put(0, on_excess="grandfather")
    state = quota_state(acme.tenant.pk, CLASS, acme.project.pk)
    assert state is not None
    assert (state.project_limit_milli, state.project_used_milli, state.free_milli) == (0, 1000, 0)
    assert refusal(
        lambda: deletion.project_delete(project_id=acme.project.pk, actor=acme.actor)
    ) == ("project_not_empty")
    put(None)
    assert acme.order(slots=1).allocation_id is not None
    assert findings() == []


def test_what_is_lent_and_borrowed_is_shown(acme: TenantWorld) -> None:
    globex = a_tenant("globex", envelope_slots=4)
    cohorts.cohort_create(name="all", actor=OPERATOR)
    assert refusal(lambda: cohorts.cohort_create(name="all", actor=OPERATOR)) == "name_taken"
    for world in (acme, globex):
        limit(world, 4, borrow_milli=3000)
        cohorts.tenant_cohort_set(
            tenant_id=world.tenant.pk, cohort="all", reason="test", actor=OPERATOR
        )
    kind = counter(acme).resource_class
    assert charge((acme.tenant, acme.project.pk, kind, 6000)) == ""
    lender = quota_state(globex.tenant.pk, CLASS)
    borrower = quota_state(acme.tenant.pk, CLASS)
    assert lender is not None
    assert borrower is not None
    assert (lender.lendable_milli, lender.lent_milli) == (4000, 2000)
    assert (lender.free_milli, lender.cohort_free_milli) == (2000, 2000)
    assert (borrower.borrowed_milli, borrower.free_milli) == (2000, 1000)
    [node] = cohort_tree()
    assert (node.tenants, node.quota_milli, node.used_milli) == (2, 8000, 6000)
    assert refusal(lambda: cohorts.cohort_delete(cohort="all", actor=OPERATOR)) == (
        "cohort_not_empty"
    )
