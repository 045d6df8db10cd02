"""What did a person type into a plan's form?  Wrong values are refused by the field's name."""

from __future__ import annotations

from uuid import UUID

from django.http import QueryDict

from gpuaas.kernel import errors

MOST_KEYS = 20


def wrong(pointer: str, code: str, detail: str) -> errors.InvalidRequest:
    """The refusal of one field."""
    return errors.InvalidRequest(
        f"{pointer.strip('/')}: {detail}.", errors=(errors.FieldError(pointer, code, detail),)
    )


def word(given: QueryDict, name: str, most: int = 120) -> str:
    """One field's text, cut to what is understood at all."""
    return given.get(name, "").strip()[:most]


def number(text: str, pointer: str, what: str = "a whole number") -> int | None:
    """A whole number, or None for nothing. Raises InvalidRequest naming the field."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise wrong(pointer, "not_a_number", what)
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
