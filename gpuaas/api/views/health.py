"""Is this process alive, and can it serve?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import redis
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse

from gpuaas.api import errors, problems
from gpuaas.kernel import clock
from gpuaas.kernel.models import Delivery

LAG_WARNING_S = 60
_migrated = threading.Event()
View = Callable[[HttpRequest], HttpResponse]


def _to_be_read(view: View) -> View:
    """For GET and HEAD alone; another method is told like everywhere, as a problem."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        if request.method in {"GET", "HEAD"}:
            return view(request)
        refused = problems.plain_response(errors.MethodRefused("Allowed here: GET, HEAD."), request)
        refused.headers["Allow"] = "GET, HEAD"
        return refused

    return answer


@_to_be_read
def livez(request: HttpRequest) -> HttpResponse:
    """200 while the process can answer at all; it asks nobody else."""
    return JsonResponse({"status": "ok"})


@_to_be_read
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when requests can be served, else 503. ``?verbose`` says what each part answered.

    The database and its migrations decide. The broker carries hints only, so its loss and a
    late outbox are warnings.
    """
    needed = {"database": _try(_database), "migrations": _try(_migrations)}
    wanted = {"broker": _try(_broker), "outbox": _try(_outbox)}
    ready = all(answer == "ok" for answer in needed.values())
    degraded = any(answer != "ok" for answer in wanted.values())
    body: dict[str, Any] = {
        "status": "unavailable" if not ready else "degraded" if degraded else "ok"
    }
    if "verbose" in request.GET:
        body["checks"] = needed | wanted
    response = JsonResponse(body, status=200 if ready else 503)
    response.headers["Cache-Control"] = "no-store"
    if not ready:
        response.headers["Retry-After"] = "2"
    return response


def _try(check: Callable[[], str]) -> str:
    """The check's word; a failure is told by its kind only, never by its text."""
    try:
        return check()
    except Exception as failure:
        return f"failed: {type(failure).__name__}"


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "ok"


def _migrations() -> str:
    # Migrations that have been applied stay applied: looked at until it is so, once a process.
    if not _migrated.is_set():
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return "pending"
        _migrated.set()
    return "ok"


def _broker() -> str:
    client = redis.Redis.from_url(
        settings.CONFIG.redis_url, socket_timeout=0.5, socket_connect_timeout=0.5, retry=None
    )
    try:
        client.ping()
    finally:
        client.close()
    return "ok"


def _outbox() -> str:
    oldest = (
        Delivery.objects.filter(state="pending").order_by("due_at").values_list("due_at").first()
    )
    if oldest is None:
        return "ok"
    age = (clock.db_now() - oldest[0]).total_seconds()
    return "ok" if age < LAG_WARNING_S else f"late: {int(age)} s"
