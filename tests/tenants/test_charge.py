"""Does the database charge and give back as the pure arithmetic says?"""

from __future__ import annotations

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.domain import cohorts as arithmetic
from tenants.domain.cohorts import Pot, Refusal, Share, Tree
from tenants.models import CohortCounter, ProjectQuota, QuotaCounter, Tenant
from tenants.services import cohorts, envelopes, quota
from tests.builders import CLASS, OPERATOR
from tests.tenants.worlds import (
    COHORTS,
    a_class,
    an_active_tenant,
    charge,
    findings,
    project_of,
    the_cohorts,
)

pytestmark = pytest.mark.django_db

TENANTS = ("a", "b", "c")
NAMES = st.sampled_from(TENANTS)
AMOUNTS = st.integers(0, 6)
MAYBE = st.none() | AMOUNTS
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("charge"), st.lists(st.tuples(NAMES, st.integers(1, 5)), min_size=1)),
        st.tuples(st.just("charge"), st.lists(st.tuples(NAMES, st.integers(1, 5)), min_size=1)),
        st.tuples(st.just("return"), NAMES, AMOUNTS),
        st.tuples(st.just("change"), NAMES, AMOUNTS, AMOUNTS, MAYBE),
        st.tuples(st.just("move"), NAMES, st.sampled_from([None, *COHORTS])),
        st.tuples(st.just("bound"), st.sampled_from(sorted(COHORTS)), MAYBE, MAYBE),
    ),
    max_size=12,
)


class Both:
    """The same tree in the database and as values."""

    def __init__(self) -> None:
        self.kind = a_class()
        the_cohorts()
        self.tenants: dict[str, Tenant] = {}
        for name in TENANTS:
            self.tenants[name] = an_active_tenant(name)
        self.tree = Tree(
            {name: Share(0) for name in TENANTS},
            {name: Pot(parent) for name, parent in COHORTS.items()},
        )
        for name in TENANTS:
            self.change(name, 0, 0, None)

    def charge(self, wishes: list[tuple[str, int]]) -> None:
        """A batch: all of it, or none."""
        tree: Tree | Refusal = self.tree
        for name, amount in wishes:
            assert isinstance(tree, Tree)
            tree = arithmetic.charge(tree, name, amount)
            if isinstance(tree, Refusal):
                break
        code = charge(
            *(
                (self.tenants[name], project_of(self.tenants[name]).pk, self.kind, amount)
                for name, amount in wishes
            )
        )
        assert (code == "") == isinstance(tree, Tree), (code, tree)
        if isinstance(tree, Tree):
            self.tree = tree
        elif len(wishes) == 1:
            assert code == tree.code

    def give_back(self, name: str, amount: int) -> None:
        """As much of it as is held."""
        amount = min(amount, self.tree.shares[name].used)
        tenant = self.tenants[name]
        quota.quota_return(
            tenant_id=tenant.pk, amounts={self.kind.pk: amount}, project_id=project_of(tenant).pk
        )
        self.tree = arithmetic.give_back(self.tree, name, amount)

    def change(self, name: str, nominal: int, borrow: int, lend: int | None) -> None:
        """Another envelope, whatever is held."""
        envelopes.envelope_set(
            tenant_id=self.tenants[name].pk,
            resource_class=CLASS,
            nominal_milli=nominal,
            borrow_milli=borrow,
            lend_milli=lend,
            on_excess="grandfather",
            reason="test",
            actor=OPERATOR,
        )
        self.tree = arithmetic.change(self.tree, name, nominal=nominal, borrow=borrow, lend=lend)

    def move(self, name: str, cohort: str | None) -> None:
        """Into another cohort, or none."""
        cohorts.tenant_cohort_set(
            tenant_id=self.tenants[name].pk, cohort=cohort, reason="test", actor=OPERATOR
        )
        self.tree = arithmetic.move(self.tree, name, cohort)

    def bound(self, name: str, borrow: int | None, lend: int | None) -> None:
        """Other limits of a cohort's own."""
        cohorts.cohort_limits_set(
            cohort=name,
            resource_class=CLASS,
            borrow_milli=borrow,
            lend_milli=lend,
            reason="test",
            actor=OPERATOR,
        )
        self.tree = arithmetic.bound(self.tree, name, borrow=borrow, lend=lend)

    def check(self) -> None:
        """The database says what the values say, and its audits find nothing."""
        for counter in QuotaCounter.objects.select_related("tenant", "cohort"):
            share = self.tree.shares[counter.tenant.slug]
            assert (
                counter.limit_milli,
                counter.used_milli,
                counter.borrow_milli,
                counter.guaranteed_milli,
                counter.grandfathered_milli,
                counter.cohort.name if counter.cohort else None,
            ) == (
                share.nominal,
                share.used,
                share.borrowing,
                share.guaranteed,
                share.grandfathered,
                share.cohort,
            )
        pots = {row.cohort.name: row for row in CohortCounter.objects.select_related("cohort")}
        for name, pot in self.tree.pots.items():
            row = pots.get(name)
            seen = (row.quota_milli, row.used_milli, row.grandfathered_milli) if row else (0, 0, 0)
            assert seen == (pot.quota, pot.used, pot.grandfathered), name
        assert findings("tenants.cohorts", "tenants.envelopes", "tenants.projects") == []


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(STEPS)
def test_the_database_and_the_arithmetic_agree_after_every_step(
    steps: list[tuple[object, ...]],
) -> None:
    with transaction.atomic():
        both = Both()
        for what in steps:
            match what:
                case ("charge", list(wishes)):
                    both.charge(wishes)
                case ("return", str(name), int(amount)):
                    both.give_back(name, amount)
                case ("change", str(name), int(nominal), int(borrow), (int() | None) as lend):
                    both.change(name, nominal, borrow, lend)
                case ("move", str(name), (str() | None) as cohort):
                    both.move(name, cohort)
                case ("bound", str(name), (int() | None) as most, (int() | None) as lend):
                    both.bound(name, most, lend)
            both.check()
        transaction.set_rollback(True)


def test_each_refusal_names_its_reason() -> None:
    kind = a_class()
    the_cohorts()
    tenant, other = an_active_tenant("a"), an_active_tenant("b")
    project = project_of(tenant).pk
    assert charge((tenant, project, kind, 1)) == "authority_incomplete"
    for one in (tenant, other):
        envelopes.envelope_set(
            tenant_id=one.pk,
            resource_class=CLASS,
            nominal_milli=4,
            borrow_milli=4,
            reason="test",
            actor=OPERATOR,
        )
        cohorts.tenant_cohort_set(tenant_id=one.pk, cohort="deep", reason="test", actor=OPERATOR)
    assert charge((tenant, project, kind, 9)) == "envelope_exceeded"
    assert charge((tenant, project, kind, 7)) == ""
    assert charge((other, None, kind, 2)) == "cohort_exhausted"
    assert charge((other, None, kind, 1)) == ""
    envelopes.project_quota_set(
        project_id=project, resource_class=CLASS, limit_milli=7, reason="test", actor=OPERATOR
    )
    assert charge((tenant, project, kind, 1)) == "project_quota_exceeded"
    QuotaCounter.objects.filter(tenant=other).update(admitting=False)
    assert charge((other, None, kind, 1)) == "tenant_not_admitting"


def test_a_batch_names_the_last_who_needs_the_exhausted_cohort_and_takes_nothing() -> None:
    kind = a_class()
    the_cohorts()
    tenants = [an_active_tenant(name) for name in ("a", "b", "c")]
    for one in tenants:
        envelopes.envelope_set(
            tenant_id=one.pk,
            resource_class=CLASS,
            nominal_milli=2,
            borrow_milli=9,
            reason="test",
            actor=OPERATOR,
        )
        cohorts.tenant_cohort_set(tenant_id=one.pk, cohort="left", reason="test", actor=OPERATOR)
    rows = [(one, project_of(one).pk, kind, 3) for one in tenants]
    assert charge(*rows) == "cohort_exhausted"
    assert ProjectQuota.objects.filter(used_milli__gt=0).count() == 0
    assert set(QuotaCounter.objects.values_list("used_milli", flat=True)) == {0}
    assert charge(*rows[:2]) == ""
    assert CohortCounter.objects.get(cohort__name="root").used_milli == 6
    assert findings("tenants.cohorts", "tenants.envelopes", "tenants.projects") == []
