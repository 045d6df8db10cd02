"""Which action does each page of the console need?  One table: page, to reading and sending."""

from __future__ import annotations

from typing import Final

from gpuaas.ui.needs import Needs

READS: Final = "operator:read"
_READ = Needs(READS)
_NODES = Needs(READS, "nodes:write")
_CLEANUP = Needs(READS, "cleanup:write")
_TENANTS = Needs(READS, "tenants:write")
_POLICIES = Needs(READS, "policies:write")
_CATALOGUE = Needs(READS, "catalogue:write")
_OPERATORS = Needs(READS, "operators:write")

PAGES: Final[dict[str, Needs]] = {
    "home": _READ,
    "fleet": _READ,
    "fleet-csv": _READ,
    "defrag": _NODES,
    "defrag-policy": _NODES,
    "placement-terms": _READ,
    "placement-terms-one": _POLICIES,
    "readiness-terms": _READ,
    "readiness-terms-one": _POLICIES,
    "scoring": _POLICIES,
    "fragmentation": _READ,
    "nodes": _NODES,
    "node": _NODES,
    "node-join-token": _NODES,
    "node-live": _READ,
    "node-slot": _NODES,
    "node-slot-override": _CLEANUP,
    "node-fitness": _NODES,
    "drain-plan": _NODES,
    "node-card": _NODES,
    "maintenance": _NODES,
    "window-act": _NODES,
    "node-act": _NODES,
    "tasks": _READ,
    "task": _READ,
    "drift": _NODES,
    "drift-act": _NODES,
    "decisions": _READ,
    "request": _READ,
    "approvals": _TENANTS,
    "approval-act": _CLEANUP,
    "policies": _POLICIES,
    "policy": _READ,
    "policy-act": _POLICIES,
    "tiers": _READ,
    "tier-new": _TENANTS,
    "tier": _TENANTS,
    "cohorts": _TENANTS,
    "cohort": _TENANTS,
    "cohort-delete": _TENANTS,
    "separations": _POLICIES,
    "separation": _POLICIES,
    "separation-remove": _POLICIES,
    "tenants": _READ,
    "tenant": _TENANTS,
    "authority": _TENANTS,
    "version-cancel": _TENANTS,
    "tenant-caps": _TENANTS,
    "tenant-bursts": _TENANTS,
    "burst-end": _TENANTS,
    "tenant-tier": _TENANTS,
    "standing-act": _TENANTS,
    "tenant-catalogue": _TENANTS,
    "entitlement-grant": _TENANTS,
    "entitlement-revoke": _TENANTS,
    "tenant-members": _TENANTS,
    "member-act": _TENANTS,
    "tenant-end": _TENANTS,
    "end-act": _TENANTS,
    "break-glass-open": Needs("break_glass:write", "break_glass:write"),
    "stock": _CATALOGUE,
    "stock-make": _CATALOGUE,
    "image-retire": _CATALOGUE,
    "stock-item": _CATALOGUE,
    "stock-act": _CATALOGUE,
    "storage": _TENANTS,
    "storage-retire": _TENANTS,
    "retention": _OPERATORS,
    "control-keys": _OPERATORS,
    "control-key-act": _OPERATORS,
    "operators": _OPERATORS,
    "operator-act": _OPERATORS,
    "break-glass": _READ,
    "break-glass-end": Needs(READS, "break_glass:write"),
    "tenant-act": _TENANTS,
    "allocations": _READ,
    "allocation": _CLEANUP,
    "allocation-act": _CLEANUP,
    "search": _READ,
}
"""Every page of the console. A page without a row admits nobody, and fails a test."""
