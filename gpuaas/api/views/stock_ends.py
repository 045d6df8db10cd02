"""How does an operator rename a pool, a kind of hosts or a SKU, and end it?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Query
from gpuaas.api.serializers import stock as wire
from gpuaas.api.serializers.catalogue import SkuOut
from gpuaas.api.serializers.common import Reasoned
from gpuaas.api.views.catalogue import skus_shown
from gpuaas.kernel import errors
from placement.models import NodeFamily, Pool
from placement.selectors import family_list, pool_list
from placement.selectors.uses import Uses, family_uses, pool_uses, sku_uses
from placement.services import stock_ends
from tenants.models import Sku
from tenants.selectors import sku_list
from tenants.services import catalogue


def uses_shown(name: str, uses: Uses) -> dict[str, Any]:
    """The representation of what uses it."""
    body = {
        "name": name,
        "uses": [
            {"what": what, "now": uses.now.get(what, 0), "ever": count}
            for what, count in uses.ever.items()
        ],
        "may_retire": uses.may_retire,
        "may_remove": uses.may_remove,
    }
    return dict(wire.UsesOut(body).data)


def _pool(name: str) -> Pool:
    row = pool_list().filter(name=name).first()
    if row is None:
        raise errors.NotFound
    return row


def _family(name: str) -> NodeFamily:
    row = family_list().filter(name=name).first()
    if row is None:
        raise errors.NotFound
    return row


def _sku(name: str) -> Sku:
    row = sku_list(drafts=True).filter(name=name).first()
    if row is None:
        raise errors.NotFound
    return row


class PoolDetail(OperatorView):
    """One pool."""

    also_fails = (409,)

    @extend_schema(operation_id="pool_get", tags=["nodes"], responses=wire.PoolOut)
    def get(self, request: Request, pool: str) -> Response:
        """A pool by name."""
        Query.read(request.query_params)
        return Response(wire.PoolOut(_pool(pool)).data)

    @extend_schema(operation_id="pool_remove", tags=["nodes"], responses={204: None})
    def delete(self, request: Request, pool: str) -> Response:
        """Take it away. Refused with counts where something ever used it."""
        stock_ends.pool_remove(name=pool, actor=self.actor)
        return Response(status=204)


class PoolTitle(OperatorView):
    """What people read."""

    @extend_schema(
        operation_id="pool_rename",
        tags=["nodes"],
        request=wire.PoolTitleIn,
        responses=wire.PoolOut,
    )
    def put(self, request: Request, pool: str) -> Response:
        """Give it another title. Its name is for good."""
        given = wire.PoolTitleIn.read(request.data)
        stock_ends.pool_rename(name=pool, actor=self.actor, **given)
        return Response(wire.PoolOut(_pool(pool)).data)


class PoolUses(OperatorView):
    """What uses a pool."""

    @extend_schema(operation_id="pool_uses", tags=["nodes"], responses=wire.UsesOut)
    def get(self, request: Request, pool: str) -> Response:
        """What uses it now and what ever did, counted."""
        Query.read(request.query_params)
        return Response(uses_shown(pool, pool_uses(_pool(pool))))


class PoolRetire(OperatorView):
    """The end of a pool that has a past."""

    @extend_schema(
        operation_id="pool_retire", tags=["nodes"], request=Reasoned, responses=wire.PoolOut
    )
    def post(self, request: Request, pool: str) -> Response:
        """No host comes into it any more. Refused with counts while something is in it."""
        given = Reasoned.read(request.data)
        stock_ends.pool_retire(name=pool, reason=given["reason"], actor=self.actor)
        return Response(wire.PoolOut(_pool(pool)).data)


class FamilyDetail(OperatorView):
    """One kind of hosts."""

    also_fails = (409,)

    @extend_schema(operation_id="family_get", tags=["nodes"], responses=wire.FamilyOut)
    def get(self, request: Request, family: str) -> Response:
        """A family by name."""
        Query.read(request.query_params)
        return Response(wire.FamilyOut(_family(family)).data)

    @extend_schema(operation_id="family_remove", tags=["nodes"], responses={204: None})
    def delete(self, request: Request, family: str) -> Response:
        """Take it away. Refused with counts where something ever used it."""
        stock_ends.family_remove(name=family, actor=self.actor)
        return Response(status=204)


class FamilyTitle(OperatorView):
    """What people read."""

    @extend_schema(
        operation_id="family_rename",
        tags=["nodes"],
        request=wire.FamilyTitleIn,
        responses=wire.FamilyOut,
    )
    def put(self, request: Request, family: str) -> Response:
        """Give it another title, or say otherwise what its GPU is. Its name is for good."""
        given = wire.FamilyTitleIn.read(request.data)
        stock_ends.family_rename(name=family, actor=self.actor, **given)
        return Response(wire.FamilyOut(_family(family)).data)


class FamilyUses(OperatorView):
    """What uses a family."""

    @extend_schema(operation_id="family_uses", tags=["nodes"], responses=wire.UsesOut)
    def get(self, request: Request, family: str) -> Response:
        """What uses it now and what ever did, counted."""
        Query.read(request.query_params)
        return Response(uses_shown(family, family_uses(_family(family))))


class FamilyRetire(OperatorView):
    """The end of a family that has a past."""

    @extend_schema(
        operation_id="family_retire", tags=["nodes"], request=Reasoned, responses=wire.FamilyOut
    )
    def post(self, request: Request, family: str) -> Response:
        """No host is approved as it any more. Refused with counts while hosts or SKUs are of it."""
        given = Reasoned.read(request.data)
        stock_ends.family_retire(name=family, reason=given["reason"], actor=self.actor)
        return Response(wire.FamilyOut(_family(family)).data)


class SkuUses(OperatorView):
    """What uses a SKU."""

    @extend_schema(operation_id="sku_uses", tags=["catalogue"], responses=wire.UsesOut)
    def get(self, request: Request, sku: str) -> Response:
        """What uses it now and what ever did, counted. It may be retired in use: that goes on."""
        Query.read(request.query_params)
        return Response(uses_shown(sku, sku_uses(_sku(sku))))


class SkuTitle(OperatorView):
    """What people read."""

    @extend_schema(
        operation_id="sku_rename",
        tags=["catalogue"],
        request=wire.SkuTitleIn,
        responses=SkuOut,
    )
    def put(self, request: Request, sku: str) -> Response:
        """Give it another title or description. Its name is for good."""
        given = wire.SkuTitleIn.read(request.data)
        row = catalogue.sku_rename(sku=_sku(sku).name, actor=self.actor, **given)
        return Response(SkuOut(skus_shown([row])[0]).data)
