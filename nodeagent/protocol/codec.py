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
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
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
        try:
            return cls._read(value)
        except WireError as wrong:
            if not pointer:
                raise
            raise WireError(pointer + wrong.pointer, wrong.code, wrong.detail) from None

    @classmethod
    def _read(cls, value: Any) -> Self:
        """As from_json, with pointers from here on: where nothing is wrong none is made."""
        if not isinstance(value, dict):
            raise WireError("", "wrong_type", "expected an object")
        schema = _schema(cls)
        if not cls.ignores_unknown:
            for key in value:
                if key not in schema:
                    where = child_pointer("", key)
                    raise WireError(where, "unknown_field", "no such member is known here")
        taken: dict[str, Any] = {}
        for name, member in schema.items():
            if name in value:
                try:
                    taken[member.attribute] = member.decode(value[name])
                except WireError as wrong:
                    raise _within(name, wrong) from None
            elif member.required:
                where = child_pointer("", name)
                raise WireError(where, "missing", "this member is required")
        message = cls(**taken)
        message.check("")
        return message

    def check(self, pointer: str) -> None:
        """Rules that span several members; raises WireError. Overridden where there are any."""

    def to_json(self) -> dict[str, Any]:
        """The JSON object of this message, with every member but those that may be left out."""
        may_go = self.left_out_when_empty
        values = {
            name: getattr(self, member.attribute) for name, member in _schema(type(self)).items()
        }
        return {
            name: _encode(value)
            for name, value in values.items()
            if name not in may_go or value not in (None, ())
        }


Decoder = Callable[[Any], Any]
"""Takes a parsed value; raises WireError with a pointer from that value on."""


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of a message: its attribute, how it is read, and whether it must be present."""

    attribute: str
    decode: Decoder
    required: bool


_SCHEMAS: dict[type[Message], dict[str, _Member]] = {}


def _schema(cls: type[Message]) -> dict[str, _Member]:
    """The members per wire name, worked out once."""
    known = _SCHEMAS.get(cls)
    if known is None:
        known = _SCHEMAS[cls] = _describe(cls)
    return known


def _describe(cls: type[Message]) -> dict[str, _Member]:
    hints = typing.get_type_hints(cls, include_extras=True)
    described: dict[str, _Member] = {}
    for item in fields(cls):  # type: ignore[arg-type]  # every Message is a dataclass
        required = item.default is MISSING and item.default_factory is MISSING
        member = _Member(item.name, _decoder(hints[item.name]), required)
        described[item.name.rstrip("_")] = member
    return described


def _within(key: str | int, wrong: WireError) -> WireError:
    """The same error, seen from the value that has this member."""
    return WireError(child_pointer("", key) + wrong.pointer, wrong.code, wrong.detail)


def _decoder(hint: Any) -> Decoder:
    """How a value of this annotation is read; made once for each member."""
    origin = get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        return _or_null(_decoder(_non_null(hint)))
    if origin is Annotated:
        base, *bounds = get_args(hint)
        return _bounded(base, bounds)
    if isinstance(hint, type):
        if issubclass(hint, Message):
            return hint.from_json
        if issubclass(hint, enum.Enum):
            return _enum(hint)
        if hint is bool:
            return _boolean
    raise TypeError(f"wire types may not use {hint!r} without bounds")


def _or_null(decode: Decoder) -> Decoder:
    return lambda value: None if value is None else decode(value)


def _bounded(base: Any, bounds: list[Any]) -> Decoder:
    for bound in bounds:
        if isinstance(bound, Text):
            return _text(bound)
        if isinstance(bound, Integer):
            return _integer(bound)
        if isinstance(bound, Many):
            return _many(bound, _decoder(get_args(base)[0]))
        if isinstance(bound, Free):
            return _free(bound)
    return _decoder(base)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WireError("", "wrong_type", "expected true or false")
    return value


def _text(bound: Text) -> Decoder:
    fits = re.compile(bound.pattern).fullmatch if bound.pattern else None

    def decode(value: Any) -> str:
        if not isinstance(value, str):
            raise WireError("", "wrong_type", "expected a string")
        if len(value) > bound.most:
            raise WireError("", "too_long", f"longer than {bound.most} characters")
        if len(value) < bound.least:
            raise WireError("", "too_short", f"shorter than {bound.least} characters")
        check_characters(value, "", multiline=bound.multiline)
        if fits is not None and not fits(value):
            raise WireError("", "bad_format", "does not have the expected form")
        return value

    return decode


def _integer(bound: Integer) -> Decoder:
    def decode(value: Any) -> int:
        # bool is an int in Python, but not on the wire; 1.0 is not an integer either.
        if isinstance(value, bool) or not isinstance(value, int):
            raise WireError("", "wrong_type", "expected an integer")
        if not bound.least <= value <= bound.most:
            raise WireError("", "out_of_range", f"not within {bound.least} to {bound.most}")
        return value

    return decode


def _many(bound: Many, member: Decoder) -> Decoder:
    def decode(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise WireError("", "wrong_type", "expected a list")
        if len(value) > bound.most:
            raise WireError("", "too_many", f"more than {bound.most} items")
        if len(value) < bound.least:
            raise WireError("", "too_short", f"fewer than {bound.least} items")
        taken: list[Any] = []
        try:
            for item in value:
                taken.append(member(item))
        except WireError as wrong:
            raise _within(len(taken), wrong) from None
        return tuple(taken)

    return decode


def _free(bound: Free) -> Decoder:
    def decode(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise WireError("", "wrong_type", "expected an object")
        if len(value) > bound.most:
            raise WireError("", "too_many", f"more than {bound.most} members")
        check_bounds(value)
        return dict(value)

    return decode


def _enum(hint: type[enum.Enum]) -> Decoder:
    members = {member.value: member for member in hint}

    def decode(value: Any) -> enum.Enum:
        if not isinstance(value, str):
            raise WireError("", "wrong_type", "expected a string")
        member = members.get(value)
        if member is None:
            raise WireError("", "unknown_value", f"not a known {hint.__name__}")
        return member

    return decode


def _non_null(hint: Any) -> Any:
    return next(part for part in get_args(hint) if part is not types.NoneType)


def _encode(value: Any) -> Any:
    if value is None or type(value) in (str, int):
        return value
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value
