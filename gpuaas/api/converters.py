"""What may stand for a name in an address?"""

from __future__ import annotations

from django.urls import register_converter


class NameConverter:
    """A name or id in a path: nothing in it that a database or a log could trip over."""

    regex = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"

    def to_python(self, value: str) -> str:
        """As it is."""
        return value

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


register_converter(NameConverter, "name")

NODE = "nodes/<name:node>"
"""Where one host is; whoever builds addresses with a name in them imports this module first."""
