"""Which pools, kinds of hosts and images are there, and how does an operator add one?"""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView, TenantView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import page
from gpuaas.api.serializers import catalogue as shelf
from gpuaas.api.serializers import stock as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from placement.models import Image
from placement.selectors import family_list, pool_list
from placement.services import stock


class Pools(OperatorView):
    """Sets of hosts."""

    @extend_schema(
        operation_id="pool_list",
        tags=["nodes"],
        parameters=[Paged],
        responses=page_of(wire.PoolOut, "Pool"),
    )
    def get(self, request: Request) -> Response:
        """Pools by name, with the number of their hosts."""
        return Response(
            page(
                pool_list(),
                query=Paged.read(request.query_params),
                name="pools",
                order=("name",),
                render=lambda found: wire.PoolOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="pool_create",
        tags=["nodes"],
        request=wire.PoolIn,
        responses={201: wire.PoolOut},
    )
    def post(self, request: Request) -> Response:
        """Make a pool."""
        row = stock.pool_create(**wire.PoolIn.read(request.data), actor=self.actor)
        return Response(wire.PoolOut(pool_list().get(pk=row.pk)).data, status=201)


class Families(OperatorView):
    """Kinds of hosts."""

    @extend_schema(
        operation_id="family_list",
        tags=["nodes"],
        parameters=[Paged],
        responses=page_of(wire.FamilyOut, "Family"),
    )
    def get(self, request: Request) -> Response:
        """Families by name, with the number of their hosts."""
        return Response(
            page(
                family_list(),
                query=Paged.read(request.query_params),
                name="families",
                order=("name",),
                render=lambda found: wire.FamilyOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="family_create",
        tags=["nodes"],
        request=wire.FamilyIn,
        responses={201: wire.FamilyOut},
    )
    def post(self, request: Request) -> Response:
        """Name a kind of hosts, as which hosts of so many slots may be approved."""
        row = stock.family_create(**wire.FamilyIn.read(request.data), actor=self.actor)
        return Response(wire.FamilyOut(family_list().get(pk=row.pk)).data, status=201)


class Images(TenantView):
    """What leases start from."""

    @extend_schema(
        operation_id="image_list",
        tags=["catalogue"],
        parameters=[Paged],
        responses=page_of(shelf.ImageOut, "Image"),
    )
    def get(self, request: Request) -> Response:
        """Images in use, by name."""
        return Response(
            page(
                Image.objects.filter(retired_at__isnull=True),
                query=Paged.read(request.query_params),
                name="images",
                order=("name",),
                render=lambda found: shelf.ImageOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="image_create",
        tags=["catalogue"],
        request=wire.ImageIn,
        responses={201: shelf.ImageOut},
    )
    def post(self, request: Request) -> Response:
        """Offer an image that the hosts have (operators)."""
        row = stock.image_create(**wire.ImageIn.read(request.data), actor=self.actor)
        return Response(shelf.ImageOut(row).data, status=201)


class ImageRetire(OperatorView):
    """The end of an offer."""

    @extend_schema(
        operation_id="image_retire", tags=["catalogue"], request=Reasoned, responses=shelf.ImageOut
    )
    def post(self, request: Request, image: str) -> Response:
        """No lease starts from it any more; what runs goes on."""
        given = Reasoned.read(request.data)
        row = stock.image_retire(name=image, reason=given["reason"], actor=self.actor)
        return Response(shelf.ImageOut(row).data)
