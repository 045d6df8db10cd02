"""Which provider of OpenID Connect may people sign in with?"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from gpuaas.config import OpenIdProvider

PROVIDER_ID = "openid"


def providers(provider: OpenIdProvider | None) -> dict[str, Any]:
    """What allauth wants in its settings; nothing when no provider is configured."""
    if provider is None:
        return {}
    app = {
        "provider_id": PROVIDER_ID,
        "name": provider.name,
        "client_id": provider.client_id,
        "secret": provider.client_secret,
        "settings": {
            "server_url": provider.issuer,
            "oauth_pkce_enabled": True,
            "scope": ["openid", "email", "profile"],
        },
    }
    return {"openid_connect": {"APPS": [app]}}


def provider_name() -> str:
    """What the button says, or an empty string when no provider is configured."""
    apps = settings.SOCIALACCOUNT_PROVIDERS.get("openid_connect", {}).get("APPS", [])
    return str(apps[0]["name"]) if apps else ""
