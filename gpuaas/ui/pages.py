"""How does a page find its reader, its scope and its errors?"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views import View

from gpuaas.kernel import errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import tenant_scope
from gpuaas.ui.frame import Crumb, Frame
from tenants.domain.roles import may
from tenants.models import Tenant, User
from tenants.selectors import tenants_of
from tenants.services.access import user_actor


class SignedInView(View):
    """A page for somebody who has signed in; others are sent to sign in and come back."""

    user: User
    actor: Actor
    request: HttpRequest
    read_action = ""
    write_action = ""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Find the reader, then answer."""
        if not isinstance(request.user, User):
            return redirect_to_login(request.get_full_path())
        self.user = request.user
        return self.enter(request, *args, **kwargs)

    def enter(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """What subclasses do between knowing the reader and answering."""
        self.actor = user_actor(user=self.user, tenant_id=None, request_id=request_id(request))
        return self.guarded(request, *args, **kwargs)

    def guarded(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer, turning a product's error into its page. Runs inside the scope."""
        try:
            self.check_may(self.write_action if request.method == "POST" else self.read_action)
            return super().dispatch(request, *args, **kwargs)
        except errors.ProductError as error:
            return self.error_page(error)

    def check_may(self, action: str) -> None:
        """Raises PermissionDenied unless the reader may do ``action``; empty is allowed."""
        if action and not self.may(action):
            raise errors.PermissionDenied

    def may(self, action: str) -> bool:
        """Whether the reader may do ``action``."""
        actor = self.actor
        return may(action, role=actor.role, operator=actor.operator, scopes=actor.scopes)

    def frame(self) -> Frame:
        """The frame of this page; every kind of page builds its own."""
        raise TypeError(f"{type(self).__name__} has no frame")

    def crumbs(self) -> tuple[Crumb, ...]:
        """The way here, without home."""
        return ()

    def page(self, template: str, *, status: int = 200, **context: Any) -> HttpResponse:
        """The template in its frame, rendered at once (so inside the scope)."""
        context.setdefault("frame", self.frame())
        context.setdefault("view", self)
        return render(self.request, template, context, status=status)

    def error_page(self, error: errors.ProductError) -> HttpResponse:
        """A failure told in full: code, what it means, numbers, the way out, request id."""
        return self.page(
            "ui/error.html",
            status=error.status,
            error=error,
            request_id=request_id(self.request),
        )


class TenantView(SignedInView):
    """A page about one tenant, named in the address; runs as the tenant's database role."""

    tenant: Tenant
    tenants: tuple[Tenant, ...]

    def enter(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Find the tenant among the reader's own; another's answers as a missing one does."""
        self.tenants = tuple(tenants_of(self.user))
        slug = kwargs.pop("tenant")
        found = next((t for t in self.tenants if t.slug == slug), None)
        if found is None:
            return not_found(request)
        self.tenant = found
        self.actor = user_actor(user=self.user, tenant_id=found.pk, request_id=request_id(request))
        with tenant_scope(found.pk):
            return self.guarded(request, *args, **kwargs)

    def error_page(self, error: errors.ProductError) -> HttpResponse:
        """Tell the failure; what a failed action wrote is taken back, unless it is to stay."""
        response = super().error_page(error)
        if not error.keep:
            transaction.set_rollback(True)
        return response


class OperatorView(SignedInView):
    """A page for operators; to others it does not exist."""

    def enter(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Only operators come in."""
        if not self.user.is_staff:
            return not_found(request)
        return super().enter(request, *args, **kwargs)


def request_id(request: HttpRequest) -> str:
    """The id under which this request is logged; empty outside the middleware."""
    return str(getattr(request, "request_id", ""))


def not_found(request: HttpRequest) -> HttpResponse:
    """The one answer for what is missing and what is somebody else's."""
    return render(request, "404.html", {"request_id": request_id(request)}, status=404)
