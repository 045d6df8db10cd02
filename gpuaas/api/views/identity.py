"""Which programs act in the tenant, who is invited, and which operators look in?"""

from __future__ import annotations

from uuid import UUID

from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.authentication import FACTOR_HEADER, person_behind
from gpuaas.api.base import OperatorView, TenantView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import page
from gpuaas.api.serializers import access as tokens_wire
from gpuaas.api.serializers import identity as wire
from gpuaas.api.serializers.common import Reasoned, page_of
from gpuaas.api.views.access import token_shown
from gpuaas.api.views.sign_in import checked_email
from gpuaas.api.views.tenants import tenant_named
from gpuaas.kernel.errors import NotFound
from tenants.models import ApiToken, BreakGlass, Invitation, ServiceAccount
from tenants.services import break_glass, invitations, service_accounts

FACTOR = OpenApiParameter(
    FACTOR_HEADER,
    str,
    OpenApiParameter.HEADER,
    description="A current code of the second factor, for whoever has set one up.",
)


class ServiceAccounts(TenantView):
    """Identities of programs."""

    @extend_schema(
        operation_id="service_account_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.ServiceAccountOut, "ServiceAccount"),
    )
    def get(self, request: Request) -> Response:
        """Service accounts by name."""
        return Response(
            page(
                service_accounts.account_list(self.tenant_id),
                query=Paged.read(request.query_params),
                name="service-accounts",
                order=("name", "id"),
                render=lambda found: wire.ServiceAccountOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="service_account_create",
        tags=["access"],
        request=wire.ServiceAccountIn,
        responses={201: wire.ServiceAccountOut},
    )
    def post(self, request: Request) -> Response:
        """Make one. It can do nothing before it has a token."""
        given = wire.ServiceAccountIn.read(request.data)
        made = service_accounts.service_account_create(
            tenant_id=self.tenant_id, name=given["name"], role=given["role"], actor=self.actor
        )
        return Response(wire.ServiceAccountOut(_account(self, made.pk)).data, status=201)


class ServiceAccountDetail(TenantView):
    """One of them."""

    @extend_schema(
        operation_id="service_account_get", tags=["access"], responses=wire.ServiceAccountOut
    )
    def get(self, request: Request, account_id: UUID) -> Response:
        """A service account."""
        return Response(wire.ServiceAccountOut(_account(self, account_id)).data)


class ServiceAccountDisable(TenantView):
    """Its end."""

    @extend_schema(
        operation_id="service_account_disable",
        tags=["access"],
        request=Reasoned,
        responses=wire.ServiceAccountOut,
    )
    def post(self, request: Request, account_id: UUID) -> Response:
        """End it for good, and every token of it at once."""
        given = Reasoned.read(request.data)
        service_accounts.service_account_disable(
            tenant_id=self.tenant_id,
            account_id=account_id,
            reason=given["reason"],
            actor=self.actor,
        )
        return Response(wire.ServiceAccountOut(_account(self, account_id)).data)


class ServiceAccountTokens(TenantView):
    """A service account's tokens."""

    remembers = False

    @extend_schema(
        operation_id="service_account_token_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(tokens_wire.TokenOut, "Token"),
    )
    def get(self, request: Request, account_id: UUID) -> Response:
        """Its tokens, without their secrets."""
        account = _account(self, account_id)
        return Response(
            page(
                ApiToken.objects.filter(service_account=account, revoked_at__isnull=True),
                query=Paged.read(request.query_params),
                name="service-account-tokens",
                render=lambda found: tokens_wire.TokenOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="service_account_token_create",
        tags=["access"],
        request=tokens_wire.TokenIn,
        responses={201: tokens_wire.TokenMade},
    )
    def post(self, request: Request, account_id: UUID) -> Response:
        """Make a token of its. Its text is in this answer and nowhere else."""
        given = tokens_wire.TokenIn.read(request.data)
        token, text = service_accounts.service_account_token(
            tenant_id=self.tenant_id,
            account_id=account_id,
            name=given["name"],
            scopes=given.get("scopes", []),
            expires_in_days=given["expires_in_days"],
            actor=self.actor,
        )
        return Response(tokens_wire.TokenMade(token_shown(token, text)).data, status=201)


class ServiceAccountToken(TenantView):
    """One of its tokens."""

    @extend_schema(
        operation_id="service_account_token_revoke", tags=["access"], responses={204: None}
    )
    def delete(self, request: Request, account_id: UUID, token_id: UUID) -> Response:
        """Revoke it at once."""
        service_accounts.service_account_token_revoke(
            tenant_id=self.tenant_id, account_id=account_id, token_id=token_id, actor=self.actor
        )
        return Response(status=204)


def _account(view: TenantView, account_id: UUID) -> ServiceAccount:
    found = service_accounts.account_list(view.tenant_id).filter(pk=account_id).first()
    if found is None:
        raise NotFound
    return found


def invite(view: TenantView, request: Request, *, email: str, role: str) -> Invitation:
    """Invite an address by mail, whether it has an account or not."""
    made = invitations.invitation_create(
        tenant_id=view.tenant_id,
        email=checked_email(email),
        role=role,
        link=lambda secret: request.build_absolute_uri(reverse("portal:invitation", args=[secret])),
        actor=view.actor,
    )
    made.refresh_from_db()
    return made


class Invitations(TenantView):
    """Who has been invited."""

    @extend_schema(
        operation_id="invitation_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.InvitationOut, "Invitation"),
    )
    def get(self, request: Request) -> Response:
        """Invitations, the latest first, with what became of them."""
        return Response(
            page(
                invitations.invitation_list(self.tenant_id),
                query=Paged.read(request.query_params),
                name="invitations",
                render=lambda found: wire.InvitationOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="invitation_create",
        tags=["access"],
        request=wire.InvitationIn,
        responses={201: wire.InvitationOut},
    )
    def post(self, request: Request) -> Response:
        """Invite an address by mail. The link in it works once."""
        given = wire.InvitationIn.read(request.data)
        made = invite(self, request, email=given["email"], role=given["role"])
        return Response(wire.InvitationOut(made).data, status=201)


class InvitationRevoke(TenantView):
    """Taking one back."""

    @extend_schema(
        operation_id="invitation_revoke",
        tags=["access"],
        request=wire.NothingIn,
        responses=wire.InvitationOut,
    )
    def post(self, request: Request, invitation_id: UUID) -> Response:
        """Take an invitation back. One that is over stays as it is."""
        wire.NothingIn.read(request.data)
        row = invitations.invitation_revoke(
            tenant_id=self.tenant_id, invitation_id=invitation_id, actor=self.actor
        )
        return Response(wire.InvitationOut(row).data)


class BreakGlassWindows(OperatorView):
    """Operators' looks into tenants."""

    also_fails = (404,)

    @extend_schema(
        operation_id="break_glass_list",
        tags=["tenants"],
        parameters=[Paged],
        responses=page_of(wire.WindowOut, "BreakGlass"),
    )
    def get(self, request: Request) -> Response:
        """Windows, the latest first: a tenant's own, or everybody's for operators."""
        return Response(
            page(
                break_glass.window_list(self.actor.tenant_id),
                query=Paged.read(request.query_params),
                name="break-glass",
                render=lambda found: wire.WindowOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="break_glass_open",
        tags=["tenants"],
        parameters=[FACTOR],
        request=wire.WindowIn,
        responses={201: wire.WindowOut},
    )
    def post(self, request: Request) -> Response:
        """Open a window. Then read as the tenant does, by naming it in Gpuaas-Tenant."""
        given = wire.WindowIn.read(request.data)
        window = break_glass.break_glass_open(
            tenant_id=tenant_named(given["tenant"]).pk,
            user=person_behind(self.actor),
            reason=given["reason"],
            minutes=given["minutes"],
            actor=self.actor,
        )
        return Response(wire.WindowOut(_window(window.pk)).data, status=201)


class BreakGlassEnd(OperatorView):
    """The end of a look."""

    @extend_schema(
        operation_id="break_glass_end",
        tags=["tenants"],
        request=wire.NothingIn,
        responses=wire.WindowOut,
    )
    def post(self, request: Request, window_id: UUID) -> Response:
        """Close a window before its time."""
        wire.NothingIn.read(request.data)
        break_glass.break_glass_end(window_id=window_id, actor=self.actor)
        return Response(wire.WindowOut(_window(window_id)).data)


def _window(window_id: UUID) -> BreakGlass:
    return break_glass.window_list().get(pk=window_id)
