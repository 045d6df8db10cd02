"""Which addresses does the api answer?  The names are the keys of the permission table."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path, register_converter

from gpuaas.api.agent import views as agent
from gpuaas.api.views import (
    access,
    allocations,
    authority,
    catalogue,
    cleanup,
    datasets,
    defrag,
    docs,
    drift,
    entitlements,
    events,
    evidence,
    fragmentation,
    health,
    hosts,
    identity,
    levels,
    maintenance,
    members,
    metrics,
    nodes,
    notices,
    operations,
    operators,
    own,
    policies,
    projects,
    quota,
    requests,
    sign_in,
    storage,
    stream,
    tenants,
    terms,
    workloads,
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

_PROGRAM = "service-accounts/<uuid:account_id>"
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
    path("service-accounts", identity.ServiceAccounts.as_view(), name="service-account-list"),
    path(_PROGRAM, identity.ServiceAccountDetail.as_view(), name="service-account-detail"),
    path(
        f"{_PROGRAM}/actions/disable",
        identity.ServiceAccountDisable.as_view(),
        name="service-account-disable",
    ),
    path(
        f"{_PROGRAM}/tokens",
        identity.ServiceAccountTokens.as_view(),
        name="service-account-token-list",
    ),
    path(
        f"{_PROGRAM}/tokens/<uuid:token_id>",
        identity.ServiceAccountToken.as_view(),
        name="service-account-token-detail",
    ),
    path("members", members.Members.as_view(), name="member-list"),
    path("members/<uuid:member_id>", members.MemberDetail.as_view(), name="member-detail"),
    path("members/<uuid:member_id>/role", members.MemberRole.as_view(), name="member-role"),
    path("tenant", own.OwnTenant.as_view(), name="own-tenant"),
    path("tenant/deletion", own.OwnDeletion.as_view(), name="own-deletion"),
    path("invitations", identity.Invitations.as_view(), name="invitation-list"),
    path(
        "invitations/<uuid:invitation_id>/actions/revoke",
        identity.InvitationRevoke.as_view(),
        name="invitation-revoke",
    ),
    path("operators", operators.Operators.as_view(), name="operator-list"),
    path(
        "operators/<uuid:operator_id>/role",
        operators.OperatorRoles.as_view(),
        name="operator-role",
    ),
    path("break-glass", identity.BreakGlassWindows.as_view(), name="break-glass-list"),
    path(
        "break-glass/<uuid:window_id>/actions/end",
        identity.BreakGlassEnd.as_view(),
        name="break-glass-end",
    ),
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
    path("entitlements", entitlements.Entitlements.as_view(), name="entitlement-list"),
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
    path(
        f"{_ONE}/actions/refuse-override",
        cleanup.AllocationOverrideRefuse.as_view(),
        name="allocation-override-refuse",
    ),
    path(
        f"{_ONE}/actions/withdraw-override",
        cleanup.AllocationOverrideWithdraw.as_view(),
        name="allocation-override-withdraw",
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

_TERMS = "placement-terms/<name:noun>/<name:about>"
PLACEMENT: list[URLPattern | URLResolver] = [
    path("drift", drift.Drifts.as_view(), name="drift-list"),
    path("drift/<uuid:drift_id>/actions/accept", drift.DriftAccept.as_view(), name="drift-accept"),
    path("drift/<uuid:drift_id>/actions/remove", drift.DriftRemove.as_view(), name="drift-remove"),
    path("breaker/held", drift.Held.as_view(), name="breaker-held-list"),
    path("breaker/held/<uuid:held_id>/actions/allow", drift.HeldAllow.as_view(), name="held-allow"),
    path(
        "breaker/held/<uuid:held_id>/actions/reject", drift.HeldReject.as_view(), name="held-reject"
    ),
    path("pools/<slug:pool>/breaker", drift.PoolBreaker.as_view(), name="pool-breaker"),
    path("fragmentation", fragmentation.Fragmentation.as_view(), name="fragmentation-list"),
    path("defrag/policies", defrag.DefragPolicies.as_view(), name="defrag-policy-list"),
    path("defrag/policies/<name:pool>", defrag.DefragPolicyOne.as_view(), name="defrag-policy"),
    path("defrag/plan", defrag.DefragPlan.as_view(), name="defrag-plan"),
    path("defrag/runs", defrag.DefragRun.as_view(), name="defrag-run"),
    path("placement-terms", terms.PlacementTermsAll.as_view(), name="placement-terms-list"),
    path(_TERMS, terms.PlacementTermsOne.as_view(), name="placement-terms-detail"),
    path(
        f"{_TERMS}/actions/preview",
        terms.PlacementTermsPreview.as_view(),
        name="placement-terms-preview",
    ),
    path("scoring", terms.ScoringVersions.as_view(), name="scoring-list"),
]

_WINDOW = "maintenance-windows/<uuid:maintenance_id>/actions"
_CARDS = "nodes/<name:node>/replacements"
MAINTENANCE: list[URLPattern | URLResolver] = [
    path("maintenance-windows", maintenance.Windows.as_view(), name="window-list"),
    path(
        "maintenance-windows/actions/preview",
        maintenance.WindowPreview.as_view(),
        name="window-preview",
    ),
    path(f"{_WINDOW}/announce", maintenance.WindowAnnounce.as_view(), name="window-announce"),
    path(f"{_WINDOW}/cancel", maintenance.WindowCancel.as_view(), name="window-cancel"),
    path(f"{_WINDOW}/end", maintenance.WindowEnd.as_view(), name="window-end"),
    path("pools/<name:pool>/notice", maintenance.PoolNotice.as_view(), name="pool-notice"),
    path(
        "nodes/<name:node>/drain-plan",
        maintenance.NodeDrainPlan.as_view(),
        name="node-drain-plan",
    ),
    path("nodes/<name:node>/actions/move", maintenance.NodeMove.as_view(), name="node-move"),
    path(_CARDS, maintenance.Replacements.as_view(), name="node-replacement-list"),
    path(
        "nodes/<name:node>/actions/replace-card",
        maintenance.CardReplace.as_view(),
        name="node-card-replace",
    ),
    path(
        "nodes/<name:node>/actions/approve-card",
        maintenance.CardApprove.as_view(),
        name="node-card-approve",
    ),
    path(
        "nodes/<name:node>/actions/cancel-card",
        maintenance.CardCancel.as_view(),
        name="node-card-cancel",
    ),
    path("notices", notices.Notices.as_view(), name="notice-list"),
    path(
        "notices/<uuid:notice_id>/actions/acknowledge",
        notices.NoticeAcknowledge.as_view(),
        name="notice-acknowledge",
    ),
]

_NODE = "nodes/<name:node>"
FLEET: list[URLPattern | URLResolver] = [
    path("nodes", nodes.Nodes.as_view(), name="node-list"),
    path(_NODE, nodes.NodeDetail.as_view(), name="node-detail"),
    path(f"{_NODE}/topology", nodes.NodeTopology.as_view(), name="node-topology"),
    path(f"{_NODE}/tasks", nodes.NodeTasks.as_view(), name="node-task-list"),
    path(f"{_NODE}/slots", nodes.NodeSlots.as_view(), name="node-slot-list"),
    path(
        "slots/<uuid:slot_id>/actions/override",
        cleanup.SlotOverride.as_view(),
        name="slot-override",
    ),
    path(
        "slots/<uuid:slot_id>/actions/approve-override",
        cleanup.SlotOverrideApprove.as_view(),
        name="slot-override-approve",
    ),
    path(
        "slots/<uuid:slot_id>/actions/refuse-override",
        cleanup.SlotOverrideRefuse.as_view(),
        name="slot-override-refuse",
    ),
    path(
        "slots/<uuid:slot_id>/actions/withdraw-override",
        cleanup.SlotOverrideWithdraw.as_view(),
        name="slot-override-withdraw",
    ),
    path(f"{_NODE}/telemetry", hosts.NodeTelemetry.as_view(), name="node-telemetry"),
    path(f"{_NODE}/evidence", evidence.NodeEvidence.as_view(), name="node-evidence"),
    path(f"{_NODE}/xids", evidence.NodeXids.as_view(), name="node-xid-list"),
    path(f"{_NODE}/actions/promote", evidence.NodePromote.as_view(), name="node-promote"),
    path(f"{_NODE}/actions/demote", evidence.NodeDemote.as_view(), name="node-demote"),
    path(
        f"{_NODE}/actions/lift-health",
        evidence.NodeLiftHealth.as_view(),
        name="node-lift-health",
    ),
    path(f"{_NODE}/identity", hosts.NodeIdentityView.as_view(), name="node-identity"),
    path(f"{_NODE}/actions/accept", hosts.NodeAccept.as_view(), name="node-accept"),
    path(f"{_NODE}/join-tokens", nodes.NodeJoinToken.as_view(), name="node-join-token"),
    path(f"{_NODE}/actions/cut", nodes.NodeCut.as_view(), name="node-cut"),
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

_INCREASE = "quota-increases/<uuid:increase_id>"
QUOTA: list[URLPattern | URLResolver] = [
    path("quota", quota.Quota.as_view(), name="quota"),
    path("caps", quota.Caps.as_view(), name="caps"),
    path(
        "projects/<name:project>/quotas/<name:resource_class>",
        quota.ProjectQuotaSet.as_view(),
        name="project-quota",
    ),
    path("quota-increases", quota.QuotaIncreases.as_view(), name="quota-increase-list"),
    path(_INCREASE, quota.QuotaIncreaseDetail.as_view(), name="quota-increase-detail"),
    path(
        f"{_INCREASE}/actions/withdraw",
        quota.QuotaIncreaseWithdraw.as_view(),
        name="quota-increase-withdraw",
    ),
    path(
        f"{_INCREASE}/actions/approve",
        quota.QuotaIncreaseApprove.as_view(),
        name="quota-increase-approve",
    ),
    path(
        f"{_INCREASE}/actions/refuse",
        quota.QuotaIncreaseRefuse.as_view(),
        name="quota-increase-refuse",
    ),
    path("storage", storage.Storages.as_view(), name="storage-list"),
    path(
        "storage/<name:storage_name>/actions/retire",
        storage.StorageRetire.as_view(),
        name="storage-retire",
    ),
    path("datasets", datasets.DataSets.as_view(), name="dataset-list"),
    path("datasets/<str:dataset>", datasets.DataSetDetail.as_view(), name="dataset-detail"),
    path(
        "datasets/<str:dataset>/versions",
        datasets.DataSetVersions.as_view(),
        name="dataset-version-list",
    ),
]

_WORKLOAD = "workloads/<uuid:workload_id>"
WORKLOADS: list[URLPattern | URLResolver] = [
    path(
        "projects/<name:project>/workloads",
        workloads.ProjectWorkloads.as_view(),
        name="project-workload-list",
    ),
    path(
        "projects/<name:project>/workloads/plan",
        workloads.WorkloadPlan.as_view(),
        name="workload-plan",
    ),
    path("workloads", workloads.Workloads.as_view(), name="workload-list"),
    path(_WORKLOAD, workloads.WorkloadDetail.as_view(), name="workload-detail"),
    path(f"{_WORKLOAD}/explain", workloads.WorkloadExplain.as_view(), name="workload-explain"),
    path(f"{_WORKLOAD}/actions/scale", workloads.WorkloadScale.as_view(), name="workload-scale"),
    path(
        f"{_WORKLOAD}/actions/batch-size",
        workloads.WorkloadBatchSize.as_view(),
        name="workload-batch-size",
    ),
    path(
        f"{_WORKLOAD}/actions/sharing",
        workloads.WorkloadSharing.as_view(),
        name="workload-sharing",
    ),
    path(
        f"{_WORKLOAD}/actions/placement",
        workloads.WorkloadPlacement.as_view(),
        name="workload-placement",
    ),
    path(
        f"{_WORKLOAD}/actions/priority",
        workloads.WorkloadPriority.as_view(),
        name="workload-priority",
    ),
    path(f"{_WORKLOAD}/actions/stop", workloads.WorkloadStop.as_view(), name="workload-stop"),
]

_COHORT, _TIER, _POLICY = "cohorts/<name:cohort>", "tiers/<name:tier>", "policies/<uuid:policy_id>"
AUTHORITY: list[URLPattern | URLResolver] = [
    path(f"{_TENANT}/quota", authority.TenantQuota.as_view(), name="tenant-quota"),
    path(
        f"{_TENANT}/envelope-versions",
        authority.TenantEnvelopeVersions.as_view(),
        name="tenant-envelope-versions",
    ),
    path(
        f"{_TENANT}/envelopes/<name:resource_class>/versions",
        authority.TenantEnvelopeSchedule.as_view(),
        name="tenant-envelope-schedule",
    ),
    path(
        "envelope-versions/<uuid:version_id>/actions/cancel",
        authority.EnvelopeVersionCancel.as_view(),
        name="envelope-version-cancel",
    ),
    path(
        f"{_TENANT}/entitlements",
        entitlements.TenantEntitlements.as_view(),
        name="tenant-entitlement-list",
    ),
    path(
        f"{_TENANT}/entitlements/<name:sku>/actions/revoke",
        entitlements.TenantEntitlementRevoke.as_view(),
        name="tenant-entitlement-revoke",
    ),
    path(f"{_TENANT}/catalogue", entitlements.TenantCatalogue.as_view(), name="tenant-catalogue"),
    path(f"{_TENANT}/deletion", own.TenantDeletion.as_view(), name="tenant-deletion"),
    path(f"{_TENANT}/caps", authority.TenantCapsView.as_view(), name="tenant-caps"),
    path(f"{_TENANT}/bursts", authority.TenantBursts.as_view(), name="tenant-burst-list"),
    path("bursts/<uuid:burst_id>/actions/end", authority.BurstEnd.as_view(), name="burst-end"),
    path(f"{_TENANT}/cohort", authority.TenantCohort.as_view(), name="tenant-cohort"),
    path(f"{_TENANT}/suspension", authority.TenantSuspension.as_view(), name="tenant-suspension"),
    path(f"{_TENANT}/actions/delete", authority.TenantDelete.as_view(), name="tenant-delete"),
    path(
        f"{_TENANT}/tier/preview",
        authority.TenantTierPreview.as_view(),
        name="tenant-tier-preview",
    ),
    path(f"{_TENANT}/tier", authority.TenantTier.as_view(), name="tenant-tier"),
    path("cohorts", levels.Cohorts.as_view(), name="cohort-list"),
    path(_COHORT, levels.CohortDetail.as_view(), name="cohort-detail"),
    path(
        f"{_COHORT}/limits/<name:resource_class>",
        levels.CohortLimits.as_view(),
        name="cohort-limits",
    ),
    path("tiers", levels.Tiers.as_view(), name="tier-list"),
    path(_TIER, levels.TierDetail.as_view(), name="tier-detail"),
    path(f"{_TIER}/versions", levels.TierVersions.as_view(), name="tier-version-list"),
    path(f"{_TIER}/actions/preview", levels.TierPreview.as_view(), name="tier-preview"),
    path(f"{_TIER}/actions/change", levels.TierChange.as_view(), name="tier-change"),
    path("policies", policies.Policies.as_view(), name="policy-list"),
    path(_POLICY, policies.PolicyDetail.as_view(), name="policy-detail"),
    path(f"{_POLICY}/actions/dry-run", policies.PolicyDryRun.as_view(), name="policy-dry-run"),
    path(f"{_POLICY}/actions/activate", policies.PolicyActivate.as_view(), name="policy-activate"),
    path(f"{_POLICY}/actions/retire", policies.PolicyRetire.as_view(), name="policy-retire"),
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
    path("nodes/self/telemetry", agent.Telemetry.as_view(), name="agent-telemetry"),
]

V1 = [
    *ACCESS,
    *CATALOGUE,
    *LEASES,
    *FLEET,
    *PLACEMENT,
    *MAINTENANCE,
    *TENANTS,
    *QUOTA,
    *WORKLOADS,
    *AUTHORITY,
]

app_name = "api"
urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(V1)),
    path("api/schema", docs.Schema.as_view(), name="schema"),
    path("api/docs/", docs.Docs.as_view(), name="docs"),
    path("agent/v1/", include(AGENT)),
    path("problems/<slug:kind>", docs.problem_page, name="problem"),
    path("livez", health.livez, name="livez"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", metrics.Metrics.as_view(), name="metrics"),
]
