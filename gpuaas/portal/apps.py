"""Django's entry for the portal."""

from __future__ import annotations

from django.apps import AppConfig


class PortalConfig(AppConfig):
    """The portal has no tables of its own."""

    name = "gpuaas.portal"
    label = "portal"
