"""Which address leads where?"""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("gpuaas.api.urls")),
    path("console/", include("gpuaas.console.urls")),
    path("", include("gpuaas.portal.urls")),
]

handler400 = "gpuaas.api.problems.handler400"
handler403 = "gpuaas.api.problems.handler403"
handler404 = "gpuaas.api.problems.handler404"
handler500 = "gpuaas.api.problems.handler500"
