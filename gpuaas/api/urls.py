"""Which addresses does the api answer?  The names are the keys of the permission table."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, register_converter

from gpuaas.api.agent import views as agent
from gpuaas.api.views import (
    access,
    allocations,
    catalogue,
    cleanup,
    docs,
    events,
    health,
    metrics,
    nodes,
    operations,
    projects,
    requests,
    sign_in,
    stream,
    tenants,
)


class NameConverter:
    """A name or id in a path: nothing in it that a database or a log could trip over."""

    regex = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"

    def to_python(self, value: str) -> str:
        """As it is."""
        return value

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


register_converter(NameConverter, "name")

ACCESS: list[URLPattern | URLResolver] = [
    path("signup", sign_in.Signup.as_view(), name="signup"),
    path("auth/token", sign_in.AuthToken.as_view(), name="auth-token"),
    path("me", sign_in.Me.as_view(), name="me"),
    path("tokens", access.Tokens.as_view(), name="token-list"),
    path("tokens/<uuid:token_id>", access.TokenDetail.as_view(), name="token-detail"),
    path("projects", projects.Projects.as_view(), name="project-list"),
    path("projects/<name:project>", projects.ProjectDetail.as_view(), name="project-detail"),
    path("ssh-keys", access.SshKeys.as_view(), name="ssh-key-list"),
    path("ssh-keys/<uuid:key_id>", access.SshKeyDetail.as_view(), name="ssh-key-detail"),
    path("envelopes", projects.Envelopes.as_view(), name="envelope-list"),
]

CATALOGUE: list[URLPattern | URLResolver] = [
    path("skus", catalogue.Skus.as_view(), name="sku-list"),
    path("skus/<name:sku>", catalogue.SkuDetail.as_view(), name="sku-detail"),
    path("skus/<name:sku>/actions/publish", catalogue.SkuPublish.as_view(), name="sku-publish"),
    path("skus/<name:sku>/actions/retire", catalogue.SkuRetire.as_view(), name="sku-retire"),
    path("skus/<name:sku>/price", catalogue.SkuPriceNow.as_view(), name="sku-price"),
    path("offers", catalogue.Offers.as_view(), name="offer-list"),
    path("images", catalogue.Images.as_view(), name="image-list"),
    path("reasons", catalogue.Reasons.as_view(), name="reason-list"),
]

_ONE = "allocations/<uuid:allocation_id>"
_ASKED = "admission-requests/<uuid:request_id>"
LEASES: list[URLPattern | URLResolver] = [
    path(
        "projects/<name:project>/allocations",
        allocations.ProjectAllocations.as_view(),
        name="project-allocation-list",
    ),
    path(
        "projects/<name:project>/allocations/plan",
        allocations.AllocationPlan.as_view(),
        name="allocation-plan",
    ),
    path("allocations", allocations.Allocations.as_view(), name="allocation-list"),
    path(_ONE, allocations.AllocationDetail.as_view(), name="allocation-detail"),
    path(
        f"{_ONE}/actions/release",
        allocations.AllocationRelease.as_view(),
        name="allocation-release",
    ),
    path(f"{_ONE}/timeline", allocations.AllocationTimeline.as_view(), name="allocation-timeline"),
    path(f"{_ONE}/explain", allocations.AllocationExplain.as_view(), name="allocation-explain"),
    path(
        f"{_ONE}/actions/retry-cleanup",
        cleanup.AllocationRetryCleanup.as_view(),
        name="allocation-retry-cleanup",
    ),
    path(
        f"{_ONE}/actions/override",
        cleanup.AllocationOverride.as_view(),
        name="allocation-override",
    ),
    path(
        f"{_ONE}/actions/approve-override",
        cleanup.AllocationOverrideApprove.as_view(),
        name="allocation-override-approve",
    ),
    path("admission-requests", requests.AdmissionRequests.as_view(), name="admission-request-list"),
    path(_ASKED, requests.AdmissionRequestDetail.as_view(), name="admission-request-detail"),
    path(
        f"{_ASKED}/explain",
        requests.AdmissionRequestExplain.as_view(),
        name="admission-request-explain",
    ),
    path(
        f"{_ASKED}/actions/withdraw",
        requests.AdmissionRequestWithdraw.as_view(),
        name="admission-request-withdraw",
    ),
    path("operations", operations.Operations.as_view(), name="operation-list"),
    path(
        "operations/<uuid:operation_id>",
        operations.OperationDetail.as_view(),
        name="operation-detail",
    ),
    path("events", events.Events.as_view(), name="event-list"),
    path("stream", stream.Stream.as_view(), name="stream"),
]

_NODE = "nodes/<name:node>"
FLEET: list[URLPattern | URLResolver] = [
    path("nodes", nodes.Nodes.as_view(), name="node-list"),
    path(_NODE, nodes.NodeDetail.as_view(), name="node-detail"),
    path(f"{_NODE}/topology", nodes.NodeTopology.as_view(), name="node-topology"),
    path(f"{_NODE}/tasks", nodes.NodeTasks.as_view(), name="node-task-list"),
    path(f"{_NODE}/slots", nodes.NodeSlots.as_view(), name="node-slot-list"),
    path(f"{_NODE}/join-tokens", nodes.NodeJoinToken.as_view(), name="node-join-token"),
    path(f"{_NODE}/actions/discover", nodes.NodeDiscover.as_view(), name="node-discover"),
    path(f"{_NODE}/actions/approve", nodes.NodeApprove.as_view(), name="node-approve"),
    path(f"{_NODE}/actions/drain", nodes.NodeDrainOrder.as_view(), name="node-drain"),
    path(f"{_NODE}/actions/undrain", nodes.NodeUndrain.as_view(), name="node-undrain"),
    path(f"{_NODE}/actions/maintain", nodes.NodeMaintain.as_view(), name="node-maintain"),
    path(f"{_NODE}/actions/quarantine", nodes.NodeQuarantine.as_view(), name="node-quarantine"),
    path(f"{_NODE}/actions/restore", nodes.NodeRestore.as_view(), name="node-restore"),
    path(f"{_NODE}/actions/retire", nodes.NodeRetire.as_view(), name="node-retire"),
    path(f"{_NODE}/actions/revoke-credentials", nodes.NodeRevoke.as_view(), name="node-revoke"),
]

_TENANT = "tenants/<name:tenant>"
TENANTS: list[URLPattern | URLResolver] = [
    path("tenants", tenants.Tenants.as_view(), name="tenant-list"),
    path(_TENANT, tenants.TenantDetail.as_view(), name="tenant-detail"),
    path(f"{_TENANT}/actions/approve", tenants.TenantApprove.as_view(), name="tenant-approve"),
    path(f"{_TENANT}/actions/reject", tenants.TenantReject.as_view(), name="tenant-reject"),
    path(f"{_TENANT}/actions/suspend", tenants.TenantSuspend.as_view(), name="tenant-suspend"),
    path(f"{_TENANT}/actions/resume", tenants.TenantResume.as_view(), name="tenant-resume"),
    path(
        f"{_TENANT}/envelopes/<name:resource_class>",
        tenants.TenantEnvelope.as_view(),
        name="tenant-envelope",
    ),
]

_TASK = "tasks/<uuid:task_id>"
AGENT: list[URLPattern | URLResolver] = [
    path("join", agent.Join.as_view(), name="agent-join"),
    path("credential:renew", agent.CredentialRenew.as_view(), name="agent-credential-renew"),
    path("tasks:lease", agent.TaskLease.as_view(), name="agent-task-lease"),
    path(f"{_TASK}/heartbeat", agent.TaskHeartbeat.as_view(), name="agent-task-heartbeat"),
    path(f"{_TASK}/complete", agent.TaskComplete.as_view(), name="agent-task-complete"),
    path(f"{_TASK}/fail", agent.TaskFail.as_view(), name="agent-task-fail"),
    path("nodes/self/observed", agent.Observed.as_view(), name="agent-observed"),
]

app_name = "api"
urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include([*ACCESS, *CATALOGUE, *LEASES, *FLEET, *TENANTS])),
    path("api/schema", docs.Schema.as_view(), name="schema"),
    path("api/docs/", docs.Docs.as_view(), name="docs"),
    path("agent/v1/", include(AGENT)),
    path("problems/<slug:kind>", docs.problem_page, name="problem"),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.Metrics.as_view(), name="metrics"),
]
