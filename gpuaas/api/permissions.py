"""Who may call what?  One table: route and method, to the rule that admits a caller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from gpuaas.api import errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import PermissionDenied
from tenants.domain import roles

if TYPE_CHECKING:
    # Importing it here would import this module again, through REST framework's settings.
    from rest_framework.views import APIView

Who = Literal["anyone", "signed_in", "tenant", "operator", "agent", "tenant_or_operator"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Who is admitted, and by which action of ``tenants.domain.roles``.

    ``action`` is the tenant's scope, ``operator_action`` the operator's.
    """

    who: Who
    action: str = ""
    operator_action: str = ""


ANYONE = Rule("anyone")
SIGNED_IN = Rule("signed_in")
AGENT = Rule("agent")


def _tenant(action: str) -> Rule:
    return Rule("tenant", action)


def _operator(action: str) -> Rule:
    return Rule("operator", operator_action=action)


def _both(action: str, operator_action: str = "operator:read") -> Rule:
    """A tenant's own rows, or any tenant's for an operator who acts for no tenant."""
    return Rule("tenant_or_operator", action, operator_action)


_ALLOCATIONS = _both("allocations:read")
_FLEET = _operator("operator:read")
_NODES = _operator("nodes:write")
_TENANTS = _operator("tenants:write")
_POLICIES = _operator("policies:write")
_OPERATORS = _operator("operators:write")

TABLE: dict[tuple[str, str], Rule] = {
    ("signup", "POST"): ANYONE,
    ("auth-token", "POST"): ANYONE,
    ("me", "GET"): SIGNED_IN,
    ("token-list", "GET"): Rule("tenant_or_operator", "tokens:read", "operator:read"),
    ("token-list", "POST"): Rule("tenant_or_operator", "tokens:write", "operator:read"),
    ("token-detail", "DELETE"): Rule("tenant_or_operator", "tokens:write", "operator:read"),
    ("project-list", "GET"): _both("projects:read"),
    ("project-list", "POST"): _tenant("projects:write"),
    ("project-detail", "GET"): _both("projects:read"),
    ("project-detail", "DELETE"): _tenant("projects:write"),
    ("ssh-key-list", "GET"): _tenant("keys:read"),
    ("ssh-key-list", "POST"): _tenant("keys:write"),
    ("ssh-key-detail", "GET"): _tenant("keys:read"),
    ("ssh-key-detail", "DELETE"): _tenant("keys:write"),
    ("service-account-list", "GET"): _tenant("service_accounts:read"),
    ("service-account-list", "POST"): _tenant("service_accounts:write"),
    ("service-account-detail", "GET"): _tenant("service_accounts:read"),
    ("service-account-disable", "POST"): _tenant("service_accounts:write"),
    ("service-account-token-list", "GET"): _tenant("service_accounts:read"),
    ("service-account-token-list", "POST"): _tenant("service_accounts:write"),
    ("service-account-token-detail", "DELETE"): _tenant("service_accounts:write"),
    ("member-list", "GET"): _tenant("members:read"),
    ("member-list", "POST"): _tenant("members:write"),
    ("member-detail", "GET"): _tenant("members:read"),
    ("member-detail", "DELETE"): _tenant("members:write"),
    ("member-role", "PUT"): _tenant("members:write"),
    ("own-tenant", "GET"): _tenant("projects:read"),
    ("own-deletion", "GET"): _tenant("allocations:read"),
    ("own-deletion", "POST"): _tenant("tenant:write"),
    ("invitation-list", "GET"): _tenant("members:read"),
    ("invitation-list", "POST"): _tenant("members:write"),
    ("invitation-revoke", "POST"): _tenant("members:write"),
    ("break-glass-list", "GET"): _both("events:read"),
    ("break-glass-list", "POST"): _operator("break_glass:write"),
    ("break-glass-end", "POST"): _operator("break_glass:write"),
    ("envelope-list", "GET"): _both("envelopes:read"),
    ("image-list", "GET"): _both("catalogue:read"),
    ("image-list", "POST"): _operator("catalogue:write"),
    ("image-retire", "POST"): _operator("catalogue:write"),
    ("pool-list", "GET"): _operator("operator:read"),
    ("pool-list", "POST"): _operator("catalogue:write"),
    ("family-list", "GET"): _operator("operator:read"),
    ("pool-detail", "GET"): _operator("operator:read"),
    ("pool-detail", "DELETE"): _operator("catalogue:write"),
    ("pool-uses", "GET"): _operator("operator:read"),
    ("pool-retire", "POST"): _operator("catalogue:write"),
    ("pool-title", "PUT"): _operator("catalogue:write"),
    ("family-list", "POST"): _operator("catalogue:write"),
    ("family-detail", "GET"): _operator("operator:read"),
    ("family-detail", "DELETE"): _operator("catalogue:write"),
    ("family-uses", "GET"): _operator("operator:read"),
    ("family-retire", "POST"): _operator("catalogue:write"),
    ("family-title", "PUT"): _operator("catalogue:write"),
    ("sku-list", "GET"): _both("catalogue:read"),
    ("sku-list", "POST"): _operator("catalogue:write"),
    ("sku-detail", "GET"): _both("catalogue:read"),
    ("sku-detail", "DELETE"): _operator("catalogue:write"),
    ("sku-uses", "GET"): _operator("operator:read"),
    ("sku-title", "PUT"): _operator("catalogue:write"),
    ("sku-publish", "POST"): _operator("catalogue:write"),
    ("sku-retire", "POST"): _operator("catalogue:write"),
    ("sku-price", "PUT"): _operator("catalogue:write"),
    ("offer-list", "GET"): _both("catalogue:read"),
    ("entitlement-list", "GET"): _tenant("catalogue:read"),
    ("project-allocation-list", "GET"): _ALLOCATIONS,
    ("project-allocation-list", "POST"): _tenant("allocations:write"),
    ("allocation-plan", "POST"): _tenant("allocations:read"),
    ("allocation-list", "GET"): _ALLOCATIONS,
    ("allocation-detail", "GET"): _ALLOCATIONS,
    ("allocation-detail", "PATCH"): _tenant("allocations:write"),
    ("allocation-release", "POST"): _tenant("allocations:write"),
    ("allocation-timeline", "GET"): _ALLOCATIONS,
    ("allocation-explain", "GET"): _ALLOCATIONS,
    ("allocation-retry-cleanup", "POST"): _operator("cleanup:write"),
    ("allocation-override", "POST"): _operator("cleanup:write"),
    ("allocation-override-approve", "POST"): _operator("overrides:write"),
    ("allocation-override-refuse", "POST"): _operator("overrides:write"),
    ("allocation-override-withdraw", "POST"): _operator("cleanup:write"),
    ("slot-override", "POST"): _operator("cleanup:write"),
    ("slot-override-approve", "POST"): _operator("overrides:write"),
    ("slot-override-refuse", "POST"): _operator("overrides:write"),
    ("slot-override-withdraw", "POST"): _operator("cleanup:write"),
    ("operator-list", "GET"): _FLEET,
    ("operator-role", "PUT"): _operator("operators:write"),
    ("admission-request-list", "GET"): _ALLOCATIONS,
    ("admission-request-detail", "GET"): _ALLOCATIONS,
    ("admission-request-explain", "GET"): _ALLOCATIONS,
    ("admission-request-withdraw", "POST"): _tenant("allocations:write"),
    ("operation-list", "GET"): _ALLOCATIONS,
    ("operation-detail", "GET"): _ALLOCATIONS,
    ("event-list", "GET"): _both("events:read"),
    ("stream", "GET"): _both("events:read"),
    ("node-list", "GET"): _FLEET,
    ("node-list", "POST"): _NODES,
    ("node-detail", "GET"): _FLEET,
    ("node-topology", "GET"): _FLEET,
    ("node-task-list", "GET"): _FLEET,
    ("node-slot-list", "GET"): _FLEET,
    ("node-telemetry", "GET"): _FLEET,
    ("node-identity", "GET"): _FLEET,
    ("node-evidence", "GET"): _FLEET,
    ("node-evidence", "POST"): _NODES,
    ("node-xid-list", "GET"): _FLEET,
    ("node-promote", "POST"): _NODES,
    ("node-demote", "POST"): _NODES,
    ("node-lift-health", "POST"): _NODES,
    ("node-accept", "POST"): _NODES,
    ("node-join-token", "POST"): _NODES,
    ("window-list", "GET"): _FLEET,
    ("window-list", "POST"): _NODES,
    ("window-preview", "POST"): _FLEET,
    ("window-announce", "POST"): _NODES,
    ("window-cancel", "POST"): _NODES,
    ("window-end", "POST"): _NODES,
    ("pool-notice", "PUT"): _NODES,
    ("node-drain-plan", "GET"): _FLEET,
    ("node-move", "POST"): _NODES,
    ("node-replacement-list", "GET"): _FLEET,
    ("node-card-replace", "POST"): _NODES,
    ("node-card-approve", "POST"): _NODES,
    ("node-card-cancel", "POST"): _NODES,
    ("notice-list", "GET"): _ALLOCATIONS,
    ("notice-acknowledge", "POST"): _tenant("allocations:write"),
    ("node-discover", "POST"): _NODES,
    ("node-burn-in", "POST"): _NODES,
    ("node-stop-burn-in", "POST"): _NODES,
    ("node-approve", "POST"): _NODES,
    ("node-cut", "POST"): _NODES,
    ("node-drain", "POST"): _NODES,
    ("node-undrain", "POST"): _NODES,
    ("node-maintain", "POST"): _NODES,
    ("node-quarantine", "POST"): _NODES,
    ("node-restore", "POST"): _NODES,
    ("node-retire", "POST"): _NODES,
    ("node-revoke", "POST"): _NODES,
    ("fragmentation-list", "GET"): _FLEET,
    ("defrag-policy-list", "GET"): _FLEET,
    ("defrag-policy", "PUT"): _NODES,
    ("defrag-plan", "POST"): _FLEET,
    ("defrag-run", "POST"): _NODES,
    ("placement-terms-list", "GET"): _FLEET,
    ("placement-terms-detail", "GET"): _FLEET,
    ("placement-terms-detail", "PUT"): _POLICIES,
    ("placement-terms-preview", "POST"): _FLEET,
    ("separation-list", "GET"): _FLEET,
    ("separation-detail", "GET"): _FLEET,
    ("separation-detail", "PUT"): _POLICIES,
    ("separation-detail", "DELETE"): _POLICIES,
    ("readiness-terms-list", "GET"): _FLEET,
    ("readiness-terms-detail", "GET"): _FLEET,
    ("readiness-terms-detail", "PUT"): _POLICIES,
    ("readiness-terms-preview", "POST"): _FLEET,
    ("readiness-terms-preview-removal", "POST"): _FLEET,
    ("readiness-terms-remove", "POST"): _POLICIES,
    ("scoring-list", "GET"): _FLEET,
    ("scoring-list", "POST"): _POLICIES,
    ("control-key-list", "GET"): _FLEET,
    ("control-key-list", "POST"): _OPERATORS,
    ("control-key-switch", "POST"): _OPERATORS,
    ("control-key-back", "POST"): _OPERATORS,
    ("control-key-retire", "POST"): _OPERATORS,
    ("drift-list", "GET"): _FLEET,
    ("drift-accept", "POST"): _NODES,
    ("drift-remove", "POST"): _NODES,
    ("breaker-held-list", "GET"): _FLEET,
    ("held-allow", "POST"): _NODES,
    ("held-reject", "POST"): _NODES,
    ("pool-breaker", "PUT"): _POLICIES,
    ("tenant-list", "GET"): _FLEET,
    ("tenant-list", "POST"): _operator("tenants:write"),
    ("tenant-detail", "GET"): _FLEET,
    ("tenant-approve", "POST"): _operator("tenants:write"),
    ("tenant-reject", "POST"): _operator("tenants:write"),
    ("tenant-suspend", "POST"): _operator("tenants:write"),
    ("tenant-resume", "POST"): _operator("tenants:write"),
    ("tenant-envelope", "PUT"): _operator("tenants:write"),
    ("quota", "GET"): _tenant("envelopes:read"),
    ("caps", "GET"): _tenant("envelopes:read"),
    ("project-quota", "PUT"): _tenant("quota:write"),
    ("quota-increase-list", "GET"): _both("envelopes:read"),
    ("quota-increase-list", "POST"): _tenant("quota:write"),
    ("quota-increase-detail", "GET"): _both("envelopes:read"),
    ("quota-increase-withdraw", "POST"): _tenant("quota:write"),
    ("quota-increase-approve", "POST"): _TENANTS,
    ("quota-increase-refuse", "POST"): _TENANTS,
    ("storage-list", "GET"): _both("datasets:read"),
    ("storage-list", "POST"): _TENANTS,
    ("storage-retire", "POST"): _TENANTS,
    ("dataset-list", "GET"): _tenant("datasets:read"),
    ("dataset-list", "POST"): _tenant("datasets:write"),
    ("dataset-detail", "GET"): _tenant("datasets:read"),
    ("dataset-detail", "DELETE"): _tenant("datasets:write"),
    ("dataset-version-list", "GET"): _tenant("datasets:read"),
    ("dataset-version-list", "POST"): _tenant("datasets:write"),
    ("project-workload-list", "GET"): _ALLOCATIONS,
    ("project-workload-list", "POST"): _tenant("allocations:write"),
    ("workload-plan", "POST"): _tenant("allocations:read"),
    ("workload-list", "GET"): _ALLOCATIONS,
    ("workload-detail", "GET"): _ALLOCATIONS,
    ("workload-explain", "GET"): _ALLOCATIONS,
    ("workload-scale", "POST"): _tenant("allocations:write"),
    ("workload-batch-size", "POST"): _tenant("allocations:write"),
    ("workload-sharing", "POST"): _tenant("allocations:write"),
    ("workload-placement", "POST"): _tenant("allocations:write"),
    ("workload-priority", "POST"): _tenant("allocations:write"),
    ("workload-scale-plan", "POST"): _tenant("allocations:read"),
    ("workload-batch-size-plan", "POST"): _tenant("allocations:read"),
    ("workload-sharing-plan", "POST"): _tenant("allocations:read"),
    ("workload-placement-plan", "POST"): _tenant("allocations:read"),
    ("workload-priority-plan", "POST"): _tenant("allocations:read"),
    ("workload-stop", "POST"): _tenant("allocations:write"),
    ("tenant-quota", "GET"): _FLEET,
    ("tenant-envelope-versions", "GET"): _FLEET,
    ("tenant-envelope-schedule", "POST"): _TENANTS,
    ("tenant-envelope-preview", "POST"): _FLEET,
    ("envelope-version-cancel", "POST"): _TENANTS,
    ("tenant-entitlement-list", "GET"): _FLEET,
    ("tenant-entitlement-list", "POST"): _TENANTS,
    ("tenant-entitlement-revoke", "POST"): _TENANTS,
    ("tenant-catalogue", "PUT"): _TENANTS,
    ("tenant-deletion", "GET"): _FLEET,
    ("tenant-caps", "GET"): _FLEET,
    ("tenant-caps", "PATCH"): _TENANTS,
    ("tenant-burst-list", "GET"): _FLEET,
    ("tenant-burst-list", "POST"): _TENANTS,
    ("burst-end", "POST"): _TENANTS,
    ("tenant-cohort", "PUT"): _TENANTS,
    ("tenant-suspension", "PUT"): _TENANTS,
    ("tenant-delete", "POST"): _TENANTS,
    ("tenant-tier-preview", "POST"): _FLEET,
    ("tenant-tier", "PUT"): _TENANTS,
    ("cohort-list", "GET"): _FLEET,
    ("cohort-list", "POST"): _TENANTS,
    ("cohort-detail", "GET"): _FLEET,
    ("cohort-detail", "DELETE"): _TENANTS,
    ("cohort-limits", "PUT"): _TENANTS,
    ("tier-list", "GET"): _FLEET,
    ("tier-list", "POST"): _TENANTS,
    ("tier-detail", "GET"): _FLEET,
    ("tier-version-list", "GET"): _FLEET,
    ("tier-preview", "POST"): _FLEET,
    ("tier-change", "POST"): _TENANTS,
    ("policy-list", "GET"): _FLEET,
    ("policy-list", "POST"): _POLICIES,
    ("policy-detail", "GET"): _FLEET,
    ("policy-dry-run", "POST"): _POLICIES,
    ("policy-activate", "POST"): _POLICIES,
    ("policy-retire", "POST"): _POLICIES,
    ("reason-list", "GET"): ANYONE,
    ("reason", "GET"): ANYONE,
    ("schema", "GET"): ANYONE,
    ("docs", "GET"): ANYONE,
    ("problem", "GET"): ANYONE,
    ("livez", "GET"): ANYONE,
    ("readyz", "GET"): ANYONE,
    # From the machine itself without a token, so that a local scraper needs no secret.
    ("metrics", "GET"): ANYONE,
    ("agent-join", "POST"): ANYONE,
    ("agent-credential-renew", "POST"): AGENT,
    ("agent-task-lease", "POST"): AGENT,
    ("agent-task-heartbeat", "POST"): AGENT,
    ("agent-task-complete", "POST"): AGENT,
    ("agent-task-fail", "POST"): AGENT,
    ("agent-observed", "PUT"): AGENT,
    ("agent-telemetry", "POST"): AGENT,
}
"""Every route of the api. A route without a row is refused, and fails a test."""


def rule_of(route: str, method: str) -> Rule | None:
    """The row for a route and method; HEAD is asked like GET."""
    return TABLE.get((route, "GET" if method == "HEAD" else method))


class Declared(BasePermission):
    """Admits a caller by the table, and refuses what the table does not name."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """True, or a raised error that says what is missing."""
        match = request.resolver_match
        rule = rule_of((match.url_name if match else "") or "", request.method or "")
        if rule is None:
            raise PermissionDenied("This address admits nobody.")
        if rule.who in {"anyone", "agent"}:
            # An agent's view has verified the message's signature, or refused it, itself.
            return True
        actor = request.auth
        if not isinstance(actor, Actor):
            raise errors.Unauthenticated
        admit(rule, actor)
        return True


def admit(rule: Rule, actor: Actor) -> None:
    """Raises TenantRequired, InsufficientScope or PermissionDenied unless the rule is met."""
    if rule.who == "signed_in":
        return
    for_operator = rule.who == "operator" or (
        rule.who == "tenant_or_operator" and actor.operator and not actor.role
    )
    if not for_operator and actor.tenant_id is None:
        raise errors.TenantRequired
    action = rule.operator_action if for_operator else rule.action
    if roles.may(action, role=actor.role, operator=actor.operator_role, scopes=actor.scopes):
        return
    if roles.may(action, role=actor.role, operator=actor.operator_role, scopes=frozenset()):
        raise errors.InsufficientScope(f"The token lacks the scope {action}.", scope=action)
    raise PermissionDenied(
        (
            f"Your role {actor.operator_role or 'none'} among the operators "
            f"does not carry {action}."
            if actor.operator
            else "This is for the platform's operators."
        )
        if for_operator
        else f"Your role {actor.role or 'none'} does not carry {action}."
    )
