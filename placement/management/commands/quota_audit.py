"""Is every tenant charged what it holds? The audits of counters and envelopes."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

NAMES = ["placement.quota", "tenants.envelopes"]


class Command(BaseCommand):
    """The same as ``audits`` with these names."""

    help = f"Audit {', '.join(NAMES)}. Exit code: 0 nothing found, 1 error, 3 found."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object a finding")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("audits", name=NAMES, json=options["json"], stdout=self.stdout)
