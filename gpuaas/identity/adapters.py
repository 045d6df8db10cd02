"""What do allauth's steps mean here?

allauth speaks the protocol; who comes in is decided here: an account that has signed in
this way before, or one whose address the provider says that it has verified. Nobody is made
an account by signing in. The second factor is asked by the gate, after every kind of sign-in.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any, NoReturn

import jwt
from allauth.account.adapter import DefaultAccountAdapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.contrib.auth import login
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from gpuaas.identity.openid import PROVIDER_ID
from gpuaas.kernel import events
from gpuaas.kernel.actor import Actor
from gpuaas.proxies import counted_as
from tenants.models import User

log = logging.getLogger(__name__)

BACKEND = "django.contrib.auth.backends.ModelBackend"
NONCE = "openid_nonce"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
LEEWAY_S = 30


def refused(request: HttpRequest, why: str, detail: str, status: int = 403) -> HttpResponse:
    """The page that tells a person why they do not come in this way."""
    return render(
        request, "portal/open_id_refused.html", {"why": why, "detail": detail}, status=status
    )


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """Signing in, without allauth's own pages, messages and steps."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Accounts are made by signing up here or by an invitation."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """As it is counted everywhere."""
        return counted_as(request.META.get("REMOTE_ADDR", ""))

    def get_login_stages(self) -> list[str]:
        """None: the gate asks for the second factor, whichever way somebody signed in."""
        return []

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """Our pages say what there is to say."""

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        """What changes is in the audit log."""

    def pre_login(self, request: HttpRequest, user: User, **how: Any) -> HttpResponse | None:
        """A closed account stays closed, whoever vouches for the person."""
        if user.is_active:
            return None
        return refused(request, "The account is closed", "Ask the platform's operator about it.")

    def login(self, request: HttpRequest, user: User) -> None:
        """Start the session; Django gives it a new key."""
        login(request, user, backend=BACKEND)

    def post_login(
        self, request: HttpRequest, user: User, *, redirect_url: str | None = None, **how: Any
    ) -> HttpResponse:
        """Where they wanted to go; the gate may lead them to their second factor first."""
        return redirect(redirect_url or "portal:front-door")


class OpenIdAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """Whom a provider's word lets in."""

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Tie a first sign-in to the account with the verified address; refuse strangers."""
        if sociallogin.is_existing:
            return
        verified = [one.email for one in sociallogin.email_addresses if one.verified]
        user = User.objects.filter(email__iexact=verified[0]).first() if verified else None
        if user is None:
            told = ", ".join(one.email for one in sociallogin.email_addresses) or "no address"
            raise ImmediateHttpResponse(
                refused(
                    request,
                    "You have no account here",
                    f"The provider gave {told}, and "
                    + (
                        "no account has it."
                        if verified
                        else "did not say that the address has been verified."
                    ),
                )
            )
        with transaction.atomic():
            sociallogin.user = user
            sociallogin.account.user = user
            sociallogin.account.save()
            events.record(
                kind="tenants.user.open_id_link",
                subject=user,
                actor=Actor(kind="user", id=str(user.pk), name=user.email),
                facts={"issuer": sociallogin.account.get_provider().app.settings["server_url"]},
            )

    def on_authentication_error(self, request: HttpRequest, *args: Any, **how: Any) -> NoReturn:
        """One page for every way in which the exchange can fail; nothing of it is shown."""
        cancelled = how.get("error") == "cancelled"
        if not cancelled:
            # The operator finds the cause here, under the request's id; no token is in it.
            why = how.get("exception") or "no such state, or the provider's own error"
            log.warning("a sign-in by OpenID Connect failed: %s", why)
        raise ImmediateHttpResponse(
            refused(
                request,
                "You were not signed in",
                "You went back before it was done."
                if cancelled
                else "The provider's answer could not be accepted. Please try again.",
                status=400,
            )
        )


class CheckedOpenId(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # allauth ships no types
    """The exchange with the provider, with every check of the ID token that there is.

    allauth leaves out the signature of a token that came over TLS, and sends no nonce.
    """

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request, PROVIDER_ID)

    def begin(self, next_url: str) -> HttpResponse:
        """Send the browser to the provider, with a state, a PKCE challenge and a nonce."""
        nonce = secrets.token_urlsafe(24)
        self.request.session[NONCE] = nonce
        answer: HttpResponse = self.get_provider().redirect(
            self.request, process="login", next_url=next_url or None, auth_params={"nonce": nonce}
        )
        return answer

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        """Our own address, the same going out and coming back."""
        return request.build_absolute_uri(reverse("openid_connect_callback", args=[PROVIDER_ID]))

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **how: Any) -> SocialLogin:
        """The person behind the tokens. Raises OAuth2Error when a check fails."""
        text = how["response"].get("id_token")
        if not isinstance(text, str):
            raise OAuth2Error("The provider sent no ID token.")
        claims = self._decode_id_token(app, text)
        shown = self._fetch_user_info(token.token)
        if shown.get("sub") != claims["sub"]:
            raise OAuth2Error("The provider's two answers are about two people.")
        return self.get_provider().sociallogin_from_response(
            request, {"userinfo": shown, "id_token": claims}
        )

    def _decode_id_token(self, app: Any, id_token: str) -> dict[str, Any]:
        config = self.openid_config
        wanted = app.settings["server_url"].rstrip("/")
        if str(config.get("issuer", "")).rstrip("/") != wanted:
            raise OAuth2Error("The provider names another issuer than the configured one.")
        try:
            header = jwt.get_unverified_header(id_token)
            if header.get("alg") not in ALGORITHMS:
                raise OAuth2Error("The ID token is not signed with an accepted algorithm.")
            claims: dict[str, Any] = jwt.decode(
                id_token,
                self._key(config["jwks_uri"], header),
                algorithms=[header["alg"]],
                audience=app.client_id,
                issuer=config["issuer"],
                leeway=LEEWAY_S,
                options={"require": ["exp", "iat", "sub", "aud", "iss"]},
            )
        except (jwt.PyJWTError, KeyError) as wrong:
            raise OAuth2Error("The ID token cannot be accepted.") from wrong
        expected = self.request.session.pop(NONCE, "")
        if not expected or not secrets.compare_digest(str(claims.get("nonce", "")), expected):
            raise OAuth2Error("The ID token belongs to another sign-in.")
        return claims

    def _key(self, address: str, header: dict[str, Any]) -> Any:
        with OpenIdAdapter(self.request).get_requests_session() as session:
            answer = session.get(address)
            answer.raise_for_status()
        keys = jwt.PyJWKSet.from_dict(answer.json()).keys
        # Where there is one key only, a token need not say which it is signed with.
        named = header.get("kid")
        found = [key for key in keys if key.key_id == named or (named is None and len(keys) == 1)]
        if not found:
            raise OAuth2Error("The ID token is signed with a key that the provider does not show.")
        return found[0].key
