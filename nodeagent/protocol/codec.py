"""How does a frozen dataclass become JSON and, strictly, come back from it?

A wire type is a frozen dataclass deriving from Message. Its annotations are its schema: Text,
Integer, Many and Free in `Annotated[...]` give bounds, `X | None` allows null, enums and nested
messages are followed. A field with a default may be absent; any other must be there. A trailing
underscore (`from_`) is not part of the wire name.
"""

from __future__ import annotations

import enum
import re
import types
import typing
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin

from nodeagent.protocol.errors import WireError, child_pointer
from nodeagent.protocol.text import MAX_INTEGER, check_bounds, check_characters


@dataclass(frozen=True)
class Text:
    """Bounds of a string: length in characters, an optional pattern matching the whole."""

    most: int
    least: int = 1
    pattern: str = ""
    multiline: bool = False


@dataclass(frozen=True)
class Integer:
    """Inclusive bounds of an integer."""

    least: int = 0
    most: int = MAX_INTEGER


@dataclass(frozen=True)
class Many:
    """Bounds of a list's length."""

    most: int
    least: int = 0


@dataclass(frozen=True)
class Free:
    """A free-form JSON object with at most `most` members at its top; general bounds inside."""

    most: int = 64


class Message:
    """Base of every wire type."""

    # Answers of the control plane may grow new members; an older agent must not fail on them.
    ignores_unknown: ClassVar[bool] = False
    # Members that are not written where they are None or empty: a reader of before does not know
    # them, and what is signed without them must stay as it was.
    left_out_when_empty: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def from_json(cls, value: Any, pointer: str = "") -> Self:
        """Build from parsed JSON. Raises WireError naming the first offending value."""
        if not isinstance(value, dict):
            raise WireError(pointer, "wrong_type", "expected an object")
        schema = _schema(cls)
        if not cls.ignores_unknown:
            for key in value:
                if key not in schema:
                    where = child_pointer(pointer, key)
                    raise WireError(where, "unknown_field", "no such member is known here")
        taken: dict[str, Any] = {}
        for name, (attribute, hint, required) in schema.items():
            where = child_pointer(pointer, name)
            if name in value:
                taken[attribute] = _decode(hint, value[name], where)
            elif required:
                raise WireError(where, "missing", "this member is required")
        message = cls(**taken)
        message.check(pointer)
        return message

    def check(self, pointer: str) -> None:
        """Rules that span several members; raises WireError. Overridden where there are any."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this message, with every member but those that may be left out."""
        schema, may_go = _schema(type(self)), self.left_out_when_empty
        values = {name: getattr(self, field[0]) for name, field in schema.items()}
        return {
            name: _encode(value)
            for name, value in values.items()
            if name not in may_go or value not in (None, ())
        }


_SCHEMAS: dict[type[Message], dict[str, tuple[str, Any, bool]]] = {}


def _schema(cls: type[Message]) -> dict[str, tuple[str, Any, bool]]:
    """Per wire name: the attribute, its annotation, and whether it must be present."""
    known = _SCHEMAS.get(cls)
    if known is None:
        known = _SCHEMAS[cls] = _describe(cls)
    return known


def _describe(cls: type[Message]) -> dict[str, tuple[str, Any, bool]]:
    hints = typing.get_type_hints(cls, include_extras=True)
    described: dict[str, tuple[str, Any, bool]] = {}
    for item in fields(cls):  # type: ignore[arg-type]  # every Message is a dataclass
        required = item.default is MISSING and item.default_factory is MISSING
        described[item.name.rstrip("_")] = (item.name, hints[item.name], required)
    return described


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _decode(hint: Any, value: Any, pointer: str) -> Any:
    origin = get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _decode(_non_null(hint), value, pointer)
    if origin is Annotated:
        base, *bounds = get_args(hint)
        return _decode_bounded(base, bounds, value, pointer)
    if isinstance(hint, type):
        if issubclass(hint, Message):
            return hint.from_json(value, pointer)
        if issubclass(hint, enum.Enum):
            return _decode_enum(hint, value, pointer)
        if hint is bool:
            if not isinstance(value, bool):
                raise WireError(pointer, "wrong_type", "expected true or false")
            return value
    raise TypeError(f"wire types may not use {hint!r} without bounds")


def _decode_bounded(base: Any, bounds: list[Any], value: Any, pointer: str) -> Any:
    for bound in bounds:
        if isinstance(bound, Text):
            return _decode_text(bound, value, pointer)
        if isinstance(bound, Integer):
            return _decode_integer(bound, value, pointer)
        if isinstance(bound, Many):
            return _decode_many(bound, get_args(base)[0], value, pointer)
        if isinstance(bound, Free):
            return _decode_free(bound, value, pointer)
    return _decode(base, value, pointer)


def _decode_text(bound: Text, value: Any, pointer: str) -> str:
    if not isinstance(value, str):
        raise WireError(pointer, "wrong_type", "expected a string")
    if len(value) > bound.most:
        raise WireError(pointer, "too_long", f"longer than {bound.most} characters")
    if len(value) < bound.least:
        raise WireError(pointer, "too_short", f"shorter than {bound.least} characters")
    check_characters(value, pointer, multiline=bound.multiline)
    if bound.pattern and not _compiled(bound.pattern).fullmatch(value):
        raise WireError(pointer, "bad_format", "does not have the expected form")
    return value


def _decode_integer(bound: Integer, value: Any, pointer: str) -> int:
    # bool is an int in Python, but not on the wire; 1.0 is not an integer either.
    if isinstance(value, bool) or not isinstance(value, int):
        raise WireError(pointer, "wrong_type", "expected an integer")
    if not bound.least <= value <= bound.most:
        raise WireError(pointer, "out_of_range", f"not within {bound.least} to {bound.most}")
    return value


def _decode_many(bound: Many, member: Any, value: Any, pointer: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise WireError(pointer, "wrong_type", "expected a list")
    if len(value) > bound.most:
        raise WireError(pointer, "too_many", f"more than {bound.most} items")
    if len(value) < bound.least:
        raise WireError(pointer, "too_short", f"fewer than {bound.least} items")
    return tuple(
        _decode(member, item, child_pointer(pointer, index)) for index, item in enumerate(value)
    )


def _decode_free(bound: Free, value: Any, pointer: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WireError(pointer, "wrong_type", "expected an object")
    if len(value) > bound.most:
        raise WireError(pointer, "too_many", f"more than {bound.most} members")
    check_bounds(value, pointer)
    return dict(value)


def _decode_enum(hint: type[enum.Enum], value: Any, pointer: str) -> enum.Enum:
    if not isinstance(value, str):
        raise WireError(pointer, "wrong_type", "expected a string")
    for member in hint:
        if member.value == value:
            return member
    raise WireError(pointer, "unknown_value", f"not a known {hint.__name__}")


def _non_null(hint: Any) -> Any:
    return next(part for part in get_args(hint) if part is not types.NoneType)


def _encode(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value
