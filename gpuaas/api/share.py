"""How much of a web process may hosts' messages take?  A small share, so that tenants get through.

A fleet speaks all the time, and all at once after an outage. A few of its messages are answered at
a time in each process, a few more wait in line on a thread each, and whoever comes then is told
when to come again. So only a few of its threads compete with a tenant's request for the
interpreter and for PostgreSQL, however many hosts there are.

Anybody can speak at these addresses. A message is there as a whole before it takes a turn
(``gpuaas.wsgi``): one that comes slowly or never holds its own thread, as at any other address, and
nobody's turn. And who has not yet signed a message that this process checked has a share apart:
strangers wait for strangers.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.http import HttpRequest, HttpResponseBase

from gpuaas.api import errors, problems
from gpuaas.api.lane import HOSTS
from placement.services.signatures import heard_before

AT_ONCE: Final = 4
IN_LINE: Final = 4
STRANGERS_AT_ONCE: Final = 2
STRANGERS_IN_LINE: Final = 4
PATIENCE_S: Final = 5.0
"""How long one waits in line; what is before it may itself wait for a lock that long."""
AGAIN_S: Final = (2, 8)
"""From when to when those that found no place come again, spread."""
JOIN: Final = f"{HOSTS}join"


class Share:
    """The places of one process for ``whom``: ``at_once`` to be answered in, ``in_line`` to wait
    in."""

    def __init__(
        self,
        at_once: int = AT_ONCE,
        in_line: int = IN_LINE,
        patience_s: float = PATIENCE_S,
        whom: str = "hosts",
    ) -> None:
        self._whom = whom
        self._at_once, self._in_line, self._patience_s = at_once, in_line, patience_s
        self._answering = threading.BoundedSemaphore(at_once)
        self._places = threading.BoundedSemaphore(at_once + in_line)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and have it for the block. Raises HostsBusy without a place, or when the
        wait was too long."""
        if not self._places.acquire(blocking=False):
            raise self._busy()
        try:
            if not self._answering.acquire(timeout=self._patience_s):
                raise self._busy()
            try:
                yield
            finally:
                self._answering.release()
        finally:
            self._places.release()

    def _busy(self) -> errors.HostsBusy:
        return errors.HostsBusy(
            f"Of {self._whom}, {self._at_once} are answered at a time here, and "
            f"{self._in_line} may wait.",
            retry_after_s=random.randint(*AGAIN_S),
            at_once=self._at_once,
            in_line=self._in_line,
        )


hosts = Share()
strangers = Share(
    STRANGERS_AT_ONCE, STRANGERS_IN_LINE, whom="hosts that join or were not heard here before"
)


class HostsShareMiddleware:
    """Lets hosts' messages in by turns, each once it is there."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer, or that it has to be asked for again."""
        if not request.path_info.startswith(HOSTS):
            return self.get_response(request)
        try:
            with _share_of(request).turn():
                return self.get_response(request)
        except errors.HostsBusy as refusal:
            return problems.plain_response(refusal, request)


def _share_of(request: HttpRequest) -> Share:
    """Whose turns it takes. Nothing is checked for it: the view does that, in its turn."""
    credential = request.META.get("HTTP_GPUAAS_CREDENTIAL", "")
    known = request.path_info != JOIN and heard_before(credential)
    return hosts if known else strangers
