"""Which action does each page of a tenant need?  One table: page, to reading and sending."""

from __future__ import annotations

from typing import Final

from gpuaas.ui.needs import Needs

_LEASES = Needs("allocations:read")
_LEASE = Needs("allocations:read", "allocations:write")

PAGES: Final[dict[str, Needs]] = {
    "home": Needs(),
    "catalogue": Needs("catalogue:read"),
    "launch": Needs("catalogue:read", "allocations:write"),
    "allocations": _LEASES,
    "allocations-csv": _LEASES,
    "allocation": _LEASE,
    "release": _LEASE,
    "rename": _LEASE,
    "allocation-live": _LEASES,
    "notices": _LEASES,
    "notice-read": _LEASE,
    "live": _LEASES,
    "quota": Needs("envelopes:read", "quota:write"),
    "wish-withdraw": Needs(write="quota:write"),
    "decisions": _LEASES,
    "workloads": _LEASES,
    "workload-new": _LEASE,
    "workload": _LEASE,
    "workload-stop": _LEASE,
    "workload-act": _LEASE,
    "datasets": Needs("datasets:read", "datasets:write"),
    "dataset-retire": Needs(write="datasets:write"),
    "dataset": Needs("datasets:read", "datasets:write"),
    "requests": _LEASES,
    "request": _LEASE,
    "withdraw": _LEASE,
    "team": Needs("members:read"),
    "project-new": Needs("members:read", "projects:write"),
    "project": Needs("projects:read", "quota:write"),
    "project-limit": Needs("projects:read", "quota:write"),
    "project-delete": Needs("projects:read", "projects:write"),
    "member-role": Needs("members:read", "members:write"),
    "member-remove": Needs("members:read", "members:write"),
    "tenant": Needs("projects:read", "tenant:write"),
    "tenant-delete": Needs("projects:read", "tenant:write"),
    "member-set": Needs("members:read", "members:write"),
    "access": Needs("members:read"),
    "invite": Needs("members:read", "members:write"),
    "invitation-revoke": Needs(write="members:write"),
    "program-new": Needs("members:read", "service_accounts:write"),
    "program-token": Needs("members:read", "service_accounts:write"),
    "program-disable": Needs(write="service_accounts:write"),
    "tokens": Needs("tokens:read", "tokens:write"),
    "token-revoke": Needs(write="tokens:write"),
    "ssh-keys": Needs("keys:read", "keys:write"),
    "ssh-key-delete": Needs(write="keys:write"),
    "search": Needs("catalogue:read"),
}
"""Every page of a tenant. A page without a row admits nobody, and fails a test."""
