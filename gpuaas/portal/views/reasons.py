"""What does a reason code mean, and what would help?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.http import require_safe

from gpuaas.kernel.errors import Reason, catalogue
from gpuaas.ui.pages import not_found


def _matches(entry: Reason, words: str) -> bool:
    return words in f"{entry.code} {entry.title} {entry.unblock}".lower()


@method_decorator(require_safe, name="dispatch")
class Reasons(View):
    """Every code, for everybody."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The catalogue, or the part of it that has the words."""
        words = request.GET.get("q", "").strip().lower()[:60]
        entries = [e for e in catalogue().values() if not words or _matches(e, words)]
        return render(request, "portal/reasons.html", {"entries": entries, "words": words})


@method_decorator(require_safe, name="dispatch")
class ReasonPage(View):
    """One code."""

    def get(self, request: HttpRequest, code: str) -> HttpResponse:
        """Its page; it is the ``type`` of the problems that the API answers with."""
        entry = catalogue().get(code)
        if entry is None:
            return not_found(request)
        return render(request, "portal/reason.html", {"entry": entry})
