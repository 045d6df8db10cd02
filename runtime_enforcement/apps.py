"""Watches what runs, and acts downward."""

from __future__ import annotations

from django.apps import AppConfig


class RuntimeEnforcementConfig(AppConfig):
    """Django's entry for the app."""

    name = "runtime_enforcement"
    default_auto_field = "django.db.models.BigAutoField"
