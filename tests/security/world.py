"""Which world does the security sweep walk through: who calls, and with what?"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from admission.services import policies
from gpuaas.api.routes import Route
from gpuaas.kernel import clock, ids
from nodeagent.protocol import AGENT_VERSION, request_signing_bytes
from placement.models import (
    Allocation,
    AutomaticAction,
    Drift,
    Node,
    NodeCredential,
    NodeTask,
    Notice,
)
from placement.services import maintenance, nodes, separations, stock
from tenants.models import ApiToken, Member, Project, SshKey, User
from tenants.services import (
    break_glass,
    bursts,
    cohorts,
    datasets,
    entitlements,
    envelopes,
    increases,
    invitations,
    service_accounts,
    storage,
    tiers,
)
from tests.api.client import Caller, caller_of, operator_caller, order_body, token_of
from tests.builders import BOOT, OPERATOR, a_catalogue, a_host, a_member, a_tenant
from tests.security.fleet import FLEET

CANARY = "canary-7f3a"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBn1Jd4YbS0nO0cC3m3h1wq0v6C4tqk1i0pC7a5hZ2qX a@b"
PROJECT = f"{CANARY}-project"

RULE: dict[str, Any] = {
    "name": "no-night-work",
    "actions": [],
    "expression": "time.hour < 6",
    "message": "Nothing starts at night.",
    "tests": [{"name": "at three", "facts": {"time": {"hour": 3}}, "forbids": True}],
}

JOB: dict[str, Any] = {
    "kind": "job",
    "name": f"{CANARY}-job",
    "sku": "h100.slice",
    "slots": 8,
}

COLUMNS = (
    "no-token",
    "expired",
    "other-tenant",
    "viewer",
    "member",
    "owner",
    "operator",
    "op:viewer",
    "op:operator",
    "op:approver",
    "other-node",
)


class NodeCaller(Caller):
    """A host that signs every message with its own key."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.sequences = count(1)
        self.key = Ed25519PrivateKey.generate()
        raw = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.credential = NodeCredential.objects.create(
            node=node,
            public_key=base64.b64encode(raw).decode(),
            expires_at=clock.now() + timedelta(hours=1),
        )

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One signed request, with whatever the address is."""
        raw = b"" if body is None else self.encoded(body)
        headers |= self.signed(method, path, raw)
        return self.send(method, path, raw, **headers)

    def signed(self, method: str, path: str, raw: bytes) -> dict[str, str]:
        """The headers of a message with the host's next number."""
        sequence = next(self.sequences)
        timestamp = int(clock.now().timestamp())
        signed = request_signing_bytes(method, path, sequence, timestamp, raw, AGENT_VERSION)
        return {
            "HTTP_AGENT_VERSION": AGENT_VERSION,
            "HTTP_GPUAAS_CREDENTIAL": str(self.credential.pk),
            "HTTP_GPUAAS_SEQUENCE": str(sequence),
            "HTTP_GPUAAS_TIMESTAMP": str(timestamp),
            "HTTP_GPUAAS_SIGNATURE": base64.b64encode(self.key.sign(signed)).decode(),
        }

    def send(self, method: str, path: str, raw: bytes, **headers: str) -> Any:
        """One request with these headers and no others."""
        return super().call(method, path, raw or None, **headers)


@dataclass
class World:
    """Everything that tenant A has, and everybody who might want it."""

    callers: dict[str, Caller]
    objects: dict[str, str]
    own_node: NodeCaller

    def path(self, route: Route, **other: str) -> str:
        """The address of tenant A's thing, or with other values for some parts."""
        path = route.pattern
        for part, value in (self.objects | other).items():
            for kind in ("uuid", "name", "slug", "str"):
                path = path.replace(f"<{kind}:{part}>", value)
        assert "<" not in path, f"{route.name}: no value for a part of {path}"
        return path


def a_world() -> World:
    """Tenant A with one of each thing, tenant B, an operator, and two hosts."""
    a_catalogue()
    a, b = a_tenant(CANARY), a_tenant("globex")
    project = Project.objects.create(tenant=a.tenant, name=PROJECT, slug=PROJECT)
    key = SshKey.objects.create(
        tenant=a.tenant,
        user=a.owner,
        name=f"{CANARY}-key",
        public_key="ssh-ed25519 AAAA",
        fingerprint=f"SHA256:{CANARY}",
    )
    host = a_host("host-1")
    other = nodes.node_create(name="host-2", actor=OPERATOR)
    Node.objects.filter(pk=other.pk).update(boot_id=BOOT)
    owner = caller_of(a)
    answer = owner.post(
        f"/projects/{PROJECT}/allocations", order_body(slots=8, name=f"{CANARY}-lease")
    )
    operation = answer.json()["id"]
    host.work()
    allocation = Allocation.objects.get()
    job = owner.post(f"/projects/{PROJECT}/workloads", {**JOB, "wait": True}).json()["workload"]
    waiting = owner.post(
        f"/projects/{PROJECT}/allocations", order_body(slots=8, name=f"{CANARY}-wait", wait=True)
    )
    request = owner.get("/admission-requests?state=queued").json()["items"][0]
    assert waiting.status_code == 202
    wish = increases.increase_ask(
        tenant_id=a.tenant.pk,
        resource_class="h100-slot",
        nominal_asked_milli=99_000,
        justification=f"{CANARY} grows",
        actor=a.actor,
    )
    storage.storage_declare(name="nvme-pool", kind="nvme", actor=OPERATOR)
    stock.image_create(name="old-image", shapes=["baremetal"], actor=OPERATOR)
    datasets.dataset_declare(
        tenant_id=a.tenant.pk, name=f"{CANARY}-data", zones=["z1"], actor=a.actor
    )
    entitlements.entitlement_grant(
        tenant_id=a.tenant.pk, sku="h100.slice", reason="a test", actor=OPERATOR
    )
    colleague = a_member(a, "billing")
    both = [a.tenant.pk, b.tenant.pk]
    separations.separation_set(name="rivals", tenants=both, reason="a test", actor=OPERATOR)
    tiers.tier_create(name="spare", title="Spare", terms={}, reason="a test", actor=OPERATOR)
    cohorts.cohort_create(name="pair", actor=OPERATOR)
    cohorts.tenant_cohort_set(tenant_id=a.tenant.pk, cohort="pair", reason="a test", actor=OPERATOR)
    cohorts.cohort_create(name="empty", actor=OPERATOR)
    now = clock.now()
    burst = bursts.burst_create(
        tenant_id=a.tenant.pk,
        resource_class="h100-slot",
        name="night",
        extra_milli=1000,
        opens_at=now + timedelta(hours=1),
        closes_at=now + timedelta(hours=2),
        actor=OPERATOR,
    )
    later = envelopes.envelope_schedule(
        tenant_id=a.tenant.pk,
        resource_class="h100-slot",
        nominal_milli=64_000,
        effective_from=now + timedelta(days=1),
        reason="a test",
        actor=OPERATOR,
    )
    rule = policies.policy_save(actor=OPERATOR, **RULE)
    expired = token_of(a.owner, a)
    ApiToken.objects.filter(key=expired.split("_")[2]).update(
        expires_at=clock.now() - timedelta(seconds=1)
    )
    account = service_accounts.service_account_create(
        tenant_id=a.tenant.pk, name=f"{CANARY}-ci", role="member", actor=a.actor
    )
    service_accounts.service_account_token(
        tenant_id=a.tenant.pk,
        account_id=account.pk,
        name="runner",
        scopes=[],
        expires_in_days=1,
        actor=a.actor,
    )
    invitation = invitations.invitation_create(
        tenant_id=a.tenant.pk,
        email=f"{CANARY}@example.test",
        role="member",
        link=lambda secret: secret,
        actor=a.actor,
    )
    watcher = User.objects.create_user(
        "watcher@platform.test", None, is_staff=True, operator_role="administrator"
    )
    window = break_glass.break_glass_open(
        tenant_id=a.tenant.pk, user=watcher, reason=f"{CANARY} why", minutes=5, actor=OPERATOR
    )
    owners_token = ApiToken.objects.filter(user=a.owner).earliest("created_at")
    (maintenance_window,) = maintenance.window_plan(
        selector=maintenance.Selector(nodes=("host-1",)),
        starts_at=clock.now() + timedelta(days=90),
        ends_at=clock.now() + timedelta(days=91),
        reason=f"{CANARY} why",
        actor=OPERATOR,
        announce=True,
    )
    notice = Notice.objects.filter(tenant=a.tenant).earliest("created_at")
    own = NodeCaller(host.fresh())
    here = host.fresh()
    differing = Drift.objects.create(
        node=here,
        kind="vm_unknown",
        subject="vm:x",
        severity="high",
        actor="operator",
        detail="x is nothing that was asked for here",
        state="open",
        last_seen_at=clock.db_now(),
    )
    waiting = AutomaticAction.objects.create(
        pool=here.pool, node=here, kind="quarantine", reason="device_health"
    )
    return World(
        callers={
            "no-token": Caller(),
            "expired": Caller(expired),
            "other-tenant": caller_of(b),
            "viewer": caller_of(a, a_member(a, "viewer")),
            "member": caller_of(a, a_member(a, "member")),
            "owner": owner,
            "operator": operator_caller(),
            **{
                f"op:{role}": operator_caller(f"op-{role}@platform.test", role=role)
                for role in ("viewer", "operator", "approver")
            },
            "other-node": NodeCaller(Node.objects.get(pk=other.pk)),
        },
        objects={
            "project": str(project.pk),
            "key_id": str(key.pk),
            "token_id": str(owners_token.pk),
            "account_id": str(account.pk),
            "invitation_id": str(invitation.pk),
            "window_id": str(window.pk),
            "operator_id": str(watcher.pk),
            "allocation_id": str(allocation.pk),
            "request_id": request["id"],
            "operation_id": operation,
            "sku": "h100.slice",
            "node": "host-1",
            "drift_id": str(differing.pk),
            "held_id": str(waiting.pk),
            "pool": "default",
            "family": "h100x8",
            "slot_id": str(host.fresh().slots.get(index=0).pk),
            "tenant": a.tenant.slug,
            "resource_class": "h100-slot",
            "kind": "not-found",
            "code": "not_found",
            "member_id": str(Member.objects.get(tenant=a.tenant, user=colleague).pk),
            "workload_id": job["id"],
            "increase_id": str(wish.pk),
            "storage_name": "nvme-pool",
            "image": "old-image",
            "noun": "sku",
            "about": "h100.slice",
            "separation": "rivals",
            "dataset": f"{CANARY}-data",
            "tier": "spare",
            "cohort": "empty",
            "burst_id": str(burst.pk),
            "version_id": str(later.pk),
            "policy_id": str(rule.pk),
            "maintenance_id": str(maintenance_window.pk),
            "notice_id": str(notice.pk),
            "task_id": str(NodeTask.objects.get(state="succeeded").pk),
        },
        own_node=own,
    )


def missing_of(route: Route) -> dict[str, str]:
    """Values that name nothing, for the parts of an address that can belong to a tenant."""
    return {
        part: str(UUID(int=7))
        for part in (
            "project",
            "key_id",
            "token_id",
            "account_id",
            "invitation_id",
            "allocation_id",
            "request_id",
            "operation_id",
            "task_id",
            "increase_id",
            "workload_id",
            "member_id",
            "dataset",
            "notice_id",
        )
        if f":{part}>" in route.pattern
    }


_REASON = {"reason": "a test"}
_LATER = {"opens_at": "2099-01-01T00:00:00Z", "closes_at": "2099-01-02T00:00:00Z"}
_CHANGES: dict[str, dict[str, Any]] = {
    "scale": {"replicas": 2, "wait": True},
    "batch-size": {"batch_size": 8},
    "sharing": {"mode": "none"},
    "placement": {"zones": ["z1"]},
    "priority": {"band": 200},
}
_LEASE = {"lease_epoch": 1, "boot_id": BOOT}
BODIES: dict[str, Callable[[], dict[str, Any]] | dict[str, Any]] = {
    "signup": {
        "email": "new@example.test",
        "password": "correct horse battery",
        "tenant_name": "new",
    },
    "auth-token": {"email": "nobody@example.test", "password": "wrong wrong wrong"},
    "token-list": {"name": "new"},
    "project-list": {"name": "new"},
    "ssh-key-list": {"public_key": KEY},
    "service-account-list": {"name": "new", "role": "viewer"},
    "service-account-token-list": {"name": "new"},
    "member-list": {"email": "watcher@platform.test", "role": "viewer"},
    "member-role": {"role": "viewer"},
    "invitation-list": {"email": "invited@example.test", "role": "viewer"},
    "invitation-revoke": {},
    "break-glass-list": {"tenant": CANARY, "reason": "to see the matrix", "minutes": 5},
    "break-glass-end": {},
    "operator-role": {**_REASON, "role": "approver"},
    "sku-list": {
        "name": "new",
        "title": "new",
        "shape": "gpu_slice",
        "family": "h100x8",
        "resource_class": "h100-slot",
        "hour_micro": 1,
    },
    "image-list": {"name": "new", "shapes": ["gpu_slice"]},
    "image-retire": _REASON,
    "pool-list": {"name": "new"},
    "family-list": {"name": "new", "slots": 8},
    "pool-title": {"title": "new"},
    "pool-retire": _REASON,
    "family-title": {"title": "new"},
    "family-retire": _REASON,
    "sku-title": {"title": "new"},
    "sku-publish": _REASON,
    "sku-retire": _REASON,
    "sku-price": {"hour_micro": 1},
    "project-allocation-list": order_body(wait=True),
    "allocation-plan": order_body(),
    "allocation-detail": {"name": "new"},
    "allocation-release": {},
    "allocation-retry-cleanup": _REASON,
    "allocation-override": _REASON,
    "allocation-override-approve": _REASON,
    "slot-override": _REASON,
    "slot-override-approve": _REASON,
    "admission-request-withdraw": {},
    "node-list": {"name": "new"},
    "node-join-token": {},
    "node-discover": {},
    "tenant-list": {"name": "new"},
    "tenant-envelope": {"nominal_milli": 64000},
    "tenant-envelope-preview": {"nominal_milli": 64000},
    "project-workload-list": {**JOB, "wait": True},
    "workload-plan": JOB,
    **{f"workload-{verb}": body for verb, body in _CHANGES.items()},
    **{f"workload-{verb}-plan": body for verb, body in _CHANGES.items()},
    "workload-stop": {},
    "project-quota": {"limit_milli": None, "reason": "a test"},
    "quota-increase-list": {
        "resource_class": "h100-slot",
        "nominal_asked_milli": 98_000,
        "justification": "more",
    },
    "quota-increase-withdraw": {},
    "dataset-list": {"name": "new", "zones": ["z1"]},
    "storage-list": {**_REASON, "name": "new", "kind": "nvme"},
    "dataset-version-list": {"zones": ["z1"]},
    "tenant-entitlement-list": {**_REASON, "sku": "h100.slice"},
    "tenant-catalogue": {**_REASON, "catalogue": "listed"},
    "tenant-envelope-schedule": {
        **_REASON,
        "nominal_milli": 64_000,
        "effective_from": "2099-01-01T00:00:00Z",
    },
    "tenant-caps": {**_REASON, "waiting": 4},
    "tenant-burst-list": {
        **_REASON,
        **_LATER,
        "resource_class": "h100-slot",
        "name": "day",
        "extra_milli": 1000,
    },
    "tenant-cohort": {**_REASON, "cohort": None},
    "tenant-suspension": {**_REASON, "suspension": "release"},
    "tenant-tier-preview": {"tier": "spare"},
    "tenant-tier": {**_REASON, "tier": "spare", "seen": "not looked at"},
    "cohort-list": {"name": "new"},
    "cohort-limits": {**_REASON, "borrow_milli": None, "lend_milli": 0},
    "tier-list": {**_REASON, "name": "new", "title": "New", "terms": {}},
    "tier-preview": {"terms": {"priority_band": 7}},
    "tier-change": {**_REASON, "terms": {"priority_band": 7}, "seen": "not looked at"},
    "policy-list": RULE,
    "policy-dry-run": {},
    "agent-join": {
        "token": "gpuaas_join_wrong",
        "public_key": "A" * 43 + "=",
        "boot_id": BOOT,
        "hostname": "h",
        "agent_version": AGENT_VERSION,
        "facts": {},
    },
    "agent-credential-renew": {"public_key": "A" * 43 + "="},
    "agent-task-lease": {"boot_id": BOOT, "max": 4, "capabilities": []},
    "agent-task-heartbeat": {"lease_epoch": 1, "step": "x", "percent": 1},
    "agent-task-complete": {**_LEASE, "result": {}},
    "agent-task-fail": {**_LEASE, "code": "x", "detail": "", "retryable": False},
    "defrag-policy": {**_REASON, "enabled": True},
    "defrag-plan": {"sku": "h100.slice"},
    "defrag-run": {**_REASON, "sku": "h100.slice", "seen": "not looked at"},
    "placement-terms-preview": {"alone": "wiring"},
    "placement-terms-detail": {**_REASON, "alone": "wiring", "seen": "not looked at"},
    "separation-detail": {**_REASON, "tenants": [CANARY, "globex"]},
    "scoring-list": {**_REASON, "gap": 1, "fragment": 1, "stranded": 1, "broken": 1},
    **FLEET,
}


def body_of(route: Route, method: str) -> dict[str, Any] | None:
    """A body that the address takes, or None where it takes none."""
    if method in {"GET", "DELETE"}:
        return None
    found = BODIES.get(route.name, _REASON)
    return found() if callable(found) else dict(found)


def asked(caller: Caller, method: str, path: str, body: dict[str, Any] | None) -> Any:
    """One request with what a creation and a change need."""
    headers = {"HTTP_IF_MATCH": "*"}
    if method == "POST":
        headers["HTTP_IDEMPOTENCY_KEY"] = str(ids.new_id())
    return caller.call(method, path, body, **headers)
