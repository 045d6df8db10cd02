"""How does a test get a world to act in?  Through the product's own services."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.db.models.functions import Now

from gpuaas.kernel import clock, workflow
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.models import WorkflowRun
from gpuaas.kernel.transitions import advance
from nodeagent.protocol import (
    CandidateSlot,
    DeviceMode,
    EvidenceStep,
    Gpu,
    LeaseRequest,
    NumaNode,
    ObservedDevices,
    ObservedReport,
    SlotEvidence,
    TopologyReport,
    TopologySource,
    UuidSource,
    evidence_signing_bytes,
)
from nodeagent.protocol.messages import CompleteRequest, FailRequest
from nodeagent.signing import public_text, sign
from placement.domain.order import AllocationOrder
from placement.models import (
    Allocation,
    Image,
    Node,
    NodeCredential,
    NodeFamily,
    NodeTask,
    Pool,
)
from placement.node_tasks import PART_CLEANUP_STEPS, REQUIRED_CLEANUP_STEPS, TaskKind
from placement.services import allocations, approvals, cuts, nodes, observed, slots, tasks
from placement.services.asking import Asked
from placement.states import TaskState
from tenants.models import Member, Project, ResourceClass, Role, SlaTier, Tenant, User
from tenants.services import catalogue, tenancy

OPERATOR = Actor(kind="user", id="operator", name="operator@example.test", operator=True)
BOOT = "boot-00000001"
HOST_KEY = Ed25519PrivateKey.generate()
CLASS = "h100-slot"


def a_catalogue(family: str = "h100x8", slots_count: int = 8) -> None:
    """A pool, a family, images, a tier, and one SKU of each shape, published."""
    Pool.objects.get_or_create(name="default")
    NodeFamily.objects.get_or_create(name=family, defaults={"title": family, "slots": slots_count})
    for name, shape in (
        ("ubuntu-24.04-cuda", "gpu_slice"),
        ("ubuntu-24.04-baremetal", "baremetal"),
    ):
        Image.objects.get_or_create(
            name=name, defaults={"title": name, "shapes": [shape], "reference": name}
        )
    SlaTier.objects.get_or_create(
        name="standard", defaults={"title": "Standard", "priority_band": 1, "preemptible": False}
    )
    for sku, shape, units, most in (
        ("h100.slice", "gpu_slice", 1000, slots_count),
        ("h100.node", "baremetal", 1000 * slots_count, 1),
    ):
        catalogue.sku_create(
            name=sku,
            title=sku,
            shape=shape,
            family=family,
            resource_class=CLASS,
            hour_micro=2_000_000,
            actor=OPERATOR,
            slots_max=most,
            units_milli=units,
        )
        catalogue.sku_publish(sku=sku, actor=OPERATOR)


@dataclass
class TenantWorld:
    """An active tenant with an owner, a project and an envelope."""

    tenant: Tenant
    owner: User
    project: Project
    actor: Actor

    def order(self, sku: str = "h100.slice", **wishes: object) -> allocations.Ticket:
        """Ask for capacity; a refusal raises."""
        return allocations.allocation_request(
            tenant_id=self.tenant.pk,
            project_id=self.project.pk,
            order=AllocationOrder(sku=sku, **wishes),  # type: ignore[arg-type]  # free wishes
            actor=self.actor,
        )


def a_tenant(slug: str = "acme", *, envelope_slots: int = 64, approve: bool = True) -> TenantWorld:
    """A tenant with an owner; approved and with an envelope unless told otherwise."""
    owner = User.objects.create_user(f"owner@{slug}.test", "correct horse battery")
    tenant = tenancy.tenant_create(name=slug, actor=OPERATOR, owner_email=owner.email)
    if approve:
        tenant = tenancy.tenant_approve(tenant_id=tenant.pk, reason="test", actor=OPERATOR)
    if ResourceClass.objects.filter(name=CLASS).exists():
        tenancy.envelope_set(
            tenant_id=tenant.pk,
            resource_class=CLASS,
            nominal_milli=envelope_slots * 1000,
            reason="test",
            actor=OPERATOR,
        )
    actor = Actor(
        kind="user", id=str(owner.pk), name=owner.email, tenant_id=tenant.pk, role=Role.OWNER
    )
    return TenantWorld(tenant, owner, Project.objects.get(tenant=tenant), actor)


def a_member(world: TenantWorld, role: str) -> User:
    """Another person in the tenant, with a role."""
    user = User.objects.create_user(f"{role}@{world.tenant.slug}.test", "correct horse battery")
    Member.objects.create(tenant=world.tenant, user=user, role=role)
    return user


def a_report(name: str, count: int = 8, *, per_numa: int = 4) -> TopologyReport:
    """A plain host: GPUs in NUMA nodes, each with an exclusive NIC."""
    numas = max(1, count // per_numa)
    return TopologyReport(
        schema=1,
        source=TopologySource(format="live"),
        hostname=name,
        numa=tuple(
            NumaNode(id=i, cpuset=f"{i * 32}-{i * 32 + 31}", memory_bytes=2**38)
            for i in range(numas)
        ),
        switches=(),
        gpus=tuple(
            Gpu(
                index=k,
                uuid=f"GPU-{name}-{k}",
                uuid_source=UuidSource.SIMULATED,
                pci=None,
                model="H100",
                memory_bytes=80 * 2**30,
                numa=k // per_numa,
                switch=None,
                nvlink_domain=None,
            )
            for k in range(count)
        ),
        nics=(),
        nvmes=(),
        nvswitches=(),
        nvlinks=(),
        findings=(),
        slots=tuple(
            CandidateSlot(
                index=k,
                gpu_uuid=f"GPU-{name}-{k}",
                gpu_index=k,
                numa=k // per_numa,
                switch=None,
                cpuset=None,
                memory_bytes=2**35,
                nic=None,
                nic_mode=DeviceMode.NONE,
                nvme=None,
                nvme_mode=DeviceMode.NONE,
                nvlink_domain=None,
            )
            for k in range(count)
        ),
    )


@dataclass
class Host:
    """A host as the control plane knows it, played by the test over the services."""

    node: Node
    seq: int = 0
    boot: str = BOOT
    faults: dict[str, object] = field(default_factory=dict)
    parts: tuple[str, ...] = ()

    def fresh(self) -> Node:
        """The node's row now."""
        return Node.objects.get(pk=self.node.pk)

    def report(
        self,
        *codes: str,
        residue: dict[int, str] | None = None,
        clean: tuple[int, ...] = (),
        dirty: tuple[int, ...] = (),
    ) -> None:
        """Send an observation with these conditions; what it does not name, it says nothing of.

        ``residue``: slots with traces, and the allocation that left them; ``clean`` and
        ``dirty``: slots whose GPU it calls so.
        """
        self.seq += 1
        conditions = [{"code": c, "detail": c, "device": None} for c in codes]
        conditions += [
            {
                "code": "residue_found",
                "detail": f"data of {left_by or 'somebody'}",
                "device": f"GPU-{self.node.name}-{index}",
                "claim_ref": left_by or None,
            }
            for index, left_by in (residue or {}).items()
        ]
        gpus = [
            {"id": f"GPU-{self.node.name}-{k}", "presence": "present", "holder": None, "clean": ok}
            for ok, indices in ((True, clean), (False, dirty))
            for k in indices
        ]
        vms: list[object] = []
        message = ObservedReport.from_json(
            {
                "boot_id": self.boot,
                "seq": self.seq,
                "at": 0,
                "vms": vms,
                "devices": {**ObservedDevices().to_json(), "gpus": gpus},
                "conditions": conditions,
                "parts": list(self.parts),
            },
            "",
        )
        observed.node_observed(node=self.fresh(), message=message)

    def lease(self, most: int = 8) -> list[NodeTask]:
        """Lease what is due."""
        answer = tasks.tasks_lease(
            node=self.fresh(),
            message=LeaseRequest(boot_id=self.boot, max=most, capabilities=()),
            asked=Asked(clock.db_now(), True),
        )
        return [NodeTask.objects.get(pk=t.envelope["task_id"]) for t in answer.tasks]

    def complete(self, task: NodeTask, *, skip: tuple[str, ...] = ()) -> None:
        """Hand in a good result; ``skip`` leaves cleanup steps out."""
        result: dict[str, object]
        evidence: tuple[SlotEvidence, ...] = ()
        kind = TaskKind(task.kind)
        if kind.value.endswith("provision"):
            result = {
                "allocation_id": task.params["allocation_id"],
                "address": {"host": "127.0.0.1", "port": 2222, "user": "ubuntu"},
                "boot_id": self.boot,
                "vm": {"name": "vm", "state": "running", "image": task.params["image"]},
            }
        else:
            result = {
                "allocation_id": task.params["allocation_id"],
                "attempt": task.params["attempt"],
            }
            part = task.params.get("slots") or task.params.get("devices") or []
            evidence = tuple(
                SlotEvidence(
                    slot_index=slot["slot_index"],
                    steps=tuple(
                        EvidenceStep(step=s.value, ok=True, method="test", detail="", at=0)
                        for s in (
                            *REQUIRED_CLEANUP_STEPS[kind],
                            *(PART_CLEANUP_STEPS if slot.get("part") else ()),
                        )
                        if s.value not in skip
                    ),
                )
                for slot in part
            )
        tasks.task_complete(
            node=self.fresh(),
            task_id=task.pk,
            message=CompleteRequest(
                lease_epoch=task.lease_epoch,
                boot_id=self.boot,
                result=result,
                evidence=evidence,
                evidence_signature=self.signature(task, evidence),
            ),
        )

    def signature(self, task: NodeTask, evidence: tuple[SlotEvidence, ...]) -> str:
        """The host's word for its evidence, by the key of its credential."""
        NodeCredential.objects.get_or_create(
            node_id=self.node.pk,
            public_key=public_text(HOST_KEY),
            defaults={"expires_at": clock.db_now() + timedelta(days=1)},
        )
        signed = evidence_signing_bytes(
            node_id=str(self.node.pk),
            task_id=str(task.pk),
            lease_epoch=task.lease_epoch,
            boot_id=self.boot,
            evidence=evidence,
        )
        return sign(HOST_KEY, signed)

    def fail(
        self,
        task: NodeTask,
        *,
        retryable: bool = False,
        code: str = "backend_error",
        detail: str = "it broke",
    ) -> None:
        """Hand in a failure, in the host's words."""
        tasks.task_fail(
            node=self.fresh(),
            task_id=task.pk,
            message=FailRequest(
                lease_epoch=task.lease_epoch,
                boot_id=self.boot,
                code=code,
                detail=detail,
                retryable=retryable,
            ),
        )

    def work(self, **how: object) -> int:
        """Do everything that is due, and let the runs go on. Returns how many tasks."""
        count = 0
        while leased := self.lease():
            for task in leased:
                self.complete(task, **how)  # type: ignore[arg-type]  # passed through
                count += 1
            drive_all()
        drive_all()
        return count


def a_host(
    name: str = "host-1",
    *,
    slots_count: int = 8,
    family: str = "h100x8",
    intended: str = "any",
    parts: tuple[str, ...] = (),
) -> Host:
    """A host that joined, was discovered, approved, and reported that it is well."""
    node = nodes.node_create(name=name, actor=OPERATOR, intended=intended)
    Node.objects.filter(pk=node.pk).update(boot_id=BOOT)
    for edge in ("inspect", "verify"):
        node = advance(node, edge, actor=OPERATOR)
    slots.slots_take(node, a_report(name, slots_count), actor=OPERATOR)
    node = approvals.node_approve(node_id=node.pk, actor=OPERATOR, reason="test", family=family)
    host = Host(node, parts=parts)
    host.report()
    host.node = host.fresh()
    return host


BOTH_KINDS = ("mig", "share")


def a_parts_catalogue(*, isolation: str = "shared") -> None:
    """SKUs that are parts of a GPU, for tenants whose tier promises no more than ``isolation``."""
    SlaTier.objects.filter(name="standard").update(isolation=isolation)
    for sku, units, part in (
        ("h100.1g", 125, {"shape": "mig", "part_profile": "1g.10gb"}),
        ("h100.3g", 500, {"shape": "mig", "part_profile": "3g.40gb"}),
        ("h100.4g", 500, {"shape": "mig", "part_profile": "4g.40gb"}),
        ("h100.media", 125, {"shape": "mig", "part_profile": "1g.10gb+me"}),
        ("h100.third", 300, {"shape": "gpu_share", "part_milli": 300, "part_memory_mib": 20_000}),
        ("h100.tenth", 100, {"shape": "gpu_share", "part_milli": 100, "part_memory_mib": 30_000}),
    ):
        catalogue.sku_create(
            name=sku,
            title=sku,
            family="h100x8",
            resource_class=CLASS,
            hour_micro=300_000,
            actor=OPERATOR,
            units_milli=units,
            **part,
        )
        catalogue.sku_publish(sku=sku, actor=OPERATOR)


def cut_slots(host: Host, cut: str, *indices: int) -> None:
    """An operator's decision about some slots of a host."""
    for index in indices:
        cuts.slot_cut(
            node_id=host.node.pk, slot_index=index, cut=cut, reason="test", actor=OPERATOR
        )


def drive_all() -> None:
    """Let every run that is not ended look again, now."""
    open_runs = WorkflowRun.objects.filter(ended_at__isnull=True)
    for run_id in list(open_runs.values_list("pk", flat=True)):
        WorkflowRun.objects.filter(pk=run_id).update(due_at=Now())
        workflow.drive(run_id)


def state_of(allocation_id: UUID) -> str:
    """The allocation's state now."""
    return str(Allocation.objects.get(pk=allocation_id).state)


def pending_tasks() -> int:
    """How many node tasks wait or are leased."""
    return NodeTask.objects.filter(state__in=[TaskState.PENDING, TaskState.LEASED]).count()
