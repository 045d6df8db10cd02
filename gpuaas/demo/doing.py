"""How does the demo act on the product?  As a client over HTTP, like everybody else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from gpuaas.cli.client import Client, ProblemError, TransportError
from gpuaas.cli.problems import Json

T = TypeVar("T")
POLL_S = 0.2


class NotSeen(Exception):
    """What was expected did not come in time; the message says what came instead."""


class Session:
    """Somebody who is signed in with a token of their own."""

    def __init__(self, url: str, email: str, password: str, *, request_id: str = "") -> None:
        with Client(url) as door:
            made = door.post(
                "/auth/token",
                {"email": email, "password": password, "name": "demo", "expires_in_days": 1},
            )
        self.email = email
        self.token = str(made["token"])
        self._token_id = str(made["id"])
        self.client = Client(url, self.token, request_id=request_id)

    def end(self) -> None:
        """Revoke the token: none is left behind."""
        self.client.delete(f"/tokens/{self._token_id}")
        self.client.close()

    def get(self, path: str, **params: Any) -> Json:
        """One object."""
        return self.client.get(path, **params)

    def post(self, path: str, body: Json | None = None, **how: Any) -> Json:
        """Create or act."""
        return self.client.post(path, body, **how)

    def items(self, path: str, **params: Any) -> list[Json]:
        """A whole listing."""
        return list(self.client.items(path, **params))

    def found(self, path: str) -> Json | None:
        """One object, or None when there is no such thing."""
        try:
            return self.client.get(path)
        except ProblemError as problem:
            if problem.status == 404:
                return None
            raise

    def refused(self, path: str, body: Json) -> ProblemError | None:
        """The refusal of a call that should be refused; None when it was not."""
        try:
            self.client.post(path, body)
        except ProblemError as problem:
            return problem
        return None


def until(
    what: str,
    look: Callable[[], T],
    good: Callable[[T], bool],
    *,
    timeout_s: float,
    show: Callable[[T], object] = lambda seen: seen,
) -> T:
    """Look until it is good. Raises NotSeen with what was expected and what was seen last."""
    deadline = time.monotonic() + timeout_s
    last = "nothing"
    while True:
        try:
            seen = look()
            if good(seen):
                return seen
            last = f"{show(seen)}"
        except TransportError as error:
            last = f"{error}"
        if time.monotonic() >= deadline:
            raise NotSeen(f"expected {what} within {timeout_s:.0f} s; seen: {last}")
        time.sleep(POLL_S)
