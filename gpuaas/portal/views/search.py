"""Where is the thing whose name, id or code somebody has at hand?"""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from admission.models import AdmissionRequest
from gpuaas.portal.pages import TenantPage
from gpuaas.ui.search import MOST, Hit, reason_hits, straight_to, uuid_of, words_of
from placement.models import Allocation
from tenants.models import Sku


class Search(TenantPage):
    """Names, ids and reason codes of this tenant."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The hits; the only one, or the only exact one, is gone to at once."""
        words = words_of(request)
        hits = self.hits(words) if words else []
        return straight_to(words, hits) or self.page("portal/search.html", find=words, hits=hits)

    def hits(self, words: str) -> list[Hit]:
        """What the words lead to, best kinds first."""
        found: list[Hit] = []
        if self.may("allocations:read"):
            by = Q(name__icontains=words)
            pk = uuid_of(words)
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
        found += reason_hits(words)
        return found
