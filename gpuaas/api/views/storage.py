"""Which storage is offered, in which a tenant's data may lie?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import authority as wire
from gpuaas.api.serializers.common import Reasoned
from tenants import selectors
from tenants.services import storage


def _offered(query: Mapping[str, Any]) -> dict[str, Any]:
    return dict(
        wire.StorageList(part(list(selectors.storage_list()), query=query, name="storage")).data
    )


class Storages(OperatorView):
    """What is offered."""

    @extend_schema(
        operation_id="storage_list",
        tags=["datasets"],
        parameters=[Short],
        responses=wire.StorageList,
    )
    def get(self, request: Request) -> Response:
        """Storage by name, in the version that holds."""
        return Response(_offered(Short.read(request.query_params)))

    @extend_schema(
        operation_id="storage_declare",
        tags=["datasets"],
        request=wire.StorageIn,
        responses={201: wire.StorageOut},
        examples=examples.STORAGE,
    )
    def post(self, request: Request) -> Response:
        """Offer storage, as the next version of its name."""
        given = wire.StorageIn.read(request.data)
        row = storage.storage_declare(actor=self.actor, **given)
        row.refresh_from_db()
        return Response(wire.StorageOut(row).data, status=201)


class StorageRetire(OperatorView):
    """The end of an offer."""

    @extend_schema(
        operation_id="storage_retire",
        tags=["datasets"],
        request=Reasoned,
        responses=wire.StorageList,
    )
    def post(self, request: Request, storage_name: str) -> Response:
        """No data set may name it any more."""
        given = Reasoned.read(request.data)
        storage.storage_retire(name=storage_name, reason=given["reason"], actor=self.actor)
        return Response(_offered({}))
