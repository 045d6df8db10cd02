"""The floor: events, lifecycles, workflow runs, errors, clock, ids, actor, scope."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from gpuaas.kernel import guards

ROOMS = ("errors", "workflows", "handlers", "ticks", "audits", "retention", "measures")
"""Modules that declare things by being imported, in whichever app has them."""


def install_guards(using: str = "default", **kwargs: Any) -> None:
    """After every migrate the database's own guards are brought up to the models.

    ``flush`` sends the same signal without a plan; nothing has changed then.
    """
    if "plan" in kwargs:
        guards.install(using)


class KernelConfig(AppConfig):
    """Django's entry for the kernel."""

    name = "gpuaas.kernel"
    label = "kernel"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(install_guards, sender=self, dispatch_uid="gpuaas.guards")
        autodiscover_modules(*ROOMS)
