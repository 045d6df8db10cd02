"""Which reason codes are there?  Printed from the catalogue, never listed by hand."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from gpuaas.kernel.errors import catalogue
from gpuaas.kernel.hints import Surface, worded


def page() -> str:
    """The Markdown page of every code."""
    lines = [
        "# Reason codes",
        "",
        "Every refusal, wait and failure carries one of these, the same in API, CLI, portal and",
        "metrics. A code is permanent. The running product shows each on `/docs/reasons/<code>`.",
        "",
        "What would help is told here in the words of the API; the command line and the pages name",
        "the same step in theirs.",
        "",
        "Printed from the catalogue in the code by `manage.py reasons_print`.",
        "",
        "| code | status | means | what would help |",
        "|---|---|---|---|",
    ]
    for code, entry in catalogue().items():
        again = " (try again)" if entry.retryable else ""
        unblock = worded(entry.hint, Surface.API).replace("|", "\\|")
        lines.append(f"| `{code}` | {entry.status}{again} | {entry.title} | {unblock} |")
    return "\n".join(lines) + "\n"


class Command(BaseCommand):
    """Write docs/reason-codes.md, or compare. ``--check`` ends with 1 when it differs."""

    help = "Write docs/reason-codes.md from the catalogue; --check compares and changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = settings.BASE_DIR / "docs" / "reason-codes.md"
        wanted = page()
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if options["check"]:
            if there != wanted:
                self.stderr.write("docs/reason-codes.md is not what the catalogue says")
                sys.exit(1)
            return
        path.write_text(wanted, encoding="utf-8")
        self.stdout.write(f"{len(catalogue())} codes")
