"""Which address leads where?"""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from gpuaas.portal.views import open_id, session

urlpatterns = [
    # One door: the portal's, with its lock, its second factor and its provider.
    path("admin/login/", session.admin_door),
    # allauth knows these two by their names.
    path("sign-in/with/<slug:provider_id>/", open_id.begin, name="openid_connect_login"),
    path("sign-in/with/<slug:provider_id>/back/", open_id.callback, name="openid_connect_callback"),
    path("admin/", admin.site.urls),
    path("", include("gpuaas.api.urls")),
    path("console/", include("gpuaas.console.urls")),
    path("", include("gpuaas.portal.urls")),
]

handler400 = "gpuaas.api.problems.handler400"
handler403 = "gpuaas.api.problems.handler403"
handler404 = "gpuaas.api.problems.handler404"
handler500 = "gpuaas.api.problems.handler500"
