"""How is the story told?  Chapters, with what was asked, decided and seen, and every check."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterable, Sequence

WIDTH = 96
LABEL = 9


class Broken(Exception):
    """A check did not hold; the message says what was expected and what was seen."""


class Teller:
    """Prints the story and counts its checks. Stops it at the first that does not hold."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.chapters = 0
        self.checks = 0

    def chapter(self, title: str) -> None:
        """Begin a part."""
        self.chapters += 1
        head = f"── {self.chapters} · {title} "
        took = f" {time.monotonic() - self.began:.1f} s"
        print(f"\n{head}{'─' * max(2, WIDTH - len(head) - len(took))}{took}", flush=True)

    def asked(self, text: str) -> None:
        """What somebody asked for."""
        self._line("asked", text)

    def decided(self, text: str) -> None:
        """What the control plane decided, and why."""
        self._line("decided", text)

    def seen(self, text: str) -> None:
        """What could be observed afterwards."""
        self._line("seen", text)

    def shown(self, lines: Iterable[str]) -> None:
        """What a command or a page shows, as it is."""
        for line in lines:
            print(f"     {'':<{LABEL}}│ {line}"[: WIDTH + 24].rstrip(), flush=True)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows under each other, the first being the heading."""
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        self.shown(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def check(self, what: str, holds: bool, seen: object = "") -> None:
        """One thing that must be so. Raises Broken when it is not."""
        if not holds:
            self._mark("✗", what)
            raise Broken(f"expected: {what}; seen: {seen}" if seen != "" else f"expected: {what}")
        self.checks += 1
        self._mark("✓", what)

    def _line(self, label: str, text: str) -> None:
        lines = textwrap.wrap(text, WIDTH - LABEL - 6) or [""]
        print(f"     {label:<{LABEL}}{lines[0]}", flush=True)
        for line in lines[1:]:
            print(f"     {'':<{LABEL}}{line}", flush=True)

    def _mark(self, mark: str, what: str) -> None:
        lines = textwrap.wrap(what, WIDTH - LABEL - 8)
        print(f"     {'':<{LABEL - 2}}{mark} {lines[0]}", flush=True)
        for line in lines[1:]:
            print(f"     {'':<{LABEL}}{line}", flush=True)
