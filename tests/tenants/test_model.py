"""Do tenants, through any order of what befalls them, hold what a plain model says, and no more?

The model knows a tenant's state, what was agreed, and what it holds; what it may take comes from
the brute-force reading of the cohort's rules. The product does the same through its services,
on PostgreSQL, with hosts that prove every release.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from admission.models import Decision
from admission.services import tenancies, wishes
from gpuaas.kernel import outbox
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import ProductError
from placement.domain.order import AllocationOrder
from placement.models import Allocation, Claim, Node
from placement.services.allocations import allocation_release, allocation_request
from placement.services.endings import deletions_sweep
from placement.states import LIVE
from tenants.models import Project, QuotaCounter, QuotaIncrease, Role, Tenant
from tenants.services import cohorts, envelopes, tenancy
from tests.builders import CLASS, OPERATOR, a_catalogue, a_host
from tests.tenants.trees import Oracle, PlainCohort, PlainTenant
from tests.tenants.worlds import CHECKED, findings

pytestmark = pytest.mark.django_db

MOST_TENANTS, HOSTS, SLOTS = 4, 3, 8
WHICH = st.integers(0, MOST_TENANTS - 1)
AMOUNT = st.integers(0, 5).map(lambda slots: slots * 1000)
GONE = ("rejected", "deleting", "deleted")
ASKER = Actor(kind="user", id="anonymous", name="anonymous")


def code_of(act: Callable[[], object]) -> str:
    """The refusal's code, or an empty string."""
    try:
        act()
    except ProductError as refused:
        return refused.code
    return ""


class Tenants(RuleBasedStateMachine):
    """Each example is one transaction that is rolled back."""

    def __init__(self) -> None:
        super().__init__()
        self.undo = transaction.atomic()
        self.undo.__enter__()
        a_catalogue(slots_count=SLOTS)
        self.hosts = [a_host(f"host-{k}", slots_count=SLOTS) for k in range(HOSTS)]
        cohorts.cohort_create(name="all", actor=OPERATOR)
        self.rows: list[Tenant] = []
        self.states: list[str] = []
        self.open: dict[int, int] = {}
        self.plain = Oracle({}, {"all": PlainCohort(None, None, None)})

    def teardown(self) -> None:
        """Forget everything."""
        transaction.set_rollback(True)
        self.undo.__exit__(None, None, None)

    def picked(self, which: int) -> int | None:
        """The number of a tenant that exists."""
        return which % len(self.rows) if self.rows else None

    def actor(self, k: int) -> Actor:
        """The tenant's owner."""
        return Actor(
            kind="user", id=f"owner-{k}", name="o", tenant_id=self.rows[k].pk, role=Role.OWNER
        )

    def expect(self, k: int, sources: tuple[str, ...], to: str, act: Callable[[], object]) -> None:
        """A move happens from these states, and is refused from all others."""
        code = code_of(act)
        if self.states[k] in sources:
            assert code == ""
            self.states[k] = to
        else:
            assert code == "transition_refused"

    @rule()
    def signup(self) -> None:
        k = len(self.rows)
        if k < MOST_TENANTS:
            row = tenancies.tenant_signup(
                email=f"owner@tenant-{k}.test",
                password="a long pass phrase",
                full_name="",
                tenant_name=f"tenant-{k}",
                actor=ASKER,
            )
            self.rows.append(row)
            self.states.append("pending")
            self.plain.tenants[str(k)] = PlainTenant(0, 0, None, None)

    @rule(which=WHICH, reject=st.sampled_from([False, False, True]))
    def decide_on(self, which: int, reject: bool) -> None:
        k = self.picked(which)
        if k is None:
            return
        service = tenancies.tenant_reject if reject else tenancies.tenant_approve
        to = "rejected" if reject else "active"
        pk = self.rows[k].pk
        self.expect(
            k, ("pending",), to, lambda: service(tenant_id=pk, reason="test", actor=OPERATOR)
        )

    @rule(which=WHICH)
    def suspend(self, which: int) -> None:
        k = self.picked(which)
        if k is not None:
            pk = self.rows[k].pk
            act = lambda: tenancy.tenant_suspend(tenant_id=pk, reason="late", actor=OPERATOR)  # noqa: E731 - one move
            self.expect(k, ("active",), "suspended", act)

    @rule(which=WHICH)
    def resume(self, which: int) -> None:
        k = self.picked(which)
        if k is not None:
            pk = self.rows[k].pk
            act = lambda: tenancy.tenant_resume(tenant_id=pk, reason="paid", actor=OPERATOR)  # noqa: E731 - one move
            self.expect(k, ("suspended",), "active", act)

    @rule(which=WHICH, nominal=AMOUNT, borrow=AMOUNT, lend=st.none() | AMOUNT)
    def envelope(self, which: int, nominal: int, borrow: int, lend: int | None) -> None:
        """Up or down; what is held beyond it is grandfathered."""
        k = self.picked(which)
        if k is None:
            return
        code = code_of(
            lambda: envelopes.envelope_set(
                tenant_id=self.rows[k].pk,
                resource_class=CLASS,
                nominal_milli=nominal,
                borrow_milli=borrow,
                lend_milli=lend,
                on_excess="grandfather",
                reason="test",
                actor=OPERATOR,
            )
        )
        if self.states[k] in GONE:
            assert code == "tenant_not_active"
            return
        assert code == ""
        plain = self.plain.tenants[str(k)]
        plain.nominal, plain.borrow, plain.lend = nominal, borrow, lend

    @rule(which=WHICH, into=st.sampled_from(["all", None]))
    def cohort(self, which: int, into: str | None) -> None:
        k = self.picked(which)
        if k is None or self.states[k] in GONE:
            return
        cohorts.tenant_cohort_set(
            tenant_id=self.rows[k].pk, cohort=into, reason="test", actor=OPERATOR
        )
        self.plain.tenants[str(k)].cohort = into

    @rule(which=WHICH, more=st.integers(1, 3).map(lambda slots: slots * 1000))
    def ask_for_more(self, which: int, more: int) -> None:
        k = self.picked(which)
        if k is None:
            return
        asked = self.plain.tenants[str(k)].nominal + more
        code = code_of(
            lambda: wishes.increase_ask(
                tenant_id=self.rows[k].pk,
                resource_class=CLASS,
                nominal_asked_milli=asked,
                justification="growth",
                actor=self.actor(k),
            )
        )
        if self.states[k] in GONE:
            assert code == "tenant_not_active"
        elif k in self.open:
            assert code == "increase_open_already"
        else:
            assert code == ""
            self.open[k] = asked

    @rule(which=WHICH, how=st.sampled_from(["approve", "approve", "refuse", "withdraw"]))
    def answer_the_wish(self, which: int, how: str) -> None:
        k = self.picked(which)
        if k is None or k not in self.open:
            return
        wish = QuotaIncrease.objects.get(tenant=self.rows[k], state="asked")
        asked, plain = self.open[k], self.plain.tenants[str(k)]
        if how == "withdraw":
            wishes.increase_withdraw(increase_id=wish.pk, actor=self.actor(k))
        elif how == "refuse":
            wishes.increase_refuse(increase_id=wish.pk, reason="no", actor=OPERATOR)
        else:
            most = asked + (plain.borrow if plain.cohort else 0)
            code = code_of(
                lambda: wishes.increase_approve(increase_id=wish.pk, reason="yes", actor=OPERATOR)
            )
            # An envelope that was raised and used meanwhile is not lowered by an old wish.
            assert code == ("envelope_below_use" if plain.used > most else "")
            if code:
                return
            plain.nominal = asked
        del self.open[k]

    @rule(which=WHICH, slots=st.integers(1, 4))
    def request(self, which: int, slots: int) -> None:
        k = self.picked(which)
        if k is None:
            return
        plain, amount = self.plain.tenants[str(k)], slots * 1000
        free = max(Node.objects.values_list("free_count", flat=True))
        known = QuotaCounter.objects.filter(tenant=self.rows[k]).exists()
        code = code_of(
            lambda: allocation_request(
                tenant_id=self.rows[k].pk,
                project_id=Project.objects.get(tenant=self.rows[k]).pk,
                order=AllocationOrder(sku="h100.slice", slots=slots),
                actor=self.actor(k),
            )
        )
        if self.states[k] != "active":
            assert code in ("tenant_pending", "tenant_suspended", "tenant_not_active")
        elif not known:
            assert code == "authority_incomplete"
        elif not self.plain.allows(str(k), amount):
            assert code in ("envelope_exceeded", "cohort_exhausted")
        elif free < slots:
            assert code == "sku_unavailable"
        else:
            assert code == ""
            plain.used += amount

    @rule(which=WHICH)
    def release(self, which: int) -> None:
        k = self.picked(which)
        if k is None:
            return
        row = Allocation.objects.filter(tenant=self.rows[k]).exclude(state="released").first()
        if row is not None:
            allocation_release(allocation_id=row.pk, reason="", actor=self.actor(k))
            self.prove()
            self.plain.tenants[str(k)].used -= row.slots * 1000

    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        """It ends only when everything it held is proven to be gone."""
        k = self.picked(which)
        if k is None:
            return
        pk = self.rows[k].pk
        self.expect(
            k,
            ("active", "suspended"),
            "deleted",
            lambda: tenancies.tenant_delete(tenant_id=pk, reason="closing", actor=self.actor(k)),
        )
        if self.states[k] == "deleted":
            self.open.pop(k, None)
            outbox.sweep()
            self.prove()
            deletions_sweep()
            self.plain.tenants[str(k)].used = 0
            self.plain.tenants[str(k)].cohort = None

    def prove(self) -> None:
        """Every host does what is due."""
        for host in self.hosts:
            host.work()

    @invariant()
    def states_are_those_of_the_model(self) -> None:
        now = dict(Tenant.objects.values_list("pk", "state"))
        assert [now[row.pk] for row in self.rows] == self.states

    @invariant()
    def what_is_held_is_what_the_model_holds_and_what_is_charged(self) -> None:
        for k, row in enumerate(self.rows):
            plain = self.plain.tenants[str(k)]
            claims = Claim.objects.filter(tenant=row, holder="tenant", state__in=LIVE)
            assert sum(claim.amount_milli for claim in claims) == plain.used
            counter = QuotaCounter.objects.filter(tenant=row).first()
            assert (counter.used_milli if counter else 0) == plain.used
            if counter is not None and self.states[k] not in GONE:
                assert counter.grandfathered_milli == self.plain.tenant_excess(str(k))
                assert counter.limit_milli == plain.nominal
            if self.states[k] == "deleted":
                assert not claims.exists()

    @invariant()
    def nothing_was_admitted_without_authority(self) -> None:
        for decision in Decision.objects.filter(
            verdict="admit", request__action="allocation.create"
        ):
            assert decision.facts["tenant"]["state"] == "active"
            assert all(gate["passed"] for gate in decision.gates)
            assert decision.envelope_version > 0

    @invariant()
    def the_audits_find_nothing(self) -> None:
        assert findings(*CHECKED, "admission.changes") == []


@pytest.mark.timeout(120)
def test_any_life_of_tenants_keeps_to_what_was_agreed() -> None:
    run_state_machine_as_test(
        Tenants,
        settings=settings(
            max_examples=8,
            stateful_step_count=24,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Tenant.objects.count() == 0, "an example was not rolled back"
