"""How does a list go to a spreadsheet, without its cells being run as formulas?"""

from __future__ import annotations

import csv
from collections.abc import Iterable

from django.http import HttpResponse


def inert(text: str) -> str:
    """A spreadsheet would run a cell that begins like a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t"} else text


def sheet(name: str, lines: Iterable[Iterable[object]]) -> HttpResponse:
    """The answer that saves the lines as ``name``.csv; the first line has the columns' names."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    csv.writer(response).writerows(lines)
    return response
