"""The client library: how does a program talk to the control plane?

    with Client("https://gpu.example.org", token) as client:
        operation = client.allocations.create("research", sku="h100-slice", slots=2)
        client.operations.wait(operation["id"], timeout_s=600)

Errors are ProblemError (the server refused), TransportError (no answer), WaitTimeout and
OperationFailed, all from gpuaas.cli.problems. Amounts are integers: milli-units and
micro-currency.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlsplit

from gpuaas.cli.problems import (
    Json,
    OperationFailed,
    ProblemError,
    TransportError,
    UsageError,
    WaitTimeout,
)
from gpuaas.cli.transport import Transport, json_of

__all__ = ["Client", "OperationFailed", "Page", "ProblemError", "TransportError", "WaitTimeout"]

PAGE_LIMIT = 50
MAX_PAGE_LIMIT = 1000


class Page:
    """One page of a listing: `items` and the opaque cursor of the next, "" at the end."""

    def __init__(self, items: list[Json], next_cursor: str) -> None:
        self.items = items
        self.next = next_cursor


class Client:
    """A connection to one control plane, for one principal."""

    def __init__(self, server: str, token: str = "", **options: Any) -> None:
        """`options` are those of Transport: timeouts, attempts, request id, trace."""
        self._sleep: Callable[[float], None] = options.get("sleep", time.sleep)
        self.transport = Transport(server, token, **options)
        self.allocations = Allocations(self)
        self.operations = Operations(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    def pause(self, seconds: float) -> None:
        """Wait between polls."""
        self._sleep(seconds)

    def get(self, path: str, **params: Any) -> Json:
        """One object."""
        return _object(json_of(self.transport.request("GET", path, params=params)))

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        idempotency_key: str = "",
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """Create or act; the same idempotency key is sent on every retry of this call."""
        response = self.transport.request(
            "POST",
            path,
            params=params,
            body={} if body is None else body,
            headers=headers,
            idempotency_key=idempotency_key,
        )
        return _object(json_of(response))

    def put(
        self,
        path: str,
        body: Any,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """Set something; repeating it is one."""
        response = self.transport.request("PUT", path, params=params, body=body, headers=headers)
        return _object(json_of(response))

    def patch(self, path: str, body: Any, *, version: int) -> Json:
        """Change what has the version that was read, and nothing newer."""
        headers = {"If-Match": f'"{version}"'}
        response = self.transport.request("PATCH", path, body=body, headers=headers)
        return _object(json_of(response))

    def delete(self, path: str, **params: Any) -> None:
        """Remove one object."""
        self.transport.request("DELETE", path, params=params)

    def page(self, path: str, *, cursor: str = "", limit: int = PAGE_LIMIT, **params: Any) -> Page:
        """One page of a listing; `limit` is at most 1000."""
        asked = {**params, "limit": min(limit, MAX_PAGE_LIMIT), "cursor": cursor}
        return page_of(json_of(self.transport.request("GET", path, params=asked)))

    def whole(self, path: str, **params: Any) -> list[Json]:
        """A listing that the server gives in one piece."""
        return page_of(json_of(self.transport.request("GET", path, params=params))).items

    def items(self, path: str, *, limit: int | None = None, **params: Any) -> Iterator[Json]:
        """Every item of a listing, page after page, up to `limit` items in all."""
        cursor, given, seen = "", 0, set[str]()
        while True:
            want = MAX_PAGE_LIMIT if limit is None else min(limit - given, MAX_PAGE_LIMIT)
            if want <= 0:
                return
            page = self.page(path, cursor=cursor, limit=want, **params)
            for item in page.items[:want]:
                given += 1
                yield item
            if not page.next:
                return
            if page.next in seen:
                raise TransportError(f"the listing {path} repeats a page")
            seen.add(page.next)
            cursor = page.next


class Allocations:
    """Leases on GPU capacity."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(
        self,
        project: str,
        *,
        sku: str,
        slots: int | None = None,
        name: str = "",
        image: str = "",
        ssh_keys: list[str] | None = None,
        tier: str = "",
        queue: bool = False,
        idempotency_key: str = "",
    ) -> Json:
        """Ask for capacity; returns the Operation (state pending or further).

        `queue` waits in the queue when nothing fits now; otherwise that is ProblemError
        with code sku_unavailable. Give your own `idempotency_key` to survive a crash of
        the caller.
        """
        body = allocation_body(
            sku=sku,
            slots=slots,
            name=name,
            image=image,
            ssh_keys=ssh_keys,
            tier=tier,
            queue=queue,
        )
        return self._client.post(
            f"/projects/{segment(project)}/allocations", body, idempotency_key=idempotency_key
        )

    def plan(self, project: str, **wanted: Any) -> Json:
        """What the same `create` would decide and cost, changing nothing."""
        return self._client.post(
            f"/projects/{segment(project)}/allocations/plan", allocation_body(**wanted)
        )

    def get(self, allocation_id: str) -> Json:
        """One allocation with its four states."""
        return self._client.get(f"/allocations/{segment(allocation_id)}")

    def list(self, *, limit: int | None = None, **filters: Any) -> Iterator[Json]:
        """Allocations, newest first; filters: state, project."""
        return self._client.items("/allocations", limit=limit, **filters)

    def release(self, allocation_id: str, *, reason: str = "") -> Json:
        """Give it back, or cancel what is not active yet; returns the Operation."""
        return self._client.post(
            f"/allocations/{segment(allocation_id)}/actions/release", {"reason": reason}
        )


class Operations:
    """Long-running work; what an operation shows is the durable run itself."""

    # The server parks a waiting call at most this long; more polls follow.
    PARK_S = 25.0

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, operation_id: str) -> Json:
        """One operation."""
        return self._client.get(f"/operations/{segment(operation_id)}")

    def wait(
        self,
        operation_id: str,
        *,
        timeout_s: float = 600.0,
        on_change: Callable[[Json], None] = lambda operation: None,
    ) -> Json:
        """Wait until it has succeeded, and return it.

        `on_change` sees each answer. Raises OperationFailed when it ended otherwise,
        WaitTimeout when it was still going after `timeout_s` seconds.
        """
        started = time.monotonic()
        pause = 0.25
        while True:
            left = timeout_s - (time.monotonic() - started)
            park = max(0.0, min(self.PARK_S, left))
            asked = time.monotonic()
            response = self._client.transport.request(
                "GET",
                f"/operations/{segment(operation_id)}",
                params={"wait": f"{int(park)}s"} if park >= 1.0 else None,
                read_timeout_s=park + 15.0,
            )
            operation = _object(json_of(response))
            on_change(operation)
            if is_done(operation):
                if operation.get("state") != "succeeded":
                    raise OperationFailed(operation)
                return operation
            now = time.monotonic()
            if now - started >= timeout_s:
                raise WaitTimeout(operation, now - started)
            if now - asked < 1.0:
                # Answered at once: the server parks no more connections, so pace ourselves.
                self._client.pause(min(pause, max(0.0, timeout_s - (now - started))))
                pause = min(pause * 1.6, 3.0)


def allocation_body(
    *,
    sku: str,
    slots: int | None = None,
    name: str = "",
    image: str = "",
    ssh_keys: list[str] | None = None,
    tier: str = "",
    own: str = "",
    max_duration_s: int | None = None,
    queue: bool = False,
) -> Json:
    """The request body of an allocation; members that were not given are left out."""
    body: Json = {"sku": sku}
    optional: Json = {
        "slots": slots,
        "name": name,
        "image": image,
        "ssh_keys": ssh_keys,
        "tier": tier,
        "own": own,
        "max_duration_s": max_duration_s,
        "wait": queue,
    }
    body.update({key: value for key, value in optional.items() if value})
    return body


def is_done(operation: Mapping[str, Any]) -> bool:
    """Whether the operation will change no more."""
    return bool(operation.get("done")) or operation.get("state") in {
        "succeeded",
        "failed",
        "cancelled",
    }


def segment(value: str) -> str:
    """One path segment, so that no value can climb to another path."""
    if value in {"", ".", ".."}:
        raise UsageError(f"{value!r} is not an id or name")
    return quote(value, safe="")


def page_of(answer: Any) -> Page:
    """A page from a listing's answer, which is `{items, next}`."""
    items = answer.get("items") if isinstance(answer, Mapping) else None
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise TransportError("the server's answer is not a listing")
    following = str(answer.get("next") or "")
    if "cursor=" in following:
        following = parse_qs(urlsplit(following).query).get("cursor", [""])[0]
    return Page([dict(item) for item in items], following)


def _object(answer: Any) -> Json:
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        raise TransportError("the server's answer is not an object")
    return answer
