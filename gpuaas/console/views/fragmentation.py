"""What of the idle capacity can each product not use, why, and what would help?"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from gpuaas.console.pages import ConsolePage
from gpuaas.console.spread import bar, histogram, part_bar, parts_of, stretches_of
from gpuaas.ui.frame import Crumb
from placement.services.fragmentation import fragmentation_list, part_fragmentation_list


class Fragmentation(ConsolePage):
    """Every published product: a bar, the hosts by open slots, and tables that say the same.

    Products that are parts of GPUs have bars of the GPUs that are cut.
    """

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here."""
        return (Crumb("Fragmentation"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """The page."""
        accounts = fragmentation_list()
        return self.page(
            "console/fragmentation.html",
            accounts=[
                {
                    "account": one,
                    "found": one.found,
                    "bar": bar(one.found),
                    "parts": [part for part in parts_of(one.found) if part.slots],
                    "histogram": histogram(one.found),
                    "helps": one.helps(),
                }
                for one in accounts
            ],
            parts=[
                {
                    "account": one,
                    "found": one.found,
                    "bar": part_bar(one.found),
                    "stretches": [part for part in stretches_of(one.found) if part.slots],
                    "helps": one.helps(),
                }
                for one in part_fragmentation_list()
            ],
        )
