"""Which addresses does the console answer?"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from gpuaas.console.views import (
    allocations,
    approvals,
    break_glass,
    home,
    levels,
    nodes,
    policies,
    records,
    search,
    tenants,
)

app_name = "console"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.Home.as_view(), name="home"),
    path("fleet/", home.Fleet.as_view(), name="fleet"),
    path("nodes/", nodes.Nodes.as_view(), name="nodes"),
    path("nodes/<str:name>/", nodes.NodePage.as_view(), name="node"),
    path("nodes/<str:name>/join-token/", nodes.JoinTokenPage.as_view(), name="node-join-token"),
    path("nodes/<str:name>/live/", nodes.NodeLive.as_view(), name="node-live"),
    path(
        "nodes/<str:name>/slot/",
        nodes.ActOnSlot.as_view(),
        name="node-slot",
    ),
    path(
        "nodes/<str:name>/slots/<uuid:slot>/<str:action>/",
        nodes.OverrideSlot.as_view(),
        name="node-slot-override",
    ),
    path("nodes/<str:name>/<str:action>/", nodes.ActOnNode.as_view(), name="node-act"),
    path("tasks/", records.Tasks.as_view(), name="tasks"),
    path("tasks/<uuid:pk>/", records.TaskPage.as_view(), name="task"),
    path("decisions/", records.Decisions.as_view(), name="decisions"),
    path("requests/<uuid:pk>/", records.RequestPage.as_view(), name="request"),
    path("approvals/", approvals.Approvals.as_view(), name="approvals"),
    path("approvals/<uuid:pk>/<str:action>/", approvals.DecideWish.as_view(), name="wish-act"),
    path("policies/", policies.Policies.as_view(), name="policies"),
    path("policies/<uuid:pk>/", policies.PolicyPage.as_view(), name="policy"),
    path("policies/<uuid:pk>/<str:action>/", policies.ActOnPolicy.as_view(), name="policy-act"),
    path("tiers/", levels.Tiers.as_view(), name="tiers"),
    path("tenants/<slug:slug>/authority/", levels.Authority.as_view(), name="authority"),
    path(
        "tenants/<slug:slug>/authority/<str:action>/",
        levels.ActOnAuthority.as_view(),
        name="authority-act",
    ),
    path("tenants/", tenants.Tenants.as_view(), name="tenants"),
    path("tenants/<slug:slug>/", tenants.TenantPage.as_view(), name="tenant"),
    path("tenants/<slug:slug>/envelope/", tenants.SetEnvelope.as_view(), name="tenant-envelope"),
    path("tenants/<slug:slug>/break-glass/", break_glass.Open.as_view(), name="break-glass-open"),
    path("break-glass/", break_glass.Windows.as_view(), name="break-glass"),
    path("break-glass/<uuid:pk>/end/", break_glass.End.as_view(), name="break-glass-end"),
    path("tenants/<slug:slug>/<str:action>/", tenants.ActOnTenant.as_view(), name="tenant-act"),
    path("allocations/", allocations.Allocations.as_view(), name="allocations"),
    path("allocations/<uuid:pk>/", allocations.AllocationPage.as_view(), name="allocation"),
    path(
        "allocations/<uuid:pk>/<str:action>/",
        allocations.ActOnAllocation.as_view(),
        name="allocation-act",
    ),
    path("search/", search.Search.as_view(), name="search"),
]
