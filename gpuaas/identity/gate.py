"""Has the person behind a session given their second factor?

A session whose second step is missing counts as nobody's: the middleware hides its person
from every page and address alike. Only the pages of the second factor ask who it would be.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from django.conf import settings
from django.contrib.auth.middleware import get_user
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponseBase
from django.utils.functional import SimpleLazyObject

from gpuaas.kernel import clock
from tenants.models import User
from tenants.services import second_factor

MARK = "second_factor"

Standing = Literal["not_needed", "passed", "code_needed", "setup_needed", "grace"]


def standing(user: User, session: SessionBase) -> Standing:
    """How far this person's sign-in has come. ``grace``: an operator of the demo."""
    factor = second_factor.factor_of(user.pk)
    if factor is not None:
        mark = session.get(MARK)
        passed = isinstance(mark, dict) and mark.get("factor") == factor
        return "passed" if passed else "code_needed"
    if not user.is_staff:
        return "not_needed"
    return "grace" if settings.OPERATOR_FACTOR_GRACE else "setup_needed"


def mark_passed(request: HttpRequest, user: User) -> None:
    """Remember when the factor was given; the session gets a new key."""
    request.session[MARK] = {
        "factor": second_factor.factor_of(user.pk),
        "at": clock.db_now().timestamp(),
    }
    request.session.cycle_key()


def factor_at(request: HttpRequest) -> datetime | None:
    """When this session's person last gave their second factor, if they did."""
    if not request.user.is_authenticated:
        return None
    found = getattr(request, "factor_at", None)
    return found if isinstance(found, datetime) else None


def pending_person(request: HttpRequest) -> User | None:
    """Who signed in here and has yet to give or set up their second factor."""
    if request.user.is_authenticated:
        return None
    found = getattr(request, "pending_person", None)
    return found if isinstance(found, User) else None


def _admitted(request: HttpRequest) -> User | AnonymousUser:
    user = get_user(request)
    if not isinstance(user, User):
        return AnonymousUser()
    found = standing(user, request.session)
    if found in {"code_needed", "setup_needed"}:
        request.pending_person = user  # type: ignore[attr-defined]  # read above
        return AnonymousUser()
    if found == "passed":
        at = request.session[MARK]["at"]
        request.factor_at = datetime.fromtimestamp(at, tz=UTC)  # type: ignore[attr-defined]  # for actors
    return user


class SecondFactorMiddleware:
    """Stands behind Django's own and lets through only whoever has come all the way."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Put the gate before ``request.user``; nobody is looked up before somebody asks."""
        request.user = SimpleLazyObject(lambda: _admitted(request))  # type: ignore[assignment]  # as Django's own
        return self.get_response(request)
