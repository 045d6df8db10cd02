"""Django's entry for the api."""

from __future__ import annotations

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """The api has no tables of its own."""

    name = "gpuaas.api"
    label = "api"
