"""Who they are, what is sold, and how much is theirs."""

from __future__ import annotations

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """Django's entry for the app."""

    name = "tenants"
    default_auto_field = "django.db.models.BigAutoField"
