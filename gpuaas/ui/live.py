"""How does an open page hear that something changed?  Server-sent events, and nothing held.

The stream carries no data: it says ``changed``, and the page fetches its part again, with
all its checks. While the stream is quiet it holds no database connection and no transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from django.http import StreamingHttpResponse

from gpuaas.kernel.notify import hub

LOOK_S = 5.0
RETRY_MS = 5_000
RETRY_FULL_MS = 15_000
LIFE = 120
"""After this many looks a stream ends, and the browser opens the next one."""


def event_stream(
    topics: Iterable[str], fingerprint: Callable[[], str | None]
) -> StreamingHttpResponse:
    """A stream that says ``changed`` whenever ``fingerprint`` gives another text.

    ``fingerprint`` opens the scope it needs; None means the thing is gone or no longer the
    reader's, and ends the stream.
    """
    response = StreamingHttpResponse(
        _changes(tuple(topics), fingerprint), content_type="text/event-stream; charset=utf-8"
    )
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def _changes(topics: tuple[str, ...], fingerprint: Callable[[], str | None]) -> Iterator[str]:
    seen: str | None = None
    yield f"retry: {RETRY_MS}\n\n"
    looks = 0
    for _ in hub.stream(topics, LOOK_S):
        now = fingerprint()
        if now is None:
            yield "event: gone\ndata: gone\n\n"
            return
        if seen is not None and now != seen:
            yield f"event: changed\ndata: {now}\n\n"
        else:
            yield ": quiet\n\n"
        seen = now
        looks += 1
        if looks >= LIFE:
            return
    if looks == 0:
        # Every seat is taken: the page asks again later, and is told then.
        yield f"retry: {RETRY_FULL_MS}\nevent: changed\ndata: full\n\n"
