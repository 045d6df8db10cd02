"""How is the admin's navigation laid out, and in which colour?"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse

_GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Customers",
        (
            ("Tenants", "tenants_tenant"),
            ("Projects", "tenants_project"),
            ("Members", "tenants_member"),
            ("People", "tenants_user"),
            ("API tokens", "tenants_apitoken"),
            ("SSH keys", "tenants_sshkey"),
        ),
    ),
    (
        "What is sold",
        (
            ("SKUs", "tenants_sku"),
            ("Prices", "tenants_skuprice"),
            ("Tiers", "tenants_slatier"),
            ("Resource classes", "tenants_resourceclass"),
            ("Envelopes", "tenants_envelope"),
            ("Quota counters", "tenants_quotacounter"),
            ("Images", "placement_image"),
        ),
    ),
    (
        "Fleet",
        (
            ("Nodes", "placement_node"),
            ("Slots", "placement_slot"),
            ("GPUs", "placement_gpudevice"),
            ("Families", "placement_nodefamily"),
            ("Pools", "placement_pool"),
            ("Drains", "placement_nodedrain"),
            ("Credentials", "placement_nodecredential"),
            ("Node tasks", "placement_nodetask"),
        ),
    ),
    (
        "Leases",
        (
            ("Requests", "admission_admissionrequest"),
            ("Decisions", "admission_decision"),
            ("Allocations", "placement_allocation"),
            ("Claims", "placement_claim"),
            ("Cleanup proofs", "placement_cleanupproof"),
            ("Cleanup overrides", "placement_cleanupoverride"),
        ),
    ),
    (
        "Record",
        (
            ("Events", "kernel_event"),
            ("Seals", "kernel_eventseal"),
            ("Deliveries", "kernel_delivery"),
            ("Runs", "kernel_workflowrun"),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups of record lists, with the way back to the console first.

    Lists that no group names come last, so that a new record is never out of reach.
    """
    known = {
        f"{model._meta.app_label}_{model._meta.model_name}": str(model._meta.verbose_name_plural)
        for model in admin.site._registry
    }
    groups = [(title, [(t, n) for t, n in items if n in known]) for title, items in _GROUPS]
    named = {name for _, items in groups for _, name in items}
    rest = [(title.capitalize(), name) for name, title in known.items() if name not in named]
    groups.append(("More", sorted(rest)))
    home = {"title": "", "items": [{"title": "Console", "link": reverse("console:home")}]}
    return [
        home,
        *(
            {
                "title": title,
                "separator": True,
                "items": [
                    {"title": words, "link": reverse(f"admin:{name}_changelist")}
                    for words, name in items
                ],
            }
            for title, items in groups
            if items
        ),
    ]
