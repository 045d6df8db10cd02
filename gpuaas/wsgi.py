"""What does the web server call?"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuaas.settings")

WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

_django = get_wsgi_application()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Django, which reads no body without a length: one that came in chunks is given its own.

    Only where the server says that the body ends by itself. Of a longer one than is ever taken
    just enough is read for Django to refuse it.
    """
    if (
        not environ.get("CONTENT_LENGTH")
        and environ.get("wsgi.input_terminated")
        and environ["REQUEST_METHOD"] not in WITHOUT_BODY
    ):
        most: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body: bytes = environ["wsgi.input"].read(most + 1)
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
    return _django(environ, start_response)
