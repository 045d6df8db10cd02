"""How does a page find its reader, its scope and its errors?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db import DataError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import Resolver404, resolve, reverse
from django.utils.http import urlencode
from django.views import View

from gpuaas.identity import gate
from gpuaas.kernel import errors
from gpuaas.kernel.actor import Actor
from gpuaas.kernel.scope import tenant_scope
from gpuaas.ui.frame import Crumb, Frame
from gpuaas.ui.needs import NOBODY, Needs
from tenants.domain.roles import may
from tenants.errors import BreakGlassReadOnly, SecondFactorNeeded
from tenants.models import BreakGlass, Tenant, User
from tenants.selectors import tenants_of
from tenants.services import break_glass
from tenants.services.access import user_actor


class SignedInView(View):
    """A page for somebody who has signed in; others are sent to sign in and come back."""

    user: User
    actor: Actor
    request: HttpRequest
    pages: ClassVar[Mapping[str, Needs]] = {}
    """What each page of this place needs, by the name of its address."""

    @property
    def needs(self) -> Needs:
        """What this page needs of its reader; one that the table does not name admits nobody."""
        match = self.request.resolver_match
        return self.pages.get((match.url_name if match else "") or "", NOBODY)

    @property
    def write_action(self) -> str:
        """The action that the page's forms need; empty where it has none."""
        return self.needs.write

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Find the reader, then answer."""
        if not isinstance(request.user, User):
            return redirect_to_login(request.get_full_path())
        self.user = request.user
        return self.enter(request, *args, **kwargs)

    def enter(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """What subclasses do between knowing the reader and answering."""
        self.actor = self.acting(None)
        return self.guarded(request, *args, **kwargs)

    def acting(self, tenant_id: UUID | None) -> Actor:
        """The reader as an actor, in a tenant or on the platform's side."""
        actor = user_actor(user=self.user, tenant_id=tenant_id, request_id=request_id(self.request))
        return replace(actor, factor_at=gate.factor_at(self.request))

    def guarded(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer, turning a product's error into its page. Runs inside the scope."""
        try:
            self.check_may(self.needs.write if request.method == "POST" else self.needs.read)
            check_address(request, kwargs)
            return self.answered(request, *args, **kwargs)
        except errors.ProductError as error:
            return self.error_page(error)

    def answered(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """The view's answer. A form tells a NUL beside its field; of others it is told here."""
        field = nul_in(request.POST)
        if field is None:
            return super().dispatch(request, *args, **kwargs)
        try:
            with transaction.atomic():
                response = super().dispatch(request, *args, **kwargs)
                if response.status_code != HTTPStatus.BAD_REQUEST:
                    raise no_nul(field)
                return response
        except errors.PermissionDenied:
            raise
        except (DataError, ValueError, errors.ProductError) as unkept:
            raise no_nul(field) from unkept

    def http_method_not_allowed(
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Whoever comes to where only a form leads, as after signing in again, is shown the page
        with the form."""
        if request.method not in {"GET", "HEAD"}:
            return super().http_method_not_allowed(request, *args, **kwargs)
        messages.info(request, "Nothing was sent. Fill in the form again if it is still wanted.")
        return redirect(page_above(request.path))

    def check_may(self, action: str) -> None:
        """Raises PermissionDenied unless the reader may do ``action``; empty is allowed."""
        if action and not self.may(action):
            raise errors.PermissionDenied

    def may(self, action: str) -> bool:
        """Whether the reader may do ``action``."""
        actor = self.actor
        return may(action, role=actor.role, operator=actor.operator_role, scopes=actor.scopes)

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
    window: BreakGlass | None = None
    """The window through which an operator looks in; None for the tenant's own people."""

    def enter(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Find the tenant among the reader's own; another's answers as a missing one does."""
        self.tenants = tuple(tenants_of(self.user))
        slug = kwargs.pop("tenant")
        found = next((t for t in self.tenants if t.slug == slug), None)
        if found is not None:
            self.tenant = found
            self.actor = self.acting(found.pk)
        elif not self.look_in(slug):
            return not_found(request)
        with tenant_scope(self.tenant.pk):
            return self.guarded(request, *args, **kwargs)

    def look_in(self, slug: str) -> bool:
        """An operator's look through an open window, recorded before anything is shown."""
        if not self.user.is_staff:
            return False
        tenant = Tenant.objects.select_related("tier").filter(slug=slug).first()
        window = break_glass.window_of(self.user.pk, tenant.pk) if tenant else None
        if tenant is None or window is None:
            return False
        self.tenant, self.window = tenant, window
        self.actor = break_glass.look(
            window=window,
            actor=self.acting(None),
            method=self.request.method or "",
            path=self.request.get_full_path(),
        )
        return True

    def check_may(self, action: str) -> None:
        """What a role allows; through a window, reading only."""
        if self.window is not None and self.request.method not in {"GET", "HEAD"}:
            raise BreakGlassReadOnly
        super().check_may(action)

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

    def error_page(self, error: errors.ProductError) -> HttpResponse:
        """Tell the failure; where only a code is missing, ask for it and come back."""
        if isinstance(error, SecondFactorNeeded):
            # What was sent is not sent again: the page it came from is shown, to do it anew.
            back = urlencode({"next": page_above(self.request.path)})
            return redirect(f"{reverse('portal:second-factor')}?{back}")
        return super().error_page(error)


def page_above(path: str) -> str:
    """The nearest page above an address that can be looked at: a form's own page."""
    while path != "/":
        path = path.rstrip("/").rpartition("/")[0] + "/"
        try:
            view = getattr(resolve(path).func, "view_class", None)
        except Resolver404:
            continue
        if hasattr(view, "get"):
            return path
    return path


def check_address(request: HttpRequest, address: Mapping[str, Any]) -> None:
    """Raises InvalidRequest for a NUL in the query; NotFound for one in an address."""
    if any("\0" in str(part) for part in address.values()):
        raise errors.NotFound
    field = nul_in(request.GET)
    if field is not None:
        raise no_nul(field)


def nul_in(given: QueryDict) -> str | None:
    """The first field with a NUL in it, which is no text to be kept."""
    for name, values in given.lists():
        if any("\0" in text for text in (name, *values)):
            return str(name).replace("\0", "")
    return None


def no_nul(field: str) -> errors.InvalidRequest:
    """The refusal of a NUL, naming its field."""
    return errors.InvalidRequest.of(field, "bad_format", "a NUL character is no text")


def request_id(request: HttpRequest) -> str:
    """The id under which this request is logged; empty outside the middleware."""
    return str(getattr(request, "request_id", ""))


def not_found(request: HttpRequest) -> HttpResponse:
    """The one answer for what is missing and what is somebody else's."""
    return render(request, "404.html", {"request_id": request_id(request)}, status=404)
