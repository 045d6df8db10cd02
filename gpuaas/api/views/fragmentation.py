"""What of the idle capacity can each product not use, and why?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.pagination import part
from gpuaas.api.serializers import placement as wire
from placement.services.fragmentation import (
    Account,
    PartAccount,
    fragmentation_list,
    part_fragmentation_list,
)

KEYS = ("items", "parts")


def account_shown(account: Account) -> dict[str, Any]:
    """The representation of one product's account."""
    found = account.found
    return {
        "sku": found.sku,
        "pool": account.pool,
        "family": account.family,
        "hosts": found.hosts,
        "slots": found.slots,
        "idle": found.idle,
        "open": found.open,
        "largest_fit": found.largest,
        "scattered_permille": found.scattered_permille,
        "fits": [{"size": f.size, "now": f.now, "ideal": f.ideal} for f in found.fits],
        "stranded": [
            {"cause": cause, "slots": slots, "help": text} for cause, slots, text in account.helps()
        ],
        "free_by_host": [{"free": n, "hosts": hosts} for n, hosts in found.histogram.items()],
    }


def part_account_shown(account: PartAccount) -> dict[str, Any]:
    """The representation of the account of a product that is a part."""
    found = account.found
    return {
        "sku": found.sku,
        "pool": account.pool,
        "family": account.family,
        "part": found.part,
        "cut_slots": found.cut_slots,
        "idle_milli": found.idle,
        "open_milli": found.open,
        "parts_now": found.now,
        "largest_fit": found.largest,
        "fits": [{"part": f.part, "now": f.now, "ideal": f.ideal} for f in found.fits],
        "stranded": [
            {"cause": cause, "milli": milli, "help": text} for cause, milli, text in account.helps()
        ],
    }


class Fragmentation(OperatorView):
    """Idle capacity by product."""

    also_fails = (404,)

    @extend_schema(
        operation_id="fragmentation_list",
        tags=["fragmentation"],
        parameters=[wire.FragmentationQuery],
        responses=wire.FragmentationList,
    )
    def get(self, request: Request) -> Response:
        """Of each published product: what is idle, what fits, and what strands the rest."""
        query = wire.FragmentationQuery.read(request.query_params)
        sku = query.get("sku", "")
        # One list of products in two shapes: a page goes on from the one to the other.
        items = [("items", account_shown(one)) for one in fragmentation_list(sku)]
        parts = [("parts", part_account_shown(one)) for one in part_fragmentation_list(sku)]
        shown = part([*items, *parts], query=query, name="fragmentation")
        body = {
            **{key: [one for noun, one in shown["items"] if noun == key] for key in KEYS},
            "next": shown["next"],
        }
        return Response(wire.FragmentationList(body).data)
