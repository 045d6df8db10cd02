"""Which world does the security sweep walk through: who calls, and with what?"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gpuaas.api.routes import Route
from gpuaas.kernel import clock, ids
from nodeagent.protocol import request_signing_bytes
from placement.models import Allocation, Node, NodeCredential, NodeTask
from placement.services import nodes
from tenants.models import ApiToken, Project, SshKey
from tests.api.client import Caller, caller_of, operator_caller, order_body, token_of
from tests.builders import BOOT, OPERATOR, a_catalogue, a_host, a_member, a_tenant

CANARY = "canary-7f3a"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBn1Jd4YbS0nO0cC3m3h1wq0v6C4tqk1i0pC7a5hZ2qX a@b"
PROJECT = f"{CANARY}-project"

COLUMNS = (
    "no-token",
    "expired",
    "other-tenant",
    "viewer",
    "member",
    "owner",
    "operator",
    "other-node",
)


class NodeCaller(Caller):
    """A host that signs every message with its own key."""

    def __init__(self, node: Node) -> None:
        super().__init__()
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
        sequence = ids.new_id().int >> 66
        timestamp = int(clock.now().timestamp())
        signed = request_signing_bytes(method, path, sequence, timestamp, raw)
        headers |= {
            "HTTP_GPUAAS_CREDENTIAL": str(self.credential.pk),
            "HTTP_GPUAAS_SEQUENCE": str(sequence),
            "HTTP_GPUAAS_TIMESTAMP": str(timestamp),
            "HTTP_GPUAAS_SIGNATURE": base64.b64encode(self.key.sign(signed)).decode(),
        }
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
            for kind in ("uuid", "name", "slug"):
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
    waiting = owner.post(
        f"/projects/{PROJECT}/allocations", order_body(slots=8, name=f"{CANARY}-wait", wait=True)
    )
    (request,) = owner.get("/admission-requests?state=queued").json()["items"]
    assert waiting.status_code == 202
    expired = token_of(a.owner, a)
    ApiToken.objects.filter(key=expired.split("_")[2]).update(
        expires_at=clock.now() - timedelta(seconds=1)
    )
    owners_token = ApiToken.objects.filter(user=a.owner).earliest("created_at")
    own = NodeCaller(host.fresh())
    return World(
        callers={
            "no-token": Caller(),
            "expired": Caller(expired),
            "other-tenant": caller_of(b),
            "viewer": caller_of(a, a_member(a, "viewer")),
            "member": caller_of(a, a_member(a, "member")),
            "owner": owner,
            "operator": operator_caller(),
            "other-node": NodeCaller(Node.objects.get(pk=other.pk)),
        },
        objects={
            "project": str(project.pk),
            "key_id": str(key.pk),
            "token_id": str(owners_token.pk),
            "allocation_id": str(allocation.pk),
            "request_id": request["id"],
            "operation_id": operation,
            "sku": "h100.slice",
            "node": "host-1",
            "tenant": a.tenant.slug,
            "resource_class": "h100-slot",
            "kind": "not-found",
            "task_id": str(NodeTask.objects.get(state="succeeded").pk),
        },
        own_node=own,
    )


def missing_of(route: Route) -> dict[str, str]:
    """Values that name nothing, for the parts of an address that can belong to a tenant."""
    absent = str(UUID(int=7))
    return {
        part: absent
        for part in (
            "project",
            "key_id",
            "token_id",
            "allocation_id",
            "request_id",
            "operation_id",
            "task_id",
        )
        if f":{part}>" in route.pattern
    }


_REASON = {"reason": "a test"}
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
    "sku-list": {
        "name": "new",
        "title": "new",
        "shape": "gpu_slice",
        "family": "h100x8",
        "resource_class": "h100-slot",
        "hour_micro": 1,
    },
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
    "admission-request-withdraw": {},
    "node-list": {"name": "new"},
    "node-join-token": {},
    "node-discover": {},
    "tenant-list": {"name": "new"},
    "tenant-envelope": {"nominal_milli": 64000},
    "agent-join": {
        "token": "gpuaas_join_wrong",
        "public_key": "A" * 43 + "=",
        "boot_id": BOOT,
        "hostname": "h",
        "agent_version": "1",
        "facts": {},
    },
    "agent-credential-renew": {"public_key": "A" * 43 + "="},
    "agent-task-lease": {"boot_id": BOOT, "max": 4, "capabilities": []},
    "agent-task-heartbeat": {"lease_epoch": 1, "step": "x", "percent": 1},
    "agent-task-complete": {**_LEASE, "result": {}},
    "agent-task-fail": {**_LEASE, "code": "x", "detail": "", "retryable": False},
    "agent-observed": {
        "boot_id": BOOT,
        "seq": 9,
        "at": 0,
        "vms": [],
        "devices": {},
        "conditions": [],
    },
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
