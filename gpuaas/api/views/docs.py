"""Where is the API described?  The document, and pages to read it that need no other host."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe
from drf_spectacular.views import SpectacularSwaggerView
from rest_framework.renderers import BaseRenderer, TemplateHTMLRenderer
from rest_framework.request import Request

from gpuaas.api.base import OnlyJson, StaticView
from gpuaas.api.permissions import Declared
from gpuaas.api.schema import document
from gpuaas.kernel.errors import catalogue

PAGE_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


class Schema(StaticView):
    """The OpenAPI document."""

    schema = None

    def get(self, request: Request) -> HttpResponseBase:
        """The document as YAML: the very file that the repository keeps."""
        return HttpResponse(document(), content_type="application/yaml; charset=utf-8")


class AlwaysHtml(OnlyJson):
    """This one page is for people."""

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """The HTML renderer."""
        return renderers[0], renderers[0].media_type


class Docs(SpectacularSwaggerView):
    """The document, to read and try. Its assets come from an installed package."""

    schema = None
    url_name = "api:schema"
    authentication_classes = ()
    permission_classes = (Declared,)
    renderer_classes = [TemplateHTMLRenderer]  # noqa: RUF012 - as the base class has it
    content_negotiation_class = AlwaysHtml

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Any:
        """The page, with a policy that lets nothing in from elsewhere."""
        response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]  # theirs
        response.headers["Content-Security-Policy"] = PAGE_POLICY
        return response


@require_safe
def problem_page(request: HttpRequest, kind: str) -> HttpResponse:
    """Where a problem's ``type`` leads: to the page of its reason code."""
    code = kind.replace("-", "_")
    if code not in catalogue():
        raise Http404
    return HttpResponseRedirect(f"/docs/reasons/{code}")
