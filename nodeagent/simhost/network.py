"""How does a simulated host's network misbehave when told to?"""

from __future__ import annotations

import httpx

from nodeagent.simhost.faults import FaultMenu


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
            await response.aread()
            await response.aclose()
            raise httpx.ReadError("the reply was lost", request=request)
        return response

    async def aclose(self) -> None:
        """The shared pool is closed by its owner."""
