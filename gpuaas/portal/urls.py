"""Which addresses does the portal answer?"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from gpuaas.portal.views import (
    access,
    allocations,
    catalogue,
    datasets,
    decisions,
    home,
    invitation,
    launch,
    live,
    manage,
    projects,
    quota,
    reasons,
    requests,
    search,
    second_factor,
    session,
    tenant,
    workload_new,
    workloads,
)

app_name = "portal"

tenant_pages: list[URLPattern | URLResolver] = [
    path("", home.Home.as_view(), name="home"),
    path("catalogue/", catalogue.Catalogue.as_view(), name="catalogue"),
    path("launch/", launch.Launch.as_view(), name="launch"),
    path("allocations/", allocations.Allocations.as_view(), name="allocations"),
    path("allocations.csv", allocations.AllocationsCsv.as_view(), name="allocations-csv"),
    path("allocations/<uuid:pk>/", allocations.AllocationPage.as_view(), name="allocation"),
    path("allocations/<uuid:pk>/release/", allocations.Release.as_view(), name="release"),
    path("allocations/<uuid:pk>/rename/", allocations.Rename.as_view(), name="rename"),
    path("allocations/<uuid:pk>/live/", live.AllocationLive.as_view(), name="allocation-live"),
    path("live/", live.TenantLive.as_view(), name="live"),
    path("quota/", quota.Quota.as_view(), name="quota"),
    path("quota/<uuid:pk>/withdraw/", quota.WithdrawWish.as_view(), name="wish-withdraw"),
    path("decisions/", decisions.Decisions.as_view(), name="decisions"),
    path("workloads/", workloads.Workloads.as_view(), name="workloads"),
    path("workloads/new/", workload_new.NewWorkload.as_view(), name="workload-new"),
    path("workloads/<uuid:pk>/", workloads.WorkloadPage.as_view(), name="workload"),
    path("workloads/<uuid:pk>/<slug:verb>/", workloads.WorkloadAct.as_view(), name="workload-act"),
    path("datasets/", datasets.DataSets.as_view(), name="datasets"),
    path("datasets/<path:name>/retire/", datasets.RetireDataSet.as_view(), name="dataset-retire"),
    path("datasets/<path:name>/", datasets.DataSetPage.as_view(), name="dataset"),
    path("requests/", requests.Requests.as_view(), name="requests"),
    path("requests/<uuid:pk>/", requests.RequestPage.as_view(), name="request"),
    path("requests/<uuid:pk>/withdraw/", requests.Withdraw.as_view(), name="withdraw"),
    path("team/", manage.Team.as_view(), name="team"),
    path("team/projects/", manage.NewProject.as_view(), name="project-new"),
    path("team/projects/<slug:slug>/", projects.ProjectPage.as_view(), name="project"),
    path("team/projects/<slug:slug>/limit/", projects.LimitProject.as_view(), name="project-limit"),
    path(
        "team/projects/<slug:slug>/delete/", projects.DeleteProject.as_view(), name="project-delete"
    ),
    path("team/members/<uuid:pk>/role/", manage.SetRole.as_view(), name="member-role"),
    path("team/members/<uuid:pk>/remove/", manage.RemoveMember.as_view(), name="member-remove"),
    path("tenant/", tenant.TenantFacts.as_view(), name="tenant"),
    path("tenant/delete/", tenant.DeleteTenant.as_view(), name="tenant-delete"),
    path("team/members/", manage.SetMember.as_view(), name="member-set"),
    path("access/", access.Access.as_view(), name="access"),
    path("access/invitations/", access.Invite.as_view(), name="invite"),
    path(
        "access/invitations/<uuid:pk>/revoke/", access.Uninvite.as_view(), name="invitation-revoke"
    ),
    path("access/programs/", access.NewProgram.as_view(), name="program-new"),
    path("access/programs/<uuid:pk>/tokens/", access.ProgramToken.as_view(), name="program-token"),
    path("access/programs/<uuid:pk>/disable/", access.EndProgram.as_view(), name="program-disable"),
    path("tokens/", manage.Tokens.as_view(), name="tokens"),
    path("tokens/<uuid:pk>/revoke/", manage.RevokeToken.as_view(), name="token-revoke"),
    path("ssh-keys/", manage.SshKeys.as_view(), name="ssh-keys"),
    path("ssh-keys/<uuid:pk>/delete/", manage.DeleteSshKey.as_view(), name="ssh-key-delete"),
    path("search/", search.Search.as_view(), name="search"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.front_door, name="front-door"),
    path("t/<slug:tenant>/", include(tenant_pages)),
    path("sign-in/", session.SignIn.as_view(), name="sign-in"),
    path("sign-out/", session.SignOut.as_view(), name="sign-out"),
    path("sign-up/", session.SignUp.as_view(), name="sign-up"),
    path("second-factor/", second_factor.Verify.as_view(), name="second-factor"),
    path("second-factor/set-up/", second_factor.SetUp.as_view(), name="second-factor-setup"),
    path("security/", second_factor.Security.as_view(), name="security"),
    path("security/codes/", second_factor.RenewCodes.as_view(), name="recovery-codes"),
    path("security/remove/", second_factor.Remove.as_view(), name="second-factor-remove"),
    path("invitation/<str:secret>/", invitation.Accept.as_view(), name="invitation"),
    path("theme/", session.Theme.as_view(), name="theme"),
    path("password/", session.PasswordChange.as_view(), name="password-change"),
    path("password/reset/", session.ResetAsk.as_view(), name="password-reset"),
    path("password/reset/sent/", session.ResetSent.as_view(), name="password-reset-sent"),
    path("password/reset/<uidb64>/<token>/", session.ResetSet.as_view(), name="password-reset-set"),
    path("docs/reasons/", reasons.Reasons.as_view(), name="reasons"),
    path("docs/reasons/<slug:code>", reasons.ReasonPage.as_view(), name="reason"),
]
