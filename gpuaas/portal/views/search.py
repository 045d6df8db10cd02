"""Where is the thing whose name, id or code somebody has at hand?"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from admission.models import AdmissionRequest
from gpuaas.kernel.errors import catalogue
from gpuaas.portal.pages import TenantPage
from placement.models import Allocation
from tenants.models import Sku

MOST = 20


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing found."""

    kind: str
    title: str
    url: str
    state: str = ""


class Search(TenantPage):
    """Names, ids and reason codes of this tenant."""

    read_action = "catalogue:read"

    def get(self, request: HttpRequest) -> HttpResponse:
        """The hits; the only one, or the only exact one, is gone to at once."""
        words = request.GET.get("q", "").strip()[:120]
        hits = self.hits(words) if words else []
        exact = [hit for hit in hits if hit.title.lower() == words.lower()]
        if len(exact or hits) == 1:
            return redirect((exact or hits)[0].url)
        return self.page("portal/search.html", find=words, hits=hits)

    def hits(self, words: str) -> list[Hit]:
        """What the words lead to, best kinds first."""
        found: list[Hit] = []
        if self.may("allocations:read"):
            by = Q(name__icontains=words)
            pk = _uuid(words)
            if pk:
                by |= Q(pk=pk)
            rows = Allocation.objects.filter(by).order_by("-created_at")[:MOST]
            found += [
                Hit("Allocation", row.name, self.url("allocation", row.pk), row.state)
                for row in rows
            ]
            asked = AdmissionRequest.objects.filter(pk=pk) if pk else ()
            found += [
                Hit("Request", str(row.pk), self.url("request", row.pk), row.state) for row in asked
            ]
        skus = Sku.objects.filter(
            Q(name__icontains=words) | Q(title__icontains=words), state="published"
        )
        found += [
            Hit("SKU", sku.title, f"{self.url('launch')}?sku={sku.name}")
            for sku in skus.order_by("name")[:MOST]
        ]
        found += [
            Hit("Project", p.name, f"{self.url('allocations')}?project={p.slug}")
            for p in self.projects
            if words.lower() in p.name.lower()
        ]
        found += [
            Hit("Reason", entry.code, reverse("portal:reason", args=[entry.code]))
            for entry in catalogue().values()
            if words.lower().replace(" ", "_") in entry.code
        ]
        return found


def _uuid(words: str) -> UUID | None:
    try:
        return UUID(words)
    except ValueError:
        return None
