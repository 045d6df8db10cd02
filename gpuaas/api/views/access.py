"""Who am I, and with which tokens, keys and projects do I work?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.contrib.auth import authenticate
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from gpuaas.api import errors, examples, limits
from gpuaas.api.authentication import person_behind, tenant_id_of
from gpuaas.api.base import OpenView, ProductView, TenantView
from gpuaas.api.fields import Paged
from gpuaas.api.pagination import is_id, page
from gpuaas.api.serializers import access as wire
from gpuaas.api.serializers.common import page_of
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import FieldError, InvalidRequest, NotFound
from gpuaas.kernel.scope import platform_scope
from tenants import selectors
from tenants.errors import SecondFactorNeeded, SecondFactorSetUpNeeded
from tenants.models import (
    ApiToken,
    Envelope,
    Member,
    Project,
    QuotaCounter,
    SshKey,
    Tenant,
    User,
)
from tenants.services import access, second_factor, tenancy


def _checked_email(email: str) -> str:
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
        email = _checked_email(given["email"])
        try:
            validate_password(given["password"], User(email=email, full_name=given["full_name"]))
        except ValidationError as weak:
            raise InvalidRequest(
                "The password is too weak.",
                errors=tuple(FieldError("/password", "weak", text) for text in weak.messages),
            ) from None
        tenant = tenancy.tenant_signup(
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
        return Response(wire.TokenMade(_with_text(token, text)).data, status=201)

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


def _with_text(token: ApiToken, text: str) -> dict[str, Any]:
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


class Me(ProductView):
    """The caller."""

    @extend_schema(operation_id="me", tags=["access"], responses=wire.MeOut)
    def get(self, request: Request) -> Response:
        """Who is calling, in which tenant, with which role and scopes."""
        actor = self.actor
        user = person_behind(actor)
        with platform_scope():
            tenant = Tenant.objects.filter(pk=actor.tenant_id).first() if actor.tenant_id else None
            members = list(
                Member.objects.filter(user=user)
                .select_related("tenant__tier")
                .order_by("created_at")
            )
        body = {
            "id": user.pk,
            "email": user.email,
            "full_name": user.full_name,
            "operator": actor.operator,
            "via": actor.kind,
            "tenant": wire.tenant_named(tenant),
            "role": actor.role,
            "scopes": sorted(actor.scopes),
            "memberships": members,
        }
        return Response(wire.MeOut(body).data)


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
        return Response(wire.TokenMade(_with_text(token, text)).data, status=201)


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


class Projects(TenantView):
    """The tenant's projects."""

    @extend_schema(
        operation_id="project_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.ProjectOut, "Project"),
    )
    def get(self, request: Request) -> Response:
        """Projects by name."""
        query = Paged.read(request.query_params)
        rows = Project.objects.all()
        if self.actor.tenant_id:
            rows = selectors.project_list(self.actor.tenant_id)
        return Response(
            page(
                rows,
                query=query,
                name="projects",
                order=("slug", "id"),
                render=lambda found: wire.ProjectOut(found, many=True).data,
            )
        )

    @extend_schema(
        operation_id="project_create",
        tags=["access"],
        request=wire.ProjectIn,
        responses={201: wire.ProjectOut},
    )
    def post(self, request: Request) -> Response:
        """Make a project."""
        given = wire.ProjectIn.read(request.data)
        project = tenancy.project_create(
            tenant_id=self.tenant_id, name=given["name"], actor=self.actor
        )
        project.refresh_from_db()
        return Response(wire.ProjectOut(project).data, status=201)


def project_named(view: TenantView, named: str) -> Project:
    """The project of this slug or id in the caller's tenant. Raises NotFound."""
    rows = Project.objects.all()
    if view.actor.tenant_id:
        rows = rows.filter(tenant_id=view.actor.tenant_id)
    found = is_id(named)
    if found is not None:
        project = rows.filter(pk=found).first()
    else:
        # A slug is unique in a tenant only.
        project = rows.filter(slug=named).first() if view.actor.tenant_id else None
    if project is None:
        raise NotFound
    return project


class ProjectDetail(TenantView):
    """One project."""

    @extend_schema(operation_id="project_get", tags=["access"], responses=wire.ProjectOut)
    def get(self, request: Request, project: str) -> Response:
        """A project by slug or id."""
        return Response(wire.ProjectOut(project_named(self, project)).data)


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


class Envelopes(TenantView):
    """What the tenant may hold."""

    @extend_schema(
        operation_id="envelope_list",
        tags=["access"],
        parameters=[Paged],
        responses=page_of(wire.EnvelopeOut, "Envelope"),
    )
    def get(self, request: Request) -> Response:
        """Limits and use by resource class, in thousandths."""
        query = Paged.read(request.query_params)
        rows = Envelope.objects.select_related("resource_class")
        if self.actor.tenant_id:
            rows = rows.filter(tenant_id=self.actor.tenant_id)
        return Response(
            page(
                rows,
                query=query,
                name="envelopes",
                order=("tenant_id", "resource_class_id"),
                render=lambda found: wire.EnvelopeOut(envelopes_shown(found), many=True).data,
            )
        )


def envelopes_shown(envelopes: list[Envelope]) -> list[dict[str, Any]]:
    """Envelopes with the counters beside them, in two queries."""
    tenants = {envelope.tenant_id for envelope in envelopes}
    counters = {
        (counter.tenant_id, counter.resource_class_id): counter
        for counter in QuotaCounter.objects.filter(tenant_id__in=tenants)
    }
    shown = []
    for envelope in envelopes:
        counter = counters.get((envelope.tenant_id, envelope.resource_class_id))
        limit = counter.limit_milli if counter else envelope.nominal_milli
        used = counter.used_milli if counter else 0
        shown.append(
            {
                "id": envelope.pk,
                "tenant_id": envelope.tenant_id,
                "resource_class": envelope.resource_class,
                "nominal_milli": envelope.nominal_milli,
                "limit_milli": limit,
                "used_milli": used,
                "free_milli": max(0, limit - used),
                "excess_milli": max(0, used - limit),
                "version": envelope.version,
            }
        )
    return shown
