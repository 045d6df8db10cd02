"""Which version does an address show now?  For changes that name the one that they mean."""

from __future__ import annotations

from django.db import connection
from django.urls import Resolver404, resolve
from rest_framework.request import Request

from gpuaas.api import conditional


def version_shown(request: Request) -> int | None:
    """The version of what is shown at the request's address, or at the nearest one above it; None
    where that has no version.

    Of such changes at one address each waits for the end of the one before, so that of two who read
    the same version only one goes on. Raises what showing it raises.
    """
    path = request.path.rstrip("/")
    while path:
        try:
            match = resolve(path)
        except Resolver404:
            match = None
        view = getattr(match.func, "cls", None) if match is not None else None
        if match is not None and view is not None and hasattr(view, "get"):
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [path])
            above = view()
            above.request, above.args, above.kwargs = request, (), match.kwargs
            return conditional.version_in(above.get(request, **match.kwargs).get("ETag", ""))
        path = path.rpartition("/")[0]
    return None
