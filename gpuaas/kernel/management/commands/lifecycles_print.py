"""What do the lifecycles look like?  Printed from the tables, never drawn by hand."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from gpuaas.kernel.lifecycle import Lifecycle, registered


def page(lifecycle: Lifecycle) -> str:
    """The Markdown page of one noun."""
    final = sorted(str(state) for state in lifecycle.final)
    lines = [
        f"# {lifecycle.noun}",
        "",
        "Printed from the table in the code by `manage.py lifecycles_print`.",
        "",
        "```mermaid",
        lifecycle.mermaid(),
        "```",
        "",
        f"Begins at `{lifecycle.initial}`. Final: "
        + (", ".join(f"`{state}`" for state in final) or "none")
        + ".",
        "",
        "| move | from | to | by |",
        "|---|---|---|---|",
    ]
    for edge in lifecycle.edges.values():
        sources = ", ".join(f"`{source}`" for source in edge.sources)
        lines.append(f"| {edge.name} | {sources} | `{edge.target}` | {edge.by} |")
    return "\n".join(lines) + "\n"


class Command(BaseCommand):
    """Write a page per lifecycle, or compare. ``--check`` ends with 1 when a page differs."""

    help = "Write docs/lifecycles from the lifecycle tables; --check compares and changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true")
        parser.add_argument("--folder", type=Path, default=None)

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"] or settings.BASE_DIR / "docs" / "lifecycles"
        pages = {f"{noun.split('.')[-1]}.md": page(each) for noun, each in registered().items()}
        there = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.md")}
        different = sorted(n for n in pages | there if pages.get(n) != there.get(n))
        if options["check"]:
            for name in different:
                self.stderr.write(f"{name} is not what the tables say")
            if different:
                sys.exit(1)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name in different:
            if name in pages:
                (folder / name).write_text(pages[name], encoding="utf-8")
            else:
                (folder / name).unlink()
        self.stdout.write(f"{len(pages)} lifecycles, {len(different)} pages changed")
