"""Where does Prometheus read this host?  On the loopback, unless the operator says otherwise."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from nodeagent.host.telemetry.exposition import CONTENT_TYPE

# The DCGM exporter's port, so that a scrape configuration made for it works.
DEFAULT_PORT = 9400
_PATH = "/metrics"
_TIMEOUT_S = 5.0


class MetricsEndpoint:
    """A small HTTP server with one page. It reads memory only, never the driver."""

    def __init__(
        self, page: Callable[[], str], *, address: str = "127.0.0.1", port: int = DEFAULT_PORT
    ) -> None:
        self._server = _Server((address, port), page)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    @property
    def port(self) -> int:
        """The port that was taken; useful where 0 was asked for."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_TIMEOUT_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, place: tuple[str, int], page: Callable[[], str]) -> None:
        super().__init__(place, _Handler)
        self.page = page


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _TIMEOUT_S
    server_version = "gpuaas-agent"
    sys_version = ""

    def do_GET(self) -> None:
        """The page, or not found."""
        # A scrape configuration may add parameters of its own, which mean nothing here.
        if self.path.partition("?")[0] != _PATH:
            self.send_error(404)
            return
        body = self.server.page().encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        """The same without the page: what probes ask."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not worth a line each."""
