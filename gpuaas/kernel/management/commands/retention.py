"""For how long are rows kept that are over?  Shown, and set.

manage.py retention
manage.py retention drift --days 180 --reason "an auditor looks twice a year"
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gpuaas.kernel.actor import system
from gpuaas.kernel.errors import ProductError
from gpuaas.kernel.retention import retention_list, retention_set


class Command(BaseCommand):
    """Without a name it lists what there is; with one it sets its days."""

    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        """The days count from when a row was over."""
        parser.add_argument("name", nargs="?", default="")
        parser.add_argument("--days", type=int)
        parser.add_argument("--reason", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        """List, or set."""
        if options["name"]:
            if options["days"] is None:
                raise CommandError("say for how many --days")
            try:
                retention_set(
                    name=options["name"],
                    days=options["days"],
                    reason=options["reason"],
                    actor=system("operator"),
                )
            except ProductError as refused:
                raise CommandError(refused.detail or refused.title) from refused
        for kept in retention_list():
            note = " (default)" if kept.default else ""
            self.stdout.write(f"{kept.name}: {kept.days} days{note}")
