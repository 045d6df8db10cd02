"""Whether a tenant's action may happen, and in what order."""

from __future__ import annotations

from django.apps import AppConfig


class AdmissionConfig(AppConfig):
    """Django's entry for the app."""

    name = "admission"
    default_auto_field = "django.db.models.BigAutoField"
