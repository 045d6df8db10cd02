"""Which views stand behind which route names?  Read from the URL configuration itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver


@dataclass(frozen=True, slots=True)
class Route:
    """One address of the api."""

    name: str
    pattern: str
    callback: Any

    @property
    def view(self) -> type | None:
        """The class behind it, or None for a plain function."""
        return getattr(self.callback, "cls", None)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods it answers, without HEAD."""
        if self.view is None:
            return ("GET",)
        names = ("get", "post", "put", "patch", "delete")
        return tuple(name.upper() for name in names if hasattr(self.view, name))


def _walk(patterns: list[Any], prefix: str) -> Iterator[Route]:
    for entry in patterns:
        here = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _walk(entry.url_patterns, here)
        elif isinstance(entry, URLPattern):
            yield Route(entry.name or "", f"/{here}", entry.callback)


@lru_cache(maxsize=1)
def routes() -> tuple[Route, ...]:
    """Every address of the api's namespace."""
    for entry in get_resolver().url_patterns:
        if isinstance(entry, URLResolver) and entry.app_name == "api":
            return tuple(_walk(entry.url_patterns, str(entry.pattern)))
    return ()


def view_routes() -> tuple[tuple[str, type], ...]:
    """(route name, view class) of every address that has a class."""
    return tuple((route.name, route.view) for route in routes() if route.view is not None)
