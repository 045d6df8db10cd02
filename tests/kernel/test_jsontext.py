"""Is everything written as JSON that the statements of the claim path are given?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuaas.kernel.jsontext import as_json, canonical_json


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


@dataclass(frozen=True)
class Thing:
    """Something that is no JSON."""

    name: str
    size: int


class Pair(NamedTuple):
    """A tuple of its own kind."""

    a: int
    b: str


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.text(st.characters(max_codepoint=127)),
    st.uuids(),
    st.datetimes(),
    st.decimals(allow_nan=False),
    st.builds(Thing, st.text(), st.integers()),
    st.builds(Pair, st.integers(), st.text()),
    st.just(Word.ONE),
)
NESTED = st.recursive(
    ODD,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(NESTED)
@settings(max_examples=1500, deadline=None)
def test_what_is_hashed_is_what_the_standard_library_writes_to_the_byte(value: Any) -> None:
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    assert canonical_json(value) == expected.encode()
