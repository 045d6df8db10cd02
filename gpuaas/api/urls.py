"""Which addresses does the api answer?  The names are the keys of the permission table."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from gpuaas.api.agent import views as agent
from gpuaas.api.fleet_urls import FLEET, MAINTENANCE, PLACEMENT
from gpuaas.api.views import (
    access,
    allocations,
    authority,
    catalogue,
    cleanup,
    datasets,
    docs,
    entitlements,
    envelopes,
    events,
    health,
    identity,
    levels,
    members,
    metrics,
    operations,
    operators,
    own,
    policies,
    projects,
    quota,
    requests,
    sign_in,
    stock,
    stock_ends,
    storage,
    stream,
    tenants,
    workloads,
)

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
    path("skus/<name:sku>/uses", stock_ends.SkuUses.as_view(), name="sku-uses"),
    path("skus/<name:sku>/title", stock_ends.SkuTitle.as_view(), name="sku-title"),
    path("images", stock.Images.as_view(), name="image-list"),
    path("images/<name:image>/actions/retire", stock.ImageRetire.as_view(), name="image-retire"),
    path("pools", stock.Pools.as_view(), name="pool-list"),
    path("pools/<name:pool>", stock_ends.PoolDetail.as_view(), name="pool-detail"),
    path("pools/<name:pool>/uses", stock_ends.PoolUses.as_view(), name="pool-uses"),
    path("pools/<name:pool>/actions/retire", stock_ends.PoolRetire.as_view(), name="pool-retire"),
    path("pools/<name:pool>/title", stock_ends.PoolTitle.as_view(), name="pool-title"),
    path("families", stock.Families.as_view(), name="family-list"),
    path("families/<name:family>", stock_ends.FamilyDetail.as_view(), name="family-detail"),
    path("families/<name:family>/uses", stock_ends.FamilyUses.as_view(), name="family-uses"),
    path(
        "families/<name:family>/actions/retire",
        stock_ends.FamilyRetire.as_view(),
        name="family-retire",
    ),
    path("families/<name:family>/title", stock_ends.FamilyTitle.as_view(), name="family-title"),
    path("entitlements", entitlements.Entitlements.as_view(), name="entitlement-list"),
    path("reasons", catalogue.Reasons.as_view(), name="reason-list"),
    path("reasons/<slug:code>", catalogue.OneReason.as_view(), name="reason"),
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
        envelopes.TenantEnvelope.as_view(),
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
    path(
        f"{_WORKLOAD}/actions/scale/plan",
        workloads.WorkloadScalePlan.as_view(),
        name="workload-scale-plan",
    ),
    path(
        f"{_WORKLOAD}/actions/batch-size/plan",
        workloads.WorkloadBatchSizePlan.as_view(),
        name="workload-batch-size-plan",
    ),
    path(
        f"{_WORKLOAD}/actions/sharing/plan",
        workloads.WorkloadSharingPlan.as_view(),
        name="workload-sharing-plan",
    ),
    path(
        f"{_WORKLOAD}/actions/placement/plan",
        workloads.WorkloadPlacementPlan.as_view(),
        name="workload-placement-plan",
    ),
    path(
        f"{_WORKLOAD}/actions/priority/plan",
        workloads.WorkloadPriorityPlan.as_view(),
        name="workload-priority-plan",
    ),
    path(f"{_WORKLOAD}/actions/stop", workloads.WorkloadStop.as_view(), name="workload-stop"),
]

_COHORT, _TIER, _POLICY = "cohorts/<name:cohort>", "tiers/<name:tier>", "policies/<uuid:policy_id>"
AUTHORITY: list[URLPattern | URLResolver] = [
    path(f"{_TENANT}/quota", authority.TenantQuota.as_view(), name="tenant-quota"),
    path(
        f"{_TENANT}/envelope-versions",
        envelopes.TenantEnvelopeVersions.as_view(),
        name="tenant-envelope-versions",
    ),
    path(
        f"{_TENANT}/envelopes/<name:resource_class>/versions",
        envelopes.TenantEnvelopeSchedule.as_view(),
        name="tenant-envelope-schedule",
    ),
    path(
        f"{_TENANT}/envelopes/<name:resource_class>/preview",
        envelopes.TenantEnvelopePreview.as_view(),
        name="tenant-envelope-preview",
    ),
    path(
        "envelope-versions/<uuid:version_id>/actions/cancel",
        envelopes.EnvelopeVersionCancel.as_view(),
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
