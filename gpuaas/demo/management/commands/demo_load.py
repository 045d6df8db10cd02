"""Bring the demo's people and catalogue into the database; what is there already stays."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from gpuaas.demo.load import load
from gpuaas.demo.logins import logins_kept
from gpuaas.demo.world import accounts
from gpuaas.kernel.errors import ProductError


class Command(BaseCommand):
    """``GPUAAS_DEMO=1 manage.py demo_load``: may be interrupted and repeated."""

    requires_system_checks = ()
    help = "Load the demo's operators, tenants and catalogue. Repeating it changes nothing."

    def handle(self, *args: Any, **options: Any) -> None:
        folder = settings.CONFIG.data_dir / "secrets"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        passwords = logins_kept(folder, [person.email for person in accounts()])
        try:
            load(passwords, self.stdout.write)
        except ProductError as error:
            raise CommandError(f"{error.code}: {error.detail}") from error
