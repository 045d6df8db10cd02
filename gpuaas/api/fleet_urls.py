"""Which addresses of the api are about hosts, where work is placed on them, and their upkeep?"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from gpuaas.api.converters import NODE
from gpuaas.api.views import (
    cleanup,
    control_keys,
    defrag,
    drift,
    evidence,
    fragmentation,
    hosts,
    maintenance,
    nodes,
    notices,
    readiness,
    separations,
    terms,
)

_TERMS = "placement-terms/<name:noun>/<name:about>"
_READY = "readiness-terms/<name:about>"
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
    path("separations", separations.Separations.as_view(), name="separation-list"),
    path(
        "separations/<name:separation>",
        separations.SeparationOne.as_view(),
        name="separation-detail",
    ),
    path("readiness-terms", readiness.ReadinessTermsAll.as_view(), name="readiness-terms-list"),
    path(_READY, readiness.ReadinessTermsOne.as_view(), name="readiness-terms-detail"),
    path(
        f"{_READY}/actions/preview",
        readiness.ReadinessTermsPreview.as_view(),
        name="readiness-terms-preview",
    ),
    path(
        f"{_READY}/actions/preview-removal",
        readiness.ReadinessTermsRemoval.as_view(),
        name="readiness-terms-preview-removal",
    ),
    path(
        f"{_READY}/actions/remove",
        readiness.ReadinessTermsRemove.as_view(),
        name="readiness-terms-remove",
    ),
    path("control-keys", control_keys.ControlKeys.as_view(), name="control-key-list"),
    path(
        "control-keys/actions/switch",
        control_keys.ControlKeySwitch.as_view(),
        name="control-key-switch",
    ),
    path(
        "control-keys/actions/back", control_keys.ControlKeyBack.as_view(), name="control-key-back"
    ),
    path(
        "control-keys/actions/retire",
        control_keys.ControlKeyRetire.as_view(),
        name="control-key-retire",
    ),
    path("scoring", terms.ScoringVersions.as_view(), name="scoring-list"),
]

_WINDOW = "maintenance-windows/<uuid:maintenance_id>/actions"
_CARDS = f"{NODE}/replacements"
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

FLEET: list[URLPattern | URLResolver] = [
    path("nodes", nodes.Nodes.as_view(), name="node-list"),
    path(NODE, nodes.NodeDetail.as_view(), name="node-detail"),
    path(f"{NODE}/topology", nodes.NodeTopology.as_view(), name="node-topology"),
    path(f"{NODE}/tasks", nodes.NodeTasks.as_view(), name="node-task-list"),
    path(f"{NODE}/slots", nodes.NodeSlots.as_view(), name="node-slot-list"),
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
    path(f"{NODE}/telemetry", hosts.NodeTelemetry.as_view(), name="node-telemetry"),
    path(f"{NODE}/evidence", evidence.NodeEvidence.as_view(), name="node-evidence"),
    path(f"{NODE}/xids", evidence.NodeXids.as_view(), name="node-xid-list"),
    path(f"{NODE}/actions/promote", evidence.NodePromote.as_view(), name="node-promote"),
    path(f"{NODE}/actions/demote", evidence.NodeDemote.as_view(), name="node-demote"),
    path(
        f"{NODE}/actions/lift-health",
        evidence.NodeLiftHealth.as_view(),
        name="node-lift-health",
    ),
    path(f"{NODE}/identity", hosts.NodeIdentityView.as_view(), name="node-identity"),
    path(f"{NODE}/actions/accept", hosts.NodeAccept.as_view(), name="node-accept"),
    path(f"{NODE}/join-tokens", nodes.NodeJoinToken.as_view(), name="node-join-token"),
    path(f"{NODE}/actions/cut", nodes.NodeCut.as_view(), name="node-cut"),
    path(f"{NODE}/actions/discover", nodes.NodeDiscover.as_view(), name="node-discover"),
    path(f"{NODE}/actions/burn-in", nodes.NodeBurnIn.as_view(), name="node-burn-in"),
    path(f"{NODE}/actions/stop-burn-in", nodes.NodeBurnInStop.as_view(), name="node-stop-burn-in"),
    path(f"{NODE}/actions/approve", nodes.NodeApprove.as_view(), name="node-approve"),
    path(f"{NODE}/actions/drain", nodes.NodeDrainOrder.as_view(), name="node-drain"),
    path(f"{NODE}/actions/undrain", nodes.NodeUndrain.as_view(), name="node-undrain"),
    path(f"{NODE}/actions/maintain", nodes.NodeMaintain.as_view(), name="node-maintain"),
    path(f"{NODE}/actions/quarantine", nodes.NodeQuarantine.as_view(), name="node-quarantine"),
    path(f"{NODE}/actions/restore", nodes.NodeRestore.as_view(), name="node-restore"),
    path(f"{NODE}/actions/retire", nodes.NodeRetire.as_view(), name="node-retire"),
    path(f"{NODE}/actions/revoke-credentials", nodes.NodeRevoke.as_view(), name="node-revoke"),
]
