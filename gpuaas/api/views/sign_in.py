"""How does somebody come in, and who are they then?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from admission.services import tenancies
from gpuaas.api import errors, examples, limits
from gpuaas.api.authentication import person_behind, service_account_of, tenant_id_of
from gpuaas.api.base import OpenView, ProductView
from gpuaas.api.serializers import access as wire
from gpuaas.api.views.access import token_shown
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import FieldError, InvalidRequest
from gpuaas.kernel.scope import platform_scope
from tenants.errors import SecondFactorNeeded, SecondFactorSetUpNeeded
from tenants.models import (
    Member,
    Tenant,
    User,
)
from tenants.services import access, second_factor


def checked_email(email: str) -> str:
    """The address as it is. Raises InvalidRequest that names the field."""
    try:
        validate_email(email)
    except ValidationError:
        wrong = FieldError("/email", "invalid", "not an e-mail address")
        raise InvalidRequest("The e-mail address is not one.", errors=(wrong,)) from None
    return email


class Signup(OpenView):
    """The front door: a new account and a new tenant that waits for approval."""

    policy = limits.ACCESS

    @extend_schema(
        operation_id="signup",
        tags=["access"],
        request=wire.SignupIn,
        responses={201: wire.TenantOut},
        examples=examples.SIGNUP,
    )
    def post(self, request: Request) -> Response:
        """Sign up: an account that owns a new, pending tenant."""
        given = wire.SignupIn.read(request.data)
        email = checked_email(given["email"])
        try:
            validate_password(given["password"], User(email=email, full_name=given["full_name"]))
        except ValidationError as weak:
            raise InvalidRequest(
                "The password is too weak.",
                errors=tuple(FieldError("/password", "weak", text) for text in weak.messages),
            ) from None
        tenant = tenancies.tenant_signup(
            email=email,
            password=given["password"],
            full_name=given["full_name"],
            tenant_name=given["tenant_name"],
            actor=self.caller(),
        )
        return Response(wire.TenantOut(tenant).data, status=201)


class AuthToken(OpenView):
    """A token for a password: what ``gpuaas login`` calls."""

    policy = limits.ACCESS
    remembers = False
    also_fails = (401, 403)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """No transaction around it: a wrong password must be counted, not rolled back."""
        yield

    @extend_schema(
        operation_id="auth_token_create",
        tags=["access"],
        request=wire.SignInIn,
        responses={201: wire.TokenMade},
        examples=examples.SIGN_IN,
    )
    def post(self, request: Request) -> Response:
        """Exchange an e-mail address and password for a token."""
        given = wire.SignInIn.read(request.data)
        user = authenticate(
            request._request, username=given["email"].lower(), password=given["password"]
        )
        # A lock-out would replace the answer by a page of its own; here it is told like a
        # wrong password, so that it tells a guesser nothing.
        request._request.axes_locked_out = False  # type: ignore[attr-defined]  # set by axes
        if not isinstance(user, User):
            raise errors.SignInRefused
        tenant_id = self._tenant(user, given.get("tenant", ""))
        actor = access.user_actor(
            user=user, tenant_id=tenant_id, request_id=self.caller().request_id
        )
        self._second_factor(user, given["code"], actor)
        token, text = access.token_create(
            user=user,
            tenant_id=tenant_id,
            name=given["name"],
            scopes=given.get("scopes", []),
            expires_in_days=given["expires_in_days"],
            actor=actor,
        )
        return Response(wire.TokenMade(token_shown(token, text)).data, status=201)

    def _second_factor(self, user: User, code: str, actor: Actor) -> None:
        """The password alone is not enough where a second factor is set up, or must be."""
        if second_factor.factor_of(user.pk) is None:
            if second_factor.factor_required(user):
                raise SecondFactorSetUpNeeded
            return
        if not code:
            raise SecondFactorNeeded
        second_factor.factor_verify(user=user, code=code, actor=actor)

    def _tenant(self, user: User, named: str) -> UUID | None:
        """The tenant the token is for. An operator who names none gets an operator's token."""
        if named:
            tenant_id = tenant_id_of(named)
            if not access.role_in(user_id=user.pk, tenant_id=tenant_id):
                raise errors.TenantRequired("You are no member of a tenant of that name.")
            return tenant_id
        if user.is_staff:
            return None
        first = Member.objects.filter(user=user).order_by("created_at").first()
        if first is None:
            raise errors.TenantRequired("You are a member of no tenant.")
        return first.tenant_id


class Me(ProductView):
    """The caller."""

    @extend_schema(operation_id="me", tags=["access"], responses=wire.MeOut)
    def get(self, request: Request) -> Response:
        """Who is calling, in which tenant, with which role and scopes."""
        actor = self.actor
        program = service_account_of(actor)
        user = None if program else person_behind(actor)
        with platform_scope():
            tenant = Tenant.objects.filter(pk=actor.tenant_id).first() if actor.tenant_id else None
            members = list(
                Member.objects.filter(user=user)
                .select_related("tenant__tier")
                .order_by("created_at")
            )
        body = {
            "id": program.pk if program else user.pk if user else None,
            "email": user.email if user else "",
            "full_name": program.name if program else user.full_name if user else "",
            "service_account": wire.service_account_named(program),
            "operator": actor.operator,
            "operator_role": actor.operator_role,
            "via": actor.kind,
            "tenant": wire.tenant_named(tenant),
            "role": actor.role,
            "scopes": sorted(actor.scopes),
            "memberships": members,
        }
        return Response(wire.MeOut(body).data)
