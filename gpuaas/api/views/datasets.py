"""Where does a tenant's data lie, in which version, and who said so?"""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import TenantView
from gpuaas.api.fields import Paged, Query, Short
from gpuaas.api.pagination import page, part
from gpuaas.api.serializers import authority as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.kernel.errors import NotFound
from tenants import selectors
from tenants.models import DataSet
from tenants.services import datasets


def versions_of(view: TenantView, name: str) -> QuerySet[DataSet]:
    """Every version of a name in the caller's tenant, retired ones too. Raises NotFound."""
    rows = DataSet.objects.filter(tenant_id=view.tenant_id, name=name)
    if not rows.exists():
        raise NotFound
    return rows


class DataSets(TenantView):
    """Where the tenant's data lies."""

    @extend_schema(
        operation_id="dataset_list",
        tags=["datasets"],
        parameters=[Short],
        responses=wire.DataSetList,
    )
    def get(self, request: Request) -> Response:
        """Data sets by name, in the version that holds."""
        query = Short.read(request.query_params)
        rows = list(selectors.dataset_list(self.tenant_id))
        return Response(wire.DataSetList(part(rows, query=query, name="datasets")).data)

    @extend_schema(
        operation_id="dataset_declare",
        tags=["datasets"],
        request=wire.DataSetIn,
        responses={201: wire.DataSetOut},
        examples=examples.DATASET,
    )
    def post(self, request: Request) -> Response:
        """Say where data lies, as the next version of its name."""
        given = wire.DataSetIn.read(request.data)
        row = datasets.dataset_declare(tenant_id=self.tenant_id, actor=self.actor, **given)
        row.refresh_from_db()
        return Response(wire.DataSetOut(row).data, status=201)


class DataSetDetail(TenantView):
    """One data set."""

    @extend_schema(operation_id="dataset_get", tags=["datasets"], responses=wire.DataSetOut)
    def get(self, request: Request, dataset: str) -> Response:
        """A data set in the version that holds."""
        Query.read(request.query_params)
        row = selectors.dataset_list(self.tenant_id).filter(name=dataset).first()
        if row is None:
            raise NotFound
        return self.tagged(request, wire.DataSetOut(row).data, version=row.version)

    @extend_schema(operation_id="dataset_retire", tags=["datasets"], responses={204: None})
    def delete(self, request: Request, dataset: str) -> Response:
        """No request may name it any more; its versions stay in the record."""
        datasets.dataset_retire(tenant_id=self.tenant_id, name=dataset, actor=self.actor)
        return Response(status=204)


class DataSetVersions(TenantView):
    """How a data set came to lie where it does."""

    @extend_schema(
        operation_id="dataset_version_list",
        tags=["datasets"],
        parameters=[Paged],
        responses=page_of(wire.DataSetVersionOut, "DataSetVersion"),
    )
    def get(self, request: Request, dataset: str) -> Response:
        """Every version, the latest first, with who declared it."""
        return Response(
            page(
                versions_of(self, dataset),
                query=Paged.read(request.query_params),
                name="dataset-versions",
                order=("-version", "-id"),
                render=lambda rows: wire.DataSetVersionOut(rows, many=True).data,
            )
        )

    @extend_schema(
        operation_id="dataset_version_declare",
        tags=["datasets"],
        request=wire.DataSetPlaces,
        responses={201: wire.DataSetOut},
        examples=examples.DATASET_VERSION,
    )
    def post(self, request: Request, dataset: str) -> Response:
        """Say where it lies from now on; requests that were decided keep what they saw."""
        given = wire.DataSetPlaces.read(request.data)
        if not versions_of(self, dataset).filter(retired_at__isnull=True).exists():
            raise NotFound
        row = datasets.dataset_declare(
            tenant_id=self.tenant_id, name=dataset, actor=self.actor, **given
        )
        row.refresh_from_db()
        return Response(wire.DataSetOut(row).data, status=201)
