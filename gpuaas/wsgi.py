"""What does the web server call?  Django, with each body that may be taken read before it.

A server that answers before it was sent the body closes the connection, and a client that is
still sending finds a broken pipe where the answer would be: who called too often, had no token or
meant another address would not learn it.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application

from gpuaas.api.middleware import is_machine_path
from gpuaas.proxies import caller_of

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings")

MISTAKES = 16
"""How many times longer than may be taken a body is still read through, to be refused in words."""
WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})
NO_LENGTH = "Nothing was done: a form is taken only with its length, as Content-Length.\n"

_django = get_wsgi_application()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Django, with a body that is there as a whole; of one that broke off nothing is carried out.

    One that came in chunks is given its length, since Django reads none without. The server does
    not tell whether such a one broke off: JSON that did is no JSON, but a form that did is a
    shorter form, so that a page takes none without a length. The API takes no form at all, and
    says so itself.
    """
    endless = not environ.get("CONTENT_LENGTH")
    if not _body_await(environ):
        # Said for the record: who would have read it is gone.
        return _refused(start_response, "400 Bad Request", "")
    if endless and _is_pages_form(environ):
        return _refused(start_response, "411 Length Required", NO_LENGTH)
    caller = caller_of(environ, settings.CONFIG.trusted_proxies)
    environ |= {"REMOTE_ADDR": caller.address, "wsgi.url_scheme": caller.scheme}
    return _django(environ, start_response)


def _refused(start_response: Callable[..., Any], status: str, words: str) -> Iterable[bytes]:
    body = words.encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return (body,)


def _is_pages_form(environ: dict[str, Any]) -> bool:
    kind = str(environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()
    path = str(environ.get("PATH_INFO", ""))
    return kind in FORMS and environ["REQUEST_METHOD"] == "POST" and not is_machine_path(path)


def _body_await(environ: dict[str, Any]) -> bool:
    """Have the body sent, and say whether it came to its end.

    Of one that is longer than may be taken, as much as a caller may send by mistake is heard out
    and not kept: Django refuses it for its length.
    """
    most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    stream, length = environ["wsgi.input"], environ.get("CONTENT_LENGTH") or ""
    if not length:
        if environ.get("wsgi.input_terminated") and environ["REQUEST_METHOD"] not in WITHOUT_BODY:
            body = _read(stream, most + 1)
            if len(body) > most:
                _pass_over(stream, most * MISTAKES - len(body), most)
            _keep(environ, body)
        return True
    announced = int(length) if length.isascii() and length.isdecimal() else 0
    if announced > most * MISTAKES:
        return True
    body = _read(stream, min(announced, most + 1))
    came = len(body) + _pass_over(stream, announced - len(body), most)
    _keep(environ, body)
    return came == announced


def _pass_over(stream: Any, length: int, at_once: int) -> int:
    """Hear out so many bytes, keeping none, and say how many of them came."""
    came = 0
    while came < length and (piece := _read(stream, min(length - came, at_once))):
        came += len(piece)
    return came


def _keep(environ: dict[str, Any], body: bytes) -> None:
    environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}


def _read(stream: Any, length: int) -> bytes:
    """So many bytes, or those that came before the end or the loss of the connection."""
    pieces = []
    with contextlib.suppress(OSError):
        while length and (piece := stream.read(length)):
            pieces.append(piece)
            length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
