"""How does a person come in through the configured provider of OpenID Connect?"""

from __future__ import annotations

from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_safe
from requests import RequestException

from gpuaas.identity.adapters import CheckedOpenId, refused
from gpuaas.identity.openid import PROVIDER_ID, provider_name
from gpuaas.portal.views.session import own_address


@require_safe
def begin(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Send the browser to the provider."""
    _known(provider_id)
    wanted = own_address(request, request.GET.get("next", "/"))
    try:
        return CheckedOpenId(request).begin(wanted)
    except (OAuth2Error, RequestException, KeyError, ValueError):
        return refused(
            request,
            "The provider does not answer",
            "Try again in a while, or sign in with your password.",
            status=503,
        )


@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Take the browser back, check what it brings, and sign the person in."""
    _known(provider_id)
    view = OAuth2CallbackView.adapter_view(CheckedOpenId(request))
    answer: HttpResponseBase = view(request)
    return answer


def _known(provider_id: str) -> None:
    if provider_id != PROVIDER_ID or not provider_name():
        raise Http404
