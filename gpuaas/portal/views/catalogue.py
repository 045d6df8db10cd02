"""What is sold, for how much, and how much of it could be had this minute?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from gpuaas.portal.pages import TenantPage
from gpuaas.ui.formats import HOURS_A_MONTH


class Catalogue(TenantPage):
    """Every SKU with its price and its largest request that fits."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page, by shape."""
        return self.page(
            "portal/catalogue.html",
            offers=self.offers,
            hours_a_month=HOURS_A_MONTH,
            may_launch=self.may("allocations:write"),
        )
