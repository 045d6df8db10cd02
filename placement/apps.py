"""Inventory, where, claims, node tasks."""

from __future__ import annotations

from django.apps import AppConfig


class PlacementConfig(AppConfig):
    """Django's entry for the app."""

    name = "placement"
    default_auto_field = "django.db.models.BigAutoField"
