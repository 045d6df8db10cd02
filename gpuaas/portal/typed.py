"""What did a person type into a plan's form?  Wrong values are refused by the field's name."""

from __future__ import annotations

from uuid import UUID

from django.http import QueryDict

from gpuaas.kernel import errors

MOST_KEYS = 20
DIGITS = 20
"""How much of a number is read at all: more is out of every range."""


def wrong(pointer: str, code: str, detail: str) -> errors.InvalidRequest:
    """The refusal of one field."""
    return errors.InvalidRequest(
        f"{pointer.strip('/')}: {detail}.", errors=(errors.FieldError(pointer, code, detail),)
    )


def word(given: QueryDict, name: str, most: int = 120) -> str:
    """One field's text, kept up to one character more than is taken: ``held`` refuses that."""
    return given.get(name, "").strip()[: most + 1]


def held(text: str, pointer: str, most: int = 120) -> str:
    """The text, if it is short enough. Raises InvalidRequest naming the field."""
    if len(text) > most:
        raise wrong(pointer, "too_long", f"at most {most} characters")
    return text


def number(
    text: str, pointer: str, what: str = "a whole number", *, least: int = 1, most: int
) -> int | None:
    """A whole number within bounds, or None for nothing. Raises InvalidRequest naming the field."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise wrong(pointer, "not_a_number", what)
    if not least <= int(text[:DIGITS]) <= most or len(text) > DIGITS:
        raise wrong(pointer, "out_of_range", f"{what} from {least} to {most}")
    return int(text)


def uuid_of(text: str, pointer: str) -> UUID:
    """An id that was chosen from a list. Raises InvalidRequest naming the field."""
    try:
        return UUID(text)
    except ValueError:
        raise wrong(pointer, "bad_format", "choose from the list") from None


def names(text: str) -> tuple[str, ...]:
    """Names parted by commas, each once."""
    return tuple(dict.fromkeys(part for raw in text.split(",") if (part := raw.strip())))
