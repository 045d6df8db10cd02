"""Which addresses does the portal answer?"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

app_name = "portal"
urlpatterns: list[URLPattern | URLResolver] = []
