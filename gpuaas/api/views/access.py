"""With which tokens and keys do I work?"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import examples
from gpuaas.api.authentication import person_behind
from gpuaas.api.base import TenantView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import page
from gpuaas.api.serializers import access as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.kernel.errors import NotFound
from tenants import selectors
from tenants.models import (
    ApiToken,
    SshKey,
)
from tenants.services import access


def token_shown(token: ApiToken, text: str) -> dict[str, Any]:
    """A new token with its text."""
    return {
        "id": token.pk,
        "name": token.name,
        "key": token.key,
        "tenant_id": token.tenant_id,
        "scopes": token.scopes,
        "created_at": ApiToken.objects.values_list("created_at", flat=True).get(pk=token.pk),
        "expires_at": token.expires_at,
        "last_used_at": token.last_used_at,
        "token": text,
    }


class Tokens(TenantView):
    """One's own tokens in the tenant (or on the platform's side, for operators)."""

    remembers = False

    @extend_schema(
        operation_id="token_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.TokenOut, "Token"),
    )
    def get(self, request: Request) -> Response:
        """One's own tokens, without their secrets."""
        query = Paged.read(request.query_params)
        rows = selectors.token_list(self.actor.tenant_id, person_behind(self.actor).pk)
        return Response(
            page(
                rows,
                query=query,
                name="tokens",
                render=lambda found: wire.TokenOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="token_create",
        tags=["access"],
        request=wire.TokenIn,
        responses={201: wire.TokenMade},
        examples=examples.TOKEN,
    )
    def post(self, request: Request) -> Response:
        """Make a token. Its text is in this answer and nowhere else."""
        given = wire.TokenIn.read(request.data)
        token, text = access.token_create(
            user=person_behind(self.actor),
            tenant_id=self.actor.tenant_id,
            name=given["name"],
            scopes=given.get("scopes", []),
            expires_in_days=given["expires_in_days"],
            actor=self.actor,
        )
        return Response(wire.TokenMade(token_shown(token, text)).data, status=201)


class TokenDetail(TenantView):
    """One token."""

    @extend_schema(operation_id="token_revoke", tags=["access"], responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke one of one's own tokens at once."""
        mine = selectors.token_list(self.actor.tenant_id, person_behind(self.actor).pk)
        if not mine.filter(pk=token_id).exists():
            raise NotFound
        access.token_revoke(token_id=token_id, actor=self.actor)
        return Response(status=204)


class SshKeys(TenantView):
    """The tenant's public keys."""

    @extend_schema(
        operation_id="ssh_key_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.SshKeyOut, "SshKey"),
    )
    def get(self, request: Request) -> Response:
        """Public keys, newest first."""
        query = Paged.read(request.query_params)
        return Response(
            page(
                selectors.ssh_key_list(self.tenant_id),
                query=query,
                name="ssh-keys",
                render=lambda found: wire.SshKeyOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="ssh_key_add",
        tags=["access"],
        request=wire.SshKeyIn,
        responses={201: wire.SshKeyOut},
        examples=examples.SSH_KEY,
    )
    def post(self, request: Request) -> Response:
        """Keep a public key."""
        given = wire.SshKeyIn.read(request.data)
        key = access.ssh_key_add(
            tenant_id=self.tenant_id,
            user_id=person_behind(self.actor).pk,
            name=given["name"],
            public_key=given["public_key"],
            actor=self.actor,
        )
        key.refresh_from_db()
        return Response(wire.SshKeyOut(key).data, status=201)


class SshKeyDetail(TenantView):
    """One public key."""

    @extend_schema(operation_id="ssh_key_get", tags=["access"], responses=wire.SshKeyOut)
    def get(self, request: Request, key_id: UUID) -> Response:
        """A public key."""
        key = SshKey.objects.filter(pk=key_id, tenant_id=self.tenant_id).first()
        if key is None:
            raise NotFound
        return Response(wire.SshKeyOut(key).data)

    @extend_schema(operation_id="ssh_key_delete", tags=["access"], responses={204: None})
    def delete(self, request: Request, key_id: UUID) -> Response:
        """Forget a public key; running leases keep it."""
        access.ssh_key_delete(key_id=key_id, actor=self.actor)
        return Response(status=204)
