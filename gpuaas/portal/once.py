"""How is what a form sends done once, however often it is sent?"""

from __future__ import annotations

from collections.abc import Callable

from gpuaas.kernel import idempotency
from gpuaas.portal.pages import TenantPage
from gpuaas.portal.typed import wrong


def address_of(page: TenantPage, once: str, canonical: bytes, act: Callable[[], str]) -> str:
    """Where ``act`` leads, or led when this very form was sent before.

    ``once`` is the id that the form was shown with, ``canonical`` what it says.
    """
    if not once:
        raise wrong("/once", "missing", "show the plan again and send it from there")
    fingerprint = idempotency.fingerprint_of("POST", page.request.path, canonical)
    with idempotency.guard(idempotency.principal_of(page.actor), once, fingerprint) as use:
        if use.replay is not None:
            return use.replay.headers["Location"]
        address = act()
        use.store(303, {"Location": address}, b"")
    return address
