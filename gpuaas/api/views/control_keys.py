"""How does an operator let another key sign what hosts are told to do, and go back?"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api.base import OperatorView
from gpuaas.api.fields import Short
from gpuaas.api.pagination import part
from gpuaas.api.serializers import control_keys as wire
from gpuaas.api.serializers.common import Reasoned
from placement.services import control_keys as service


def _shown(key: service.ControlKey) -> dict[str, Any]:
    return dict(wire.ControlKeyOut(key).data)


class ControlKeys(OperatorView):
    """The keys."""

    also_fails = (409, 503)

    @extend_schema(
        operation_id="control_key_list",
        tags=["nodes"],
        parameters=[Short],
        responses=wire.ControlKeyList,
    )
    def get(self, request: Request) -> Response:
        """The key that signs, the next one, and the one of before, as far as they are kept."""
        query = Short.read(request.query_params)
        shown = part(service.control_keys_list(), query=query, name="control keys")
        return Response(wire.ControlKeyList(shown).data)

    @extend_schema(
        operation_id="control_key_prepare",
        tags=["nodes"],
        request=Reasoned,
        responses={201: wire.ControlKeyOut},
    )
    def post(self, request: Request) -> Response:
        """Make the next key. It signs nothing until it is switched to."""
        given = Reasoned.read(request.data)
        return Response(_shown(service.control_key_prepare(**given, actor=self.actor)), status=201)


class ControlKeySwitch(OperatorView):
    """Another key signs."""

    also_fails = (409, 503)

    @extend_schema(
        operation_id="control_key_switch",
        tags=["nodes"],
        request=wire.ControlKeyNamed,
        responses=wire.ControlKeyOut,
    )
    def post(self, request: Request) -> Response:
        """Let the next key sign from now on. The present one is kept for the way back."""
        given = wire.ControlKeyNamed.read(request.data)
        return Response(_shown(service.control_key_switch(**given, actor=self.actor)))


class ControlKeyBack(OperatorView):
    """The way back."""

    also_fails = (409, 503)

    @extend_schema(
        operation_id="control_key_back",
        tags=["nodes"],
        request=wire.ControlKeyNamed,
        responses=wire.ControlKeyOut,
    )
    def post(self, request: Request) -> Response:
        """Let the key of before sign again. The present one is kept in its stead."""
        given = wire.ControlKeyNamed.read(request.data)
        return Response(_shown(service.control_key_back(**given, actor=self.actor)))


class ControlKeyRetire(OperatorView):
    """The end of a key."""

    also_fails = (409, 503)

    @extend_schema(
        operation_id="control_key_retire",
        tags=["nodes"],
        request=wire.ControlKeyRetireIn,
        responses={204: None},
    )
    def post(self, request: Request) -> Response:
        """Remove a key that does not sign. There is no way back to it."""
        given = wire.ControlKeyRetireIn.read(request.data)
        service.control_key_retire(**given, actor=self.actor)
        return Response(status=204)
