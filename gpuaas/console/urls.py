"""Which addresses does the console answer?"""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

app_name = "console"
urlpatterns: list[URLPattern | URLResolver] = []
