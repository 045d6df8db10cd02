"""Django's entry for the console."""

from __future__ import annotations

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The console has no tables of its own."""

    name = "gpuaas.console"
    label = "console"
