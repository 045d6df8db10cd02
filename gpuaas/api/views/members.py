"""Who belongs to the tenant, in which role?"""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.base import TenantView
from gpuaas.api.fields import Paged, Query
from gpuaas.api.pagination import page
from gpuaas.api.serializers import team as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.api.serializers.identity import InvitationOut
from gpuaas.api.views.identity import invite
from gpuaas.kernel.errors import NotFound
from gpuaas.kernel.scope import platform_scope
from tenants import selectors
from tenants.models import Member
from tenants.services import members


def member_of(view: TenantView, member_id: UUID) -> Member:
    """One member of the caller's tenant, with the account. Raises NotFound."""
    with platform_scope():
        # Accounts belong to no tenant; the membership is what lets one see them.
        row = selectors.member_list(view.tenant_id).filter(pk=member_id).first()
    if row is None:
        raise NotFound
    return row


class Members(TenantView):
    """The people of the tenant."""

    @extend_schema(
        operation_id="member_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.MemberOut, "Member"),
    )
    def get(self, request: Request) -> Response:
        """Members, those who came first first."""
        query = Paged.read(request.query_params)
        with platform_scope():
            found = page(
                selectors.member_list(self.tenant_id),
                query=query,
                name="members",
                order=("created_at", "id"),
                render=lambda rows: wire.MemberOut(rows, many=True).data,
            )
        return Response(found)

    @extend_schema(
        operation_id="member_add",
        tags=["access"],
        request=wire.MemberIn,
        responses={202: InvitationOut},
        examples=examples.MEMBER,
    )
    def post(self, request: Request) -> Response:
        """Let a person in, who says yes to an invitation by mail.

        The answer is the same whether the address has an account or not: that is told to
        nobody. Whoever is a member already gets another role by ``/members/{id}/role``.
        """
        given = wire.MemberIn.read(request.data)
        made = invite(self, request, email=given["email"], role=given["role"])
        return Response(InvitationOut(made).data, status=202)


class MemberDetail(TenantView):
    """One member."""

    also_fails = (409,)

    @extend_schema(operation_id="member_get", tags=["access"], responses=wire.MemberOut)
    def get(self, request: Request, member_id: UUID) -> Response:
        """A member."""
        Query.read(request.query_params)
        return Response(wire.MemberOut(member_of(self, member_id)).data)

    @extend_schema(operation_id="member_remove", tags=["access"], responses={204: None})
    def delete(self, request: Request, member_id: UUID) -> Response:
        """End a membership, and the tokens that stood on it. The only owner stays."""
        row = member_of(self, member_id)
        members.member_remove(member_id=row.pk, actor=self.actor)
        return Response(status=204)


class MemberRole(TenantView):
    """A member's role."""

    also_fails = (409,)

    @extend_schema(
        operation_id="member_role_set",
        tags=["access"],
        request=wire.RoleIn,
        responses=wire.MemberOut,
        examples=examples.ROLE,
    )
    def put(self, request: Request, member_id: UUID) -> Response:
        """Give a member another role. Only an owner makes or changes an owner."""
        given = wire.RoleIn.read(request.data)
        row = member_of(self, member_id)
        members.member_role_set(member_id=row.pk, role=given["role"], actor=self.actor)
        return Response(wire.MemberOut(member_of(self, member_id)).data)
