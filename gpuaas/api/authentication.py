"""Who is calling: a token's holder, or a browser's session?"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.request import Request

from gpuaas.api import errors
from gpuaas.api.middleware import request_id_of
from gpuaas.identity import gate
from gpuaas.kernel import clock
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.errors import PermissionDenied
from gpuaas.kernel.scope import platform_scope
from tenants.models import ApiToken, Member, ServiceAccount, Tenant, User
from tenants.services import access, break_glass, second_factor

TENANT_HEADER = "Gpuaas-Tenant"
FACTOR_HEADER = "Gpuaas-Second-Factor"
TENANT_PARAMETER = "tenant"
SESSION_TENANT = "tenant"


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer gpuaas_pat_…``"""

    def authenticate(self, request: Request) -> tuple[None, Actor] | None:
        """The token's actor. Raises Unauthenticated when a bearer is given and not good."""
        header = request.headers.get("Authorization", "")
        scheme, _, text = header.partition(" ")
        if not header:
            return None
        if scheme.lower() != "bearer":
            raise errors.Unauthenticated("The authorization scheme is Bearer.")
        actor = access.token_authenticate(text.strip(), request_id=request_id_of(request))
        if actor is None:
            raise errors.Unauthenticated("The token is unknown, expired or revoked.")
        named = named_tenant(request)
        if actor.operator:
            actor = _with_factor(request, actor)
            if named:
                actor = _acting_within(request._request, actor, tenant_id_of(named))
        elif named and not _means(named, actor.tenant_id):
            # Not carried out in the token's own tenant instead: the caller would not notice.
            raise errors.TenantRequired("The token is for another tenant than the one named.")
        return None, actor

    def authenticate_header(self, request: Request) -> str:
        """What WWW-Authenticate says."""
        return 'Bearer realm="gpuaas"'


class PortalSessionAuthentication(SessionAuthentication):
    """The portal's cookie. A change needs the page's CSRF token as well."""

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, Actor] | None:
        """The signed-in person's actor, in the tenant they chose. Raises CsrfRefused, and
        RequestDataTooBig for a longer body than may be taken."""
        user = getattr(request._request, "user", None)
        if not isinstance(user, User) or not user.is_active:
            return None
        if request.method == "POST":
            # The check looks for a form's field and uses the stream up: what reads the body
            # after it, as a key's fingerprint, needs it kept.
            _ = request._request.body
        try:
            self.enforce_csrf(request)
        except exceptions.PermissionDenied as refused:
            raise errors.CsrfRefused from refused
        return user, session_actor(request._request, user)


def _with_factor(request: Request, actor: Actor) -> Actor:
    """An operator's actor with the second factor that came along.

    Raises SecondFactorWrong or SecondFactorLocked.
    """
    code = request.headers.get(FACTOR_HEADER, "")
    if not code:
        return actor
    second_factor.factor_verify(user=person_behind(actor), code=code, actor=actor)
    return replace(actor, factor_at=clock.db_now())


def _acting_within(request: HttpRequest, actor: Actor, tenant_id: UUID) -> Actor:
    """An operator who names a tenant: through an open window its reader, else as ever."""
    window = break_glass.window_of(UUID(access.person_id_of(actor)), tenant_id)
    if window is None or (actor.scopes and "operator:read" not in actor.scopes):
        return actor.within(tenant_id)
    return break_glass.look(
        window=window, actor=actor, method=request.method or "", path=request.get_full_path()
    )


def _means(named: str, tenant_id: UUID | None) -> bool:
    """Whether that name is this tenant's. One of nobody and one of somebody else are told alike."""
    try:
        return tenant_id_of(named) == tenant_id
    except errors.TenantRequired:
        return False


def named_tenant(request: Request | HttpRequest) -> str:
    """The tenant that the request names, by slug or id, or an empty string."""
    given = request.headers.get(TENANT_HEADER, "") or request.GET.get(TENANT_PARAMETER, "")
    return str(given)


def session_actor(request: HttpRequest, user: User) -> Actor:
    """The person as an actor: in the tenant named, else the one chosen, else the first.

    Raises TenantRequired when the tenant named is not theirs, which is also the answer
    when there is no such tenant.
    """
    request_id = request_id_of(request)
    named = named_tenant(request)
    if named:
        tenant_id = tenant_id_of(named)
        actor = access.user_actor(user=user, tenant_id=tenant_id, request_id=request_id)
        if actor.tenant_id is None and not actor.operator:
            raise errors.TenantRequired("You are no member of a tenant of that name.")
        actor = replace(actor, factor_at=gate.factor_at(request))
        return actor if actor.tenant_id else _acting_within(request, actor, tenant_id)
    chosen = str(request.session.get(SESSION_TENANT, ""))
    mine = [
        str(tenant_id)
        for tenant_id in Member.objects.filter(user=user)
        .order_by("created_at")
        .values_list("tenant_id", flat=True)
    ]
    tenant = chosen if chosen in mine else next(iter(mine), "")
    actor = access.user_actor(
        user=user, tenant_id=UUID(tenant) if tenant else None, request_id=request_id
    )
    return replace(actor, factor_at=gate.factor_at(request))


def tenant_id_of(named: str) -> UUID:
    """The tenant of this slug or id. Raises TenantRequired when there is none."""
    try:
        found = Tenant.objects.filter(pk=UUID(named))
    except ValueError:
        found = Tenant.objects.filter(slug=named) if named.isprintable() else Tenant.objects.none()
    tenant_id = found.values_list("pk", flat=True).first()
    if tenant_id is None:
        raise errors.TenantRequired("You are no member of a tenant of that name.")
    return tenant_id


def person_behind(actor: Actor) -> User:
    """The account that an actor of kind user or token acts for. Raises PermissionDenied for a
    service account, which is nobody's."""
    with platform_scope():
        if actor.kind == "token":
            holder = ApiToken.objects.select_related("user").get(pk=actor.id).user
            if holder is None:
                raise PermissionDenied("This is for people; the token is a service account's.")
            return holder
        return User.objects.get(pk=actor.id)


def service_account_of(actor: Actor) -> ServiceAccount | None:
    """The program behind an actor, or None for people."""
    if actor.kind != "token":
        return None
    with platform_scope():
        return ServiceAccount.objects.filter(tokens__pk=actor.id).first()
