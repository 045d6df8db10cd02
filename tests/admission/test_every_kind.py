"""Does a rule hold for every kind of request, and does a broken one close that kind alone?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from django.db import transaction

from admission import rules
from admission.domain import policy
from admission.models import Action, AdmissionRequest, Decision, PolicyRule
from admission.services.tenancies import tenant_delete
from admission.services.wishes import increase_ask
from gpuaas.kernel.errors import ProductError
from placement.services.workloads import (
    gpu_sharing,
    workload_batch_size,
    workload_placement,
    workload_priority,
    workload_scale,
)
from tenants.models import QuotaCounter, Tenant
from tests.admission.test_changes import signed_up
from tests.admission.test_workloads import SMALL, run_it, the_workload
from tests.builders import CLASS, TenantWorld, a_catalogue, a_host, a_tenant

pytestmark = pytest.mark.django_db
KINDS = {
    Action.LEASE: "lease",
    Action.JOB: "job",
    Action.MODEL: "model",
    Action.SIGNUP: "signup",
    Action.DELETION: "deletion",
    Action.QUOTA_INCREASE: "increase",
}
"""Of the other actions it is the kind of the workload: a service here."""


@dataclass
class Everything:
    """A tenant with a service on two hosts, and one act of every kind."""

    acme: TenantWorld = field(init=False)
    acts: dict[str, Callable[[], object]] = field(init=False)

    def __post_init__(self) -> None:
        a_catalogue()
        self.acme = acme = a_tenant("acme")
        for name in ("host-1", "host-2"):
            host = a_host(name)
        row = the_workload(run_it(acme))
        host.work()
        who = {"workload_id": row.pk, "actor": acme.actor}
        self.acts = {
            Action.LEASE: lambda: acme.order(slots=1),
            Action.JOB: lambda: run_it(acme, kind="job"),
            Action.SERVICE: lambda: run_it(acme),
            Action.MODEL: lambda: run_it(acme, kind="model", spec={"model": SMALL}),
            Action.SCALE: lambda: workload_scale(replicas=2, **who),  # type: ignore[arg-type]  # the same two
            Action.BATCH_SIZE: lambda: workload_batch_size(batch_size=4, **who),  # type: ignore[arg-type]  # the same two
            Action.SHARING: lambda: gpu_sharing(mode="node", **who),  # type: ignore[arg-type]  # the same two
            Action.PLACEMENT: lambda: workload_placement(**who),  # type: ignore[arg-type]  # the same two
            Action.PRIORITY: lambda: workload_priority(band=5, **who),  # type: ignore[arg-type]  # the same two
            Action.SIGNUP: signed_up,
            Action.DELETION: lambda: tenant_delete(
                tenant_id=acme.tenant.pk, reason="", actor=acme.actor
            ),
            Action.QUOTA_INCREASE: lambda: increase_ask(
                tenant_id=acme.tenant.pk,
                resource_class=CLASS,
                nominal_asked_milli=99_000,
                justification="more",
                actor=acme.actor,
            ),
        }

    def code_of(self, action: str) -> tuple[str, Decision | None]:
        """What the act is answered, with its decision; everything is undone."""
        with transaction.atomic():
            known = set(AdmissionRequest.objects.values_list("pk", flat=True))
            code = ""
            try:
                self.acts[action]()
            except ProductError as refused:
                code = refused.code
            new = Decision.objects.exclude(request__in=known).filter(request__action=action)
            decision = new.order_by("-created_at").first()
            transaction.set_rollback(True)
        return code, decision


def an_active_rule(expression: str, action: str) -> None:
    """Active without having been checked: as if it had been broken behind our back."""
    PolicyRule.objects.all().delete()
    PolicyRule.objects.create(
        name="rule",
        rule_version=1,
        expression=expression,
        actions=[action],
        message="No.",
        state="active",
    )
    rules.forget()


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """No rule of one test is known to another."""
    yield
    rules.forget()


def test_there_is_an_act_for_every_kind_and_each_leaves_one_decision_of_the_same_form() -> None:
    world = Everything()
    assert set(world.acts) == set(Action.values)
    sample = {name: set(v) if isinstance(v, dict) else None for name, v in policy.SAMPLE.items()}
    for action in Action.values:
        code, decision = world.code_of(action)
        assert (action, code) == (action, "")
        assert decision is not None, action
        seen = decision.facts
        assert {n: set(v) if isinstance(v, dict) else None for n, v in seen.items()} == sample
        assert (seen["action"], seen["request"]["kind"]) == (
            action,
            KINDS.get(Action(action), "service"),
        )
        assert len(decision.digest) == 64


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("true", "policy_forbids"),
        ("request.gone > 1", "policy_broken"),
        ("request.slots >", "policy_broken"),
        ("tennant.slug == 'acme'", "policy_broken"),
        ("request.slots + 1", "policy_broken"),
    ],
    ids=["forbids", "a missing field", "a syntax error", "a typo", "no truth value"],
)
def test_a_rule_about_one_kind_closes_that_kind_and_no_other(expression: str, code: str) -> None:
    world = Everything()
    before = list(QuotaCounter.objects.values_list("used_milli", flat=True))
    actions = Action.values
    for k, action in enumerate(actions):
        an_active_rule(expression, action)
        refused, decision = world.code_of(action)
        assert (action, refused) == (action, code)
        assert decision is not None
        assert (decision.verdict, decision.gates[-1]["facts"]["rule"]) == ("deny", "rule")
        other = actions[(k + 1) % len(actions)]
        assert (other, world.code_of(other)[0]) == (other, "")
    assert list(QuotaCounter.objects.values_list("used_milli", flat=True)) == before
    assert Tenant.objects.count() == 1


def test_a_rule_beyond_its_time_closes_every_kind_it_is_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Everything()
    monkeypatch.setattr(policy, "BUDGET_S", -1.0)
    for action in Action.values:
        an_active_rule("false", action)
        code, decision = world.code_of(action)
        assert (action, code) == (action, "policy_broken")
        assert decision is not None
        assert "longer" in decision.gates[-1]["detail"]
