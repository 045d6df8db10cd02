"""Is the event chain what was written?"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand
from django.db import Error

from gpuaas.kernel import verifier


class Command(BaseCommand):
    """Walk the chains. Ends with 0 nothing found, 1 error, 3 found."""

    help = (
        "Verify the hash chains of events against their seals and the heads file in the data "
        "folder. After a restore to an earlier time the file is ahead of the database and says "
        "so: keep it as evidence elsewhere, and the next seal starts a new one. "
        "Exit code: 0 nothing found, 1 error, 3 found."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", type=UUID, help="only this tenant's chain")
        parser.add_argument("--heads", type=Path, help="another heads file to compare with")

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        try:
            report = verifier.verify(options["tenant"], options["heads"])
        except (Error, OSError) as error:
            self.stderr.write(f"could not verify: {error}")
            sys.exit(1)
        for flaw in report.flaws:
            place = "" if flaw.seq is None else f" at {flaw.seq}"
            event = "" if flaw.event is None else f" (event {flaw.event})"
            self.stdout.write(f"{flaw.code}: chain {flaw.chain}{place}{event}: {flaw.detail}")
        if report.found > len(report.flaws):
            self.stdout.write(f"… and {report.found - len(report.flaws)} more")
        self.stdout.write(
            f"{report.links} events in {report.chains} chains, {report.found} findings, "
            f"{time.monotonic() - began:.1f} s"
        )
        if report.found:
            sys.exit(3)
