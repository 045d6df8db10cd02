"""Do the invariants of quota hold after every step of a random life of a platform?"""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuaas.kernel import clock, outbox
from gpuaas.kernel.errors import ProductError
from placement.models import Allocation
from placement.services.allocations import allocation_release
from placement.services.endings import deletions_sweep
from tenants.models import Project, QuotaCounter
from tenants.services import bursts, cohorts, deletion, envelopes, tenancy
from tenants.services.quota import drains_announce
from tests.builders import (
    CLASS,
    OPERATOR,
    Host,
    TenantWorld,
    a_catalogue,
    a_host,
    a_tenant,
)
from tests.tenants.worlds import findings

pytestmark = pytest.mark.django_db

NAMES = ("acme", "globex", "initech")
WHO = st.sampled_from(NAMES)
SLOTS = st.integers(1, 4)
LIMIT = st.integers(0, 6)
POLICY = st.sampled_from(["grandfather", "drain"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("order"), WHO, SLOTS, st.booleans()),
        st.tuples(st.just("order"), WHO, SLOTS, st.booleans()),
        st.tuples(st.just("order"), WHO, SLOTS, st.booleans()),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("work")),
        st.tuples(st.just("envelope"), WHO, LIMIT, LIMIT, st.none() | LIMIT, POLICY),
        st.tuples(st.just("later"), WHO, LIMIT, st.integers(1, 90), POLICY),
        st.tuples(st.just("project"), WHO, st.none() | LIMIT),
        st.tuples(st.just("cohort"), WHO, st.sampled_from([None, "all", "part"])),
        st.tuples(st.just("burst"), WHO, st.integers(1, 4), st.integers(1, 60), POLICY),
        st.tuples(st.just("suspend"), WHO, st.sampled_from(["keep", "release"])),
        st.tuples(st.just("resume"), WHO),
        st.tuples(st.just("delete"), WHO),
        st.tuples(st.just("wait"), st.integers(1, 120)),
    ),
    min_size=4,
    max_size=14,
)


class Platform:
    """Three tenants on two hosts, and what may happen to them."""

    def __init__(self, now: clock.FakeClock) -> None:
        self.now = now
        a_catalogue()
        self.hosts: list[Host] = [a_host("host-1"), a_host("host-2")]
        cohorts.cohort_create(name="all", actor=OPERATOR)
        cohorts.cohort_create(name="part", parent="all", actor=OPERATOR)
        self.tenants: dict[str, TenantWorld] = {}
        for name in NAMES:
            self.tenants[name] = a_tenant(name, envelope_slots=4)

    def step(self, what: tuple[object, ...]) -> None:
        """One thing happens; a refusal changes no use (I-17)."""
        before = self.use()
        try:
            with transaction.atomic():
                self.do(what)
        except ProductError:
            assert self.use() == before, what

    def use(self) -> dict[str, int]:
        """What each tenant is charged."""
        rows = QuotaCounter.objects.values_list("tenant__slug", "used_milli")
        return dict(rows)

    def do(self, what: tuple[object, ...]) -> None:
        """Through the services, as the surfaces do."""
        match what:
            case ("order", str(name), int(slots), bool(wait)):
                self.tenants[name].order(slots=slots, wait=wait)
            case ("release", int(n)):
                rows = list(Allocation.objects.filter(state__in=["active", "placed"]))
                if rows:
                    row = rows[n % len(rows)]
                    allocation_release(allocation_id=row.pk, reason="", actor=OPERATOR)
            case ("work",):
                for host in self.hosts:
                    host.report()
                    host.work()
            case ("envelope", str(name), int(most), int(borrow), (int() | None) as lend, str(how)):
                envelopes.envelope_set(
                    tenant_id=self.tenants[name].tenant.pk,
                    resource_class=CLASS,
                    nominal_milli=most * 1000,
                    borrow_milli=borrow * 1000,
                    lend_milli=None if lend is None else lend * 1000,
                    on_excess=how,
                    drain_after_s=60,
                    reason="test",
                    actor=OPERATOR,
                )
            case ("later", str(name), int(most), int(after), str(how)):
                envelopes.envelope_schedule(
                    tenant_id=self.tenants[name].tenant.pk,
                    resource_class=CLASS,
                    nominal_milli=most * 1000,
                    on_excess=how,
                    drain_after_s=30,
                    effective_from=self.now.now() + timedelta(seconds=after),
                    reason="test",
                    actor=OPERATOR,
                )
            case ("project", str(name), (int() | None) as limit):
                envelopes.project_quota_set(
                    project_id=Project.objects.get(tenant__slug=name).pk,
                    resource_class=CLASS,
                    limit_milli=None if limit is None else limit * 1000,
                    on_excess="grandfather",
                    reason="test",
                    actor=OPERATOR,
                )
            case ("cohort", str(name), (str() | None) as cohort):
                cohorts.tenant_cohort_set(
                    tenant_id=self.tenants[name].tenant.pk,
                    cohort=cohort,
                    reason="test",
                    actor=OPERATOR,
                )
            case ("burst", str(name), int(extra), int(length), str(how)):
                bursts.burst_create(
                    tenant_id=self.tenants[name].tenant.pk,
                    resource_class=CLASS,
                    name="burst",
                    extra_milli=extra * 1000,
                    opens_at=self.now.now(),
                    closes_at=self.now.now() + timedelta(seconds=length),
                    on_close=how,
                    actor=OPERATOR,
                )
            case ("suspend", str(name), str(how)):
                tenancy.tenant_suspend(
                    tenant_id=self.tenants[name].tenant.pk,
                    reason="test",
                    suspension=how,
                    actor=OPERATOR,
                )
            case ("resume", str(name)):
                tenancy.tenant_resume(
                    tenant_id=self.tenants[name].tenant.pk, reason="test", actor=OPERATOR
                )
            case ("delete", str(name)):
                deletion.tenant_delete(
                    tenant_id=self.tenants[name].tenant.pk, reason="test", actor=OPERATOR
                )
            case ("wait", int(seconds)):
                self.now.advance(seconds)
                envelopes.envelopes_apply_due()
                bursts.bursts_turn()
                drains_announce()
                outbox.sweep()
                deletions_sweep()
            case _:
                raise AssertionError(what)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS)
def test_use_equals_claims_and_stays_within_what_was_agreed(
    steps: list[tuple[object, ...]],
) -> None:
    now = clock.FakeClock(clock.now())
    with clock.use(now), transaction.atomic():
        platform = Platform(now)
        excess = dict.fromkeys(NAMES, 0)
        for what in steps:
            platform.step(what)
            assert findings() == [], what
            for counter in QuotaCounter.objects.select_related("tenant"):
                name = counter.tenant.slug
                if what[0] in ("order", "release", "work"):
                    assert counter.grandfathered_milli <= excess[name], what
                excess[name] = counter.grandfathered_milli
        transaction.set_rollback(True)
