"""Is everything written as JSON that the statements of the claim path are given?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import pytest

from gpuaas.kernel.jsontext import as_json


class Word(StrEnum):
    """A text that is more than a text."""

    ONE = "one"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, True, "ü"]}, '{"a":[1,null,true,"ü"]}'),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        ({Word.ONE: Word.ONE}, '{"one":"one"}'),
        ({3: 1 << 70}, '{"3":1180591620717411303424}'),
        ({Word.ONE: UUID(int=1)}, '{"one":"00000000-0000-0000-0000-000000000001"}'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00+00:00"'),
    ],
)
def test_a_value_is_written_as_it_would_be_read(value: Any, text: str) -> None:
    assert json.loads(as_json(value)) == json.loads(text)
