"""Is what is hashed the same text as ever, to the byte?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from admission.domain.canonical import canonical_json


class Word(StrEnum):
    """A text that is more than a text."""

    ONE = "one"


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
