"""What does an answer over HTTP say when it is not the one that was hoped for?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from nodeagent.protocol import Problem, WireError, load_json

_MOST_CHARS = 300
_PROBLEM = "application/problem+json"
_JSON = "application/json"


@dataclass(frozen=True)
class Answer:
    """One whole answer."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def refusal_in(answer: Answer) -> tuple[Problem, float | None, bool]:
    """The problem, after how many seconds to come back, and whether somebody else has said so.

    The control plane refuses with a problem document (RFC 9457), named so, that has a code. A proxy
    answers with a page, or with a document of its own, which may well have a code, too.
    """
    after = seconds_to_wait(answer.headers)
    try:
        if _kind_of(answer) == _PROBLEM:
            return Problem.from_json(load_json(answer.content)), after, False
    except WireError:
        pass
    return Problem(code=f"http_{answer.status}"), after, True


def is_taken(answer: Answer) -> bool:
    """Whether an answer is in the form in which the control plane says yes."""
    return answer.status == 200 and _kind_of(answer) == _JSON


def _kind_of(answer: Answer) -> str:
    """The media type (RFC 9110, 8.3.1), without parameters."""
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Retry-After (RFC 9110, 10.2.3): seconds, or a date, which counts from the answer's own."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        # This host's clock may be a day off; the answer's is that of whoever gave the date.
        then, now = map(parsedate_to_datetime, (text, headers.get("Date", "")))
        return max(0.0, (then - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def cause_of(error: BaseException) -> str:
    """Why no answer came, in the words of whoever knew most: the innermost that says anything."""
    told = type(error).__name__
    inner: BaseException | None = error
    seen: set[int] = set()
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        said = "".join(sign if sign.isprintable() else " " for sign in str(inner)).strip()
        if said:
            told = f"{type(error).__name__}: {said}"
        inner = inner.__cause__ or inner.__context__
    return told[:_MOST_CHARS]
