"""How is an answer waited for?  Outside any transaction, with no database connection held."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TypeVar
from uuid import UUID

from gpuaas.api.problems import InvalidQuery
from gpuaas.kernel.errors import FieldError
from gpuaas.kernel.notify import hub
from gpuaas.kernel.scope import tenant_scope

T = TypeVar("T")
MOST_S = 60
_FORM = re.compile(r"(\d{1,4})s?")


def seconds_of(text: str) -> float:
    """The seconds of ``?wait=30s``; more than a minute is a minute. Raises InvalidQuery."""
    if not text:
        return 0.0
    found = _FORM.fullmatch(text)
    if found is None:
        wrong = FieldError("/wait", "bad_format", "seconds, such as 30s")
        raise InvalidQuery("wait is a number of seconds, such as 30s.", errors=(wrong,))
    return float(min(int(found[1]), MOST_S))


def until(
    topics: Iterable[str], wait_s: float, tenant_id: UUID | None, check: Callable[[], T | None]
) -> T | None:
    """Park until ``check``, run in the tenant's scope, gives something; None when it did not."""

    def look() -> T | None:
        with tenant_scope(tenant_id) if tenant_id else nullcontext():
            return check()

    return hub.wait(topics, wait_s, look)
