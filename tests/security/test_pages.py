"""Who may open every page?  What the two tables say, held against a file for a reviewer.

After an intended change: ``WRITE_MATRIX=1 pytest tests/security/test_pages.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from django.urls import URLPattern, URLResolver, get_resolver

from gpuaas.portal.doors import DOORS, EVERY_MEMBER
from gpuaas.ui.needs import NOBODY
from gpuaas.ui.pages import OperatorView, SignedInView, TenantView
from tenants.domain import roles

GOLDEN = Path(__file__).with_name("pages.txt")
PLACES = ("portal", "console")


def pages() -> Iterator[tuple[str, str, type | None]]:
    """(name, address, view class or None) of every page of ours."""

    def walk(
        patterns: list[URLPattern | URLResolver], prefix: str, place: str
    ) -> Iterator[tuple[str, str, type | None]]:
        for entry in patterns:
            here = prefix + str(entry.pattern)
            if isinstance(entry, URLResolver):
                inner = entry.namespace or place
                if inner in PLACES:
                    yield from walk(entry.url_patterns, here, inner)
            elif place or (entry.name or "").startswith("openid_connect"):
                name = f"{place}:{entry.name}" if place else str(entry.name)
                yield name, f"/{here}", getattr(entry.callback, "view_class", None)

    yield from walk(get_resolver().url_patterns, "", "")


def methods(view: type | None) -> list[str]:
    if view is None:
        return ["GET"]
    return [name for name in ("GET", "POST") if hasattr(view, name.lower())]


def rule(name: str, view: type | None, method: str) -> str:
    """Who is admitted, and by which action; '' for a page that declares nothing."""
    if name in DOORS:
        return f"door: {DOORS[name]}"
    if view is None or not issubclass(view, SignedInView):
        return ""
    needs = view.pages.get(name.partition(":")[2], NOBODY)
    action = needs.write if method == "POST" else needs.read
    if issubclass(view, OperatorView):
        return f"operator, {action}" if action in roles.OPERATOR_ACTIONS else ""
    if not issubclass(view, TenantView):
        return ""
    if not action and method == "GET" and name in EVERY_MEMBER:
        return f"member: {EVERY_MEMBER[name]}"
    return f"member, {action}" if action in roles.ACTIONS else ""


ROWS = [
    (method, name, address, rule(name, view, method))
    for name, address, view in pages()
    for method in methods(view)
]


def test_every_page_says_who_may_open_it() -> None:
    assert len(ROWS) > 60
    assert [f"{method} {name} {address}" for method, name, address, who in ROWS if not who] == []


def test_every_page_admits_whom_the_file_says() -> None:
    lines = [f"{method:<5}{name:<32}{who}" for method, name, _, who in sorted(ROWS)]
    text = "\n".join(lines) + "\n"
    if os.environ.get("WRITE_MATRIX"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_no_door_is_declared_for_a_page_that_is_not_there() -> None:
    assert sorted({*DOORS, *EVERY_MEMBER} - {name for _, name, _, _ in ROWS}) == []


def test_a_page_that_changes_something_asks_for_a_writing_action() -> None:
    changing = [who for method, _, _, who in ROWS if method == "POST" and "," in who]
    assert changing
    reading = [who for who in changing if who.endswith(":read")]
    assert reading == []
