"""Is a signup, a deletion or a wish for more decided and recorded like any other action?"""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from admission.domain.changes import Change, Word, decide_change
from admission.domain.decide import GATES
from admission.errors import ApprovalRefused, PolicyForbids, WithdrawnAlready
from admission.models import AdmissionRequest, Decision
from admission.services import tenancies
from admission.services.changes import requests_about
from admission.services.tenancies import (
    tenant_approve,
    tenant_delete,
    tenant_reject,
    tenant_signup,
)
from admission.services.wishes import (
    increase_approve,
    increase_ask,
    increase_refuse,
    increase_withdraw,
)
from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import (
    InvalidRequest,
    PermissionDenied,
    ProductError,
    TransitionRefused,
)
from gpuaas.kernel.models import Event
from gpuaas.kernel.scope import tenant_scope
from placement.selectors import request_explain
from placement.services.allocations import request_withdraw
from tenants.errors import IncreaseOpenAlready, NameTaken, TenantNotActive
from tenants.models import Envelope, QuotaIncrease, Role, Tenant, User
from tests.admission.test_policy_rules import a_rule, switched_on
from tests.builders import CLASS, OPERATOR, TenantWorld, a_catalogue, a_member, a_tenant

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parents[2]
STRANGER = Actor(kind="user", id="anonymous", name="anonymous")


def signed_up(name: str = "Acme", email: str = "ann@acme.test") -> Tenant:
    """A new account with a tenant that waits."""
    return tenant_signup(
        email=email,
        password="a long pass phrase",
        full_name="Ann",
        tenant_name=name,
        actor=STRANGER,
    )


def wished(world: TenantWorld, asked: int = 99_000, **more: Any) -> QuotaIncrease:
    """A wish of the owner's, in the tenant's own scope."""
    wish = {"resource_class": CLASS, "justification": "a larger model", **more}
    with tenant_scope(world.tenant.pk):
        return increase_ask(
            tenant_id=world.tenant.pk,
            nominal_asked_milli=asked,
            actor=wish.pop("actor", world.actor),
            **wish,
        )


def asked_about(subject: Tenant | QuotaIncrease) -> AdmissionRequest:
    """The last request about it."""
    return requests_about(subject.pk)[0]


def verdicts(request: AdmissionRequest) -> list[tuple[str, str]]:
    """What was decided on it, in order."""
    return list(request.decisions.order_by("created_at", "id").values_list("verdict", "code"))


def gates_of(decision: Decision) -> list[str]:
    """The gates that it passed or stopped at."""
    return [gate["gate"] for gate in decision.gates]


def test_a_signup_is_a_request_that_waits_for_approval_and_is_admitted_with_it() -> None:
    a_catalogue()
    tenant = signed_up()
    request = asked_about(tenant)
    assert (request.action, request.state, request.code) == (
        "tenant.signup",
        "queued",
        "waiting_for_approval",
    )
    assert request.tenant == tenant
    assert request.spec == {"name": "Acme", "email": "ann@acme.test"}
    first = request.decisions.get()
    assert gates_of(first) == [*GATES, "approval"]
    assert (first.tenant, first.facts["request"]["kind"]) == (tenant, "signup")
    assert len(first.digest) == 64
    told = request_explain(request.pk)
    assert told["outcome_class"] == "waiting_for_authority"
    assert told["unblock"]
    tenant_approve(tenant_id=tenant.pk, reason="known", actor=OPERATOR)
    request.refresh_from_db()
    tenant.refresh_from_db()
    assert (tenant.state, request.state, request.code) == ("active", "admitted", "")
    assert verdicts(request) == [("wait", "waiting_for_approval"), ("admit", "")]
    last = request.decisions.latest("created_at")
    assert last.gates[-1]["facts"] == {"by": OPERATOR.name, "reason": "known"}
    assert last.digest != first.digest


def test_a_signup_that_is_rejected_or_taken_back_says_so_on_its_request() -> None:
    a_catalogue()
    rejected, regretted = signed_up(), signed_up("Globex", "gus@globex.test")
    tenant_reject(tenant_id=rejected.pk, reason="no such company", actor=OPERATOR)
    request = asked_about(rejected)
    assert (request.state, request.code) == ("denied", "approval_refused")
    assert "no such company" in request.detail
    assert verdicts(request)[-1] == ("deny", "approval_refused")
    assert request_explain(request.pk)["outcome_class"] == "denied"

    owner = User.objects.get(email="gus@globex.test")
    mine = Actor(
        kind="user", id=str(owner.pk), name=owner.email, tenant_id=regretted.pk, role=Role.OWNER
    )
    request = asked_about(regretted)
    viewer = Actor(kind="user", id="v", name="v", tenant_id=regretted.pk, role=Role.VIEWER)
    with tenant_scope(regretted.pk):
        with pytest.raises(PermissionDenied):
            request_withdraw(request_id=request.pk, actor=viewer)
        assert request_withdraw(request_id=request.pk, actor=mine).state == "withdrawn"
        assert request_withdraw(request_id=request.pk, actor=mine).state == "withdrawn"
    regretted.refresh_from_db()
    assert regretted.state == "rejected"
    with pytest.raises(TransitionRefused):
        tenant_approve(tenant_id=regretted.pk, reason="late", actor=OPERATOR)


def test_a_rule_refuses_a_signup_before_there_is_an_account_or_a_tenant() -> None:
    a_catalogue()
    switched_on(
        a_rule(
            "request.kind == 'signup' && request.email_domain.endsWith('mail.test')",
            name="no-free-mail",
            message="Sign up with your company's address.",
            tests=[
                {
                    "name": "free mail",
                    "facts": {"request": {"kind": "signup", "email_domain": "mail.test"}},
                    "forbids": True,
                },
                {"name": "a lease", "facts": {}, "forbids": False},
            ],
        )
    )
    with pytest.raises(PolicyForbids) as refused:
        signed_up(email="ann@Mail.test")
    assert (Tenant.objects.count(), User.objects.count()) == (0, 0)
    request = AdmissionRequest.objects.get()
    assert (request.state, request.code, request.tenant) == ("denied", "policy_forbids", None)
    assert refused.value.facts["decision"] == str(request.decisions.get().pk)
    assert refused.value.facts["rule"] == "no-free-mail"
    assert "password" not in str(request.spec)
    signed_up()
    acme = Tenant.objects.get()
    with tenant_scope(acme.pk):
        assert list(AdmissionRequest.objects.values_list("state", flat=True)) == ["queued"]
        assert Decision.objects.count() == 1


def no_signups() -> None:
    """A rule that lets nobody in."""
    switched_on(
        a_rule(
            "request.kind == 'signup'",
            name="closed",
            message="No new customers.",
            tests=[
                {"name": "any", "facts": {"request": {"kind": "signup"}}, "forbids": True},
                {"name": "a lease", "facts": {}, "forbids": False},
            ],
        )
    )


def test_strangers_fill_no_tables_with_signups_that_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_catalogue()
    no_signups()
    monkeypatch.setattr(tenancies, "MOST_REFUSED_AN_HOUR", 2)
    facts = []
    for n in range(4):
        with pytest.raises(PolicyForbids) as refused:
            signed_up(f"n{n}", f"n{n}@acme.test")
        facts.append("request" in refused.value.facts)
    assert facts == [True, True, False, False]
    assert (AdmissionRequest.objects.count(), Decision.objects.count()) == (2, 2)
    assert Event.objects.filter(facts__rule="closed").count() == 2


def test_a_refused_signup_is_forgotten_after_its_time_and_its_event_is_not() -> None:
    a_catalogue()
    no_signups()
    with pytest.raises(PolicyForbids):
        signed_up()
    assert tenancies.refused_signups_sweep() == 0
    AdmissionRequest.objects.update(created_at=clock.db_now() - timedelta(days=31))
    events = Event.objects.count()
    assert tenancies.refused_signups_sweep() == 1
    assert (AdmissionRequest.objects.count(), Decision.objects.count()) == (0, 0)
    assert Event.objects.count() == events


def test_the_way_back_keeps_a_refused_signup_aside_and_the_way_forward_brings_it_back() -> None:
    a_catalogue()
    no_signups()
    with pytest.raises(PolicyForbids):
        signed_up()
    acme = a_tenant("acme")
    wish = wished(acme)
    before = set(AdmissionRequest.objects.values_list("pk", "state", "code"))
    decided = Decision.objects.count()
    assert len(before) == 2
    try:
        call_command("migrate", "placement", "0007", verbosity=0)
        call_command("migrate", "admission", "0005", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM admission_admissionrequest")
            assert cursor.fetchone() == (0,)
    finally:
        call_command("migrate", verbosity=0)
    assert set(AdmissionRequest.objects.values_list("pk", "state", "code")) == before
    assert Decision.objects.count() == decided
    increase_approve(increase_id=wish.pk, reason="fine", actor=OPERATOR)
    assert asked_about(wish).state == "admitted"


def test_a_rule_judges_what_is_granted_and_not_what_was_asked() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    wish = wished(acme, 90_000)
    switched_on(
        a_rule(
            "request.kind == 'increase' && request.asked_milli > 80000",
            name="not-so-much",
            message="At most eighty.",
            tests=[
                {
                    "name": "ninety",
                    "facts": {"request": {"kind": "increase", "asked_milli": 90000}},
                    "forbids": True,
                },
                {"name": "a lease", "facts": {}, "forbids": False},
            ],
        )
    )
    for amount in (None, 95_000):
        with pytest.raises(PolicyForbids):
            increase_approve(
                increase_id=wish.pk, reason="ok", nominal_granted_milli=amount, actor=OPERATOR
            )
    done = increase_approve(
        increase_id=wish.pk, reason="less", nominal_granted_milli=70_000, actor=OPERATOR
    )
    assert (done.state, done.nominal_granted_milli) == ("approved", 70_000)
    last = asked_about(wish).decisions.latest("created_at")
    assert last.facts["request"]["asked_milli"] == 70_000
    [quota] = [gate for gate in last.gates if gate["gate"] == "quota"]
    assert quota["facts"]["granted_milli"] == 70_000


def test_a_grant_that_grants_nothing_is_refused_by_its_field() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    wish = wished(acme, 90_000)
    for amount in (64_000, 1):
        with pytest.raises(InvalidRequest) as refused:
            increase_approve(
                increase_id=wish.pk, reason="less", nominal_granted_milli=amount, actor=OPERATOR
            )
        assert [e.pointer for e in refused.value.errors] == ["/nominal_granted_milli"]
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == 64_000


def test_a_rule_that_came_later_keeps_an_approval_waiting_with_its_name() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    wish = wished(acme)
    rule = switched_on(
        a_rule(
            "request.kind == 'increase' && request.asked_milli > 90000",
            name="no-giants",
            tests=[
                {
                    "name": "giant",
                    "facts": {"request": {"kind": "increase", "asked_milli": 90001}},
                    "forbids": True,
                }
            ],
        )
    )
    with pytest.raises(PolicyForbids):
        increase_approve(increase_id=wish.pk, reason="yes", actor=OPERATOR)
    request = asked_about(wish)
    wish.refresh_from_db()
    assert (wish.state, request.state, request.code) == ("asked", "queued", "policy_forbids")
    assert verdicts(request)[-1] == ("wait", "policy_forbids")
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == 64_000
    with pytest.raises(PolicyForbids):
        wished(a_tenant("globex"))
    rule.refresh_from_db()
    from_here = a_tenant("initech")
    assert wished(from_here, 80_000).state == "asked"


def test_a_wish_is_decided_granted_or_refused_on_its_request() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    first = wished(acme, 99_000)
    request = asked_about(first)
    assert (request.state, request.resource_class and request.resource_class.name) == (
        "queued",
        CLASS,
    )
    [quota] = [g for g in request.decisions.get().gates if g["gate"] == "quota"]
    assert (quota["facts"]["asked_milli"], quota["facts"]["before_milli"]) == (99_000, 64_000)
    with pytest.raises(IncreaseOpenAlready) as twice:
        wished(acme, 120_000)
    assert twice.value.facts["increase"] == str(first.pk)
    assert Decision.objects.filter(code="increase_open_already", verdict="deny").count() == 1
    increase_approve(
        increase_id=first.pk, reason="half", nominal_granted_milli=80_000, actor=OPERATOR
    )
    request.refresh_from_db()
    assert request.state == "admitted"
    last = request.decisions.latest("created_at")
    assert (last.verdict, last.envelope_version) == ("admit", 1)
    assert Envelope.objects.get(tenant=acme.tenant).nominal_milli == 80_000

    second = wished(acme, 99_000)
    increase_refuse(increase_id=second.pk, reason="no room", actor=OPERATOR)
    request = asked_about(second)
    assert (request.state, request.code) == ("denied", "approval_refused")
    with pytest.raises(WithdrawnAlready):
        request_withdraw(request_id=request.pk, actor=acme.actor)
    third, fourth = wished(acme, 99_000), None
    increase_withdraw(increase_id=third.pk, actor=acme.actor)
    assert asked_about(third).state == "withdrawn"
    fourth = wished(acme, 99_000)
    request_withdraw(request_id=asked_about(fourth).pk, actor=acme.actor)
    fourth.refresh_from_db()
    assert fourth.state == "withdrawn"


def test_a_wish_that_is_no_wish_leaves_nothing() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    for wrong in (
        {"asked": 1},
        {"asked": -1},
        {"justification": "  "},
        {"resource_class": "none"},
    ):
        with pytest.raises(InvalidRequest):
            wished(acme, **wrong)
    assert (AdmissionRequest.objects.count(), QuotaIncrease.objects.count()) == (0, 0)


def test_who_may_not_ask_is_refused_and_written_down() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    viewer = a_member(acme, Role.VIEWER)
    actor = Actor(
        kind="user", id=str(viewer.pk), name="v", tenant_id=acme.tenant.pk, role=Role.VIEWER
    )
    with pytest.raises(PermissionDenied):
        wished(acme, actor=actor)
    with pytest.raises(PermissionDenied):
        tenant_delete(tenant_id=acme.tenant.pk, reason="", actor=actor)
    assert {r.action: (r.state, r.code) for r in AdmissionRequest.objects.all()} == {
        "quota.increase": ("denied", "permission_denied"),
        "tenant.delete": ("denied", "permission_denied"),
    }
    acme.tenant.refresh_from_db()
    assert acme.tenant.state == "active"


def test_a_deletion_is_admitted_at_once_and_takes_open_wishes_with_it() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    wish = wished(acme)
    tenant_delete(tenant_id=acme.tenant.pk, reason="closing", actor=acme.actor)
    request = asked_about(acme.tenant)
    assert (request.action, request.state) == ("tenant.delete", "admitted")
    assert gates_of(request.decisions.get()) == [*GATES, "approval"]
    about_wish = asked_about(wish)
    assert (about_wish.state, about_wish.code) == ("withdrawn", "tenant_deleting")
    with pytest.raises(TransitionRefused):
        tenant_delete(tenant_id=acme.tenant.pk, reason="again", actor=OPERATOR)
    with pytest.raises(TenantNotActive):
        wished(acme)


def test_a_rule_keeps_a_tenant_from_leaving() -> None:
    a_catalogue()
    acme = a_tenant("acme")
    switched_on(
        a_rule(
            "action == 'tenant.delete' && tenant.slug == 'acme'",
            name="litigation",
            actions=["tenant.delete"],
            tests=[{"name": "others", "facts": {"action": "tenant.delete"}, "forbids": True}],
        )
    )
    with pytest.raises(PolicyForbids):
        tenant_delete(tenant_id=acme.tenant.pk, reason="", actor=acme.actor)
    acme.tenant.refresh_from_db()
    assert acme.tenant.state == "active"


def test_an_address_that_is_taken_leaves_no_request() -> None:
    a_catalogue()
    signed_up()
    with pytest.raises(NameTaken):
        signed_up("Other")
    assert AdmissionRequest.objects.count() == 1


def test_a_tenant_that_an_operator_made_is_approved_without_a_request() -> None:
    a_catalogue()
    world = a_tenant("acme", approve=False)
    tenant_approve(tenant_id=world.tenant.pk, reason="known", actor=OPERATOR)
    assert AdmissionRequest.objects.count() == 0


@pytest.mark.parametrize("action", ["tenant.signup", "tenant.delete", "quota.increase"])
def test_the_same_facts_give_the_same_verdict_and_digest(action: str) -> None:
    state = {"tenant.signup": "", "tenant.delete": "active", "quota.increase": "active"}[action]
    change = Change(action=action, actor="ann", may=True, tenant_state=state)
    assert decide_change(change) == decide_change(change)
    assert change.digest() == Change(action, "ann", True, tenant_state=state).digest()
    refused = Change(action, "ann", True, tenant_state=state, word=Word(False, "op", "no"))
    assert refused.digest() != change.digest()


def test_every_refusal_of_a_change_is_a_declared_error() -> None:
    for action, state in (("tenant.delete", "pending"), ("quota.increase", "deleted")):
        gate = decide_change(Change(action, "ann", True, tenant_state=state)).refusal
        assert gate is not None
        assert gate.code in ("transition_refused", "tenant_not_active")
    assert issubclass(ApprovalRefused, ProductError)


PAST_THE_DECISION = {
    "tenants.services.tenancy": {"tenant_signup", "tenant_approve", "tenant_reject"},
    "tenants.services.deletion": {"tenant_delete"},
    "tenants.services.increases": {
        "increase_ask",
        "increase_approve",
        "increase_refuse",
        "increase_withdraw",
    },
}


def test_nobody_above_goes_round_the_decision() -> None:
    wrong = []
    for path in sorted((ROOT / "gpuaas").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = PAST_THE_DECISION.get(node.module or "", set())
                wrong += [f"{path.name}: {n.name}" for n in node.names if n.name in names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = f"tenants.services.{node.value.id}"
                if node.attr in PAST_THE_DECISION.get(module, set()):
                    wrong.append(f"{path.name}: {node.value.id}.{node.attr}")
    assert wrong == []


def test_a_tenant_that_waits_for_approval_is_not_deleted_but_taken_back() -> None:
    a_catalogue()
    tenant = signed_up()
    with pytest.raises(TransitionRefused) as refused:
        tenant_delete(tenant_id=tenant.pk, reason="", actor=OPERATOR)
    assert refused.value.facts["tenant_state"] == "pending"
    states = {r.action: r.state for r in requests_about(tenant.pk)}
    assert states == {"tenant.signup": "queued", "tenant.delete": "denied"}
