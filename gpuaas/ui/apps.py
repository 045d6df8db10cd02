"""Django's entry for what portal and console share."""

from __future__ import annotations

from django.apps import AppConfig


class UiConfig(AppConfig):
    """The frame has no tables."""

    name = "gpuaas.ui"
    label = "ui"
