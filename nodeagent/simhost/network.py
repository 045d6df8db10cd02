"""How do simulated hosts share one process's connections, and misbehave when told to?"""

from __future__ import annotations

import asyncio

import httpx

from nodeagent.simhost.faults import FaultMenu


class Gate(httpx.AsyncBaseTransport):
    """Lets so many requests at once into a shared pool.

    The pool's own queue gets slower with its length squared; waiting here costs nothing.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport, most: int) -> None:
        self._inner = inner
        self._free = asyncio.Semaphore(most)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send when there is room, and read the whole answer before making room again."""
        async with self._free:
            response = await self._inner.handle_async_request(request)
            await response.aread()
            return response

    async def aclose(self) -> None:
        """Close the pool."""
        await self._inner.aclose()


class FaultyTransport(httpx.AsyncBaseTransport):
    """Passes requests on, and loses what the menu says; the pool behind it is shared."""

    def __init__(self, inner: httpx.AsyncBaseTransport, menu: FaultMenu) -> None:
        self._inner = inner
        self._menu = menu

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send; a lost reply has been carried out by the server all the same."""
        if self._menu.read().drop_network:
            raise httpx.ConnectError("the network is down", request=request)
        response = await self._inner.handle_async_request(request)
        is_result = request.url.path.endswith(("/complete", "/fail"))
        if is_result and self._menu.take_count("lose_reply"):
            await response.aclose()
            raise httpx.ReadError("the reply was lost", request=request)
        return response

    async def aclose(self) -> None:
        """The shared pool is closed by its owner."""
