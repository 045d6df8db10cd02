"""Are the platform's invariants so, now?"""

from __future__ import annotations

import json
import sys
import traceback
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.kernel import audits


class Command(BaseCommand):
    """Ask every audit, or those named. Ends with 0 nothing found, 1 error, 3 found."""

    help = "Check the platform's invariants. Exit code: 0 nothing found, 1 error, 3 found."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--name", action="append", help="only this audit; may be repeated")
        parser.add_argument("--list", action="store_true", help="name the audits and end")
        parser.add_argument("--json", action="store_true", help="one JSON object a finding")

    def handle(self, *args: Any, **options: Any) -> None:
        known = audits.registered()
        if options["list"]:
            self.stdout.write("\n".join(known))
            return
        names = options["name"] or list(known)
        strange = sorted(set(names) - set(known))
        if strange:
            raise CommandError(f"no audit is named {', '.join(strange)}; see --list")
        found = failed = 0
        for name in names:
            try:
                findings = known[name]()
            except Exception:
                failed += 1
                self.stderr.write(f"{name}: could not be asked\n{traceback.format_exc()}")
                continue
            found += len(findings)
            for finding in findings:
                if options["json"]:
                    self.stdout.write(json.dumps({"audit": name, **asdict(finding)}, default=str))
                else:
                    line = f"{name}: {finding.code}: {finding.subject}: {finding.detail}"
                    self.stdout.write(line)
        if not options["json"]:
            self.stdout.write(f"{len(names)} audits, {found} findings, {failed} errors")
        if failed or found:
            sys.exit(1 if failed else 3)
