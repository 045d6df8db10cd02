"""What is sold, at what price, and what of it can be had now?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView, StaticView, TenantView
from gpuaas.api.fields import Paged, Short
from gpuaas.api.pagination import page, part
from gpuaas.api.serializers import catalogue as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from gpuaas.kernel import clock, errors
from gpuaas.kernel.scope import platform_scope
from placement import selectors as placement_selectors
from placement.services import stock_ends
from tenants import selectors
from tenants.models import Sku, SkuPrice
from tenants.services import catalogue

_SKU_FIELDS = (
    "id",
    "name",
    "title",
    "description",
    "shape",
    "family",
    "pool",
    "resource_class",
    "units_milli",
    "slots_min",
    "slots_max",
    "exclusive_nic",
    "isolation",
    "part_profile",
    "part_milli",
    "part_memory_mib",
    "state",
    "version",
)


def skus_shown(skus: list[Sku]) -> list[dict[str, Any]]:
    """SKUs with the price in force, in one more query however many there are."""
    prices = {
        price.sku_id: price
        for price in SkuPrice.objects.filter(effective_from__lte=clock.db_now(), sku__in=skus)
        .order_by("sku_id", "-effective_from")
        .distinct("sku_id")
    }
    shown = []
    for sku in skus:
        price = prices.get(sku.pk)
        fields: dict[str, Any] = {name: getattr(sku, name) for name in _SKU_FIELDS}
        fields["price_hour_micro"] = price.hour_micro if price else 0
        fields["currency"] = price.currency if price else "USD"
        shown.append(fields)
    return shown


class Skus(TenantView):
    """The catalogue."""

    @extend_schema(
        operation_id="sku_list",
        tags=["catalogue"],
        parameters=[Paged],
        responses=page_of(wire.SkuOut, "Sku"),
    )
    def get(self, request: Request) -> Response:
        """Published products by name; operators see drafts and retired ones too."""
        query = Paged.read(request.query_params)
        return Response(
            page(
                selectors.sku_list(drafts=self.actor.operator),
                query=query,
                name="skus",
                order=("name",),
                render=lambda found: wire.SkuOut(skus_shown(found), many=True).data,
            )
        )

    @extend_schema(
        operation_id="sku_create",
        tags=["catalogue"],
        request=wire.SkuIn,
        responses={201: wire.SkuOut},
    )
    def post(self, request: Request) -> Response:
        """Draft a product (operators)."""
        given = wire.SkuIn.read(request.data)
        sku = catalogue.sku_create(**given, actor=self.actor)
        sku.refresh_from_db()
        return Response(wire.SkuOut(skus_shown([sku])[0]).data, status=201)


def _sku(name: str, *, drafts: bool) -> Sku:
    sku = selectors.sku_list(drafts=drafts).filter(name=name).first()
    if sku is None:
        raise errors.NotFound
    return sku


class SkuDetail(TenantView):
    """One product."""

    also_fails = (409,)

    @extend_schema(operation_id="sku_get", tags=["catalogue"], responses=wire.SkuOut)
    def get(self, request: Request, sku: str) -> Response:
        """A product by name."""
        row = _sku(sku, drafts=self.actor.operator)
        return self.tagged(request, wire.SkuOut(skus_shown([row])[0]).data, version=row.version)

    @extend_schema(operation_id="sku_remove", tags=["catalogue"], responses={204: None})
    def delete(self, request: Request, sku: str) -> Response:
        """Take a product away with its prices (operators). Refused where something ever used it."""
        stock_ends.sku_remove(name=_sku(sku, drafts=True).name, actor=self.actor)
        return Response(status=204)


class SkuPublish(OperatorView):
    """Onto the shelf."""

    @extend_schema(
        operation_id="sku_publish", tags=["catalogue"], request=Reasoned, responses=wire.SkuOut
    )
    def post(self, request: Request, sku: str) -> Response:
        """Sell a draft product."""
        given = Reasoned.read(request.data)
        _sku(sku, drafts=True)
        row = catalogue.sku_publish(sku=sku, reason=given["reason"], actor=self.actor)
        return Response(wire.SkuOut(skus_shown([row])[0]).data)


class SkuRetire(OperatorView):
    """Off the shelf."""

    @extend_schema(
        operation_id="sku_retire", tags=["catalogue"], request=Reasoned, responses=wire.SkuOut
    )
    def post(self, request: Request, sku: str) -> Response:
        """Sell a product no more; what runs goes on."""
        given = Reasoned.read(request.data)
        _sku(sku, drafts=True)
        row = catalogue.sku_retire(sku=sku, reason=given["reason"], actor=self.actor)
        return Response(wire.SkuOut(skus_shown([row])[0]).data)


class SkuPriceNow(OperatorView):
    """A product's price."""

    @extend_schema(
        operation_id="sku_price_set",
        tags=["catalogue"],
        request=wire.PriceIn,
        responses=wire.PriceOut,
    )
    def put(self, request: Request, sku: str) -> Response:
        """Set the price from now on; leases keep theirs."""
        given = wire.PriceIn.read(request.data)
        _sku(sku, drafts=True)
        price = catalogue.price_set(sku=sku, hour_micro=given["hour_micro"], actor=self.actor)
        price.refresh_from_db()
        body = {
            "sku": sku,
            "hour_micro": price.hour_micro,
            "currency": price.currency,
            "effective_from": price.effective_from,
        }
        return Response(wire.PriceOut(body).data)


class Offers(TenantView):
    """What can be had now."""

    @extend_schema(
        operation_id="offer_list",
        tags=["catalogue"],
        parameters=[wire.OfferQuery],
        responses=wire.OfferList,
    )
    def get(self, request: Request) -> Response:
        """Every published product with its price, what is free now, and why when nothing is."""
        query = wire.OfferQuery.read(request.query_params)
        with platform_scope():
            offers = placement_selectors.offer_list(
                lasts_s=query.get("max_duration_s"), tenant_id=self.actor.tenant_id
            )
        items = [
            {
                "sku": offer.sku,
                "title": offer.title,
                "description": offer.description,
                "shape": offer.shape,
                "family": offer.family,
                "pool": offer.pool,
                "resource_class": offer.resource_class,
                "units_milli": offer.units_milli,
                "slots_min": offer.slots_min,
                "slots_max": offer.slots_max,
                "exclusive_nic": offer.exclusive_nic,
                "isolation": offer.isolation,
                "part_profile": offer.part_profile,
                "part_milli": offer.part_milli,
                "part_memory_mib": offer.part_memory_mib,
                "price_hour_micro": offer.price_hour_micro,
                "currency": offer.currency,
                "available_now": (
                    offer.available_nodes if offer.shape == "baremetal" else offer.available_slots
                ),
                "available_nodes": offer.available_nodes,
                "largest_fit": offer.largest_fit,
                "reason": offer.code,
                "detail": offer.detail,
                "closing_nodes": offer.closing_nodes,
                "shorter_fits_s": offer.shorter_fits_s,
            }
            for offer in offers
        ]
        return Response(wire.OfferList(part(items, query=query, name="offers")).data)


class OneReason(StaticView):
    """One permanent code."""

    @extend_schema(operation_id="reason_get", tags=["catalogue"], responses=wire.ReasonOut)
    def get(self, request: Request, code: str) -> Response:
        """What the code means and what would help, in the words of each surface."""
        entry = errors.entry_of(code)
        if entry is None:
            raise errors.NotFound(f"There is no reason code {code[:63]}.")
        return Response(wire.ReasonOut(entry).data)


class Reasons(StaticView):
    """The catalogue of permanent codes."""

    @extend_schema(
        operation_id="reason_list",
        tags=["catalogue"],
        parameters=[Short],
        responses=wire.ReasonList,
    )
    def get(self, request: Request) -> Response:
        """Every reason code: what it means and what would help."""
        query = Short.read(request.query_params)
        codes = list(errors.catalogue().values())
        return Response(wire.ReasonList(part(codes, query=query, name="reasons")).data)
