"""Is a thing that was looked at there, not there, or unknown, and why?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from nodeagent.protocol import DeviceFact, Presence

T = TypeVar("T")
U = TypeVar("U")
_MOST_CHARS = 500


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One reading. `value` is there exactly when presence is PRESENT; otherwise `reason` is."""

    presence: Presence
    value: T | None = None
    reason: str = ""

    def map(self, change: Callable[[T], U]) -> Fact[U]:
        """The same reading in another form."""
        if self.value is None:
            return Fact(self.presence, None, self.reason)
        return present(change(self.value))


def present(value: T) -> Fact[T]:
    """It was read."""
    return Fact(Presence.PRESENT, value)


def absent(reason: str) -> Fact[T]:
    """It was looked for, and whoever knows says that there is none."""
    return Fact(Presence.ABSENT, None, reason)


def unknown(reason: str) -> Fact[T]:
    """It could not be read. Never the same as absent."""
    return Fact(Presence.UNKNOWN, None, reason)


def on_the_wire(device: str | None, name: str, fact: Fact[object]) -> DeviceFact:
    """The reading as a report has it; text is cut to what the wire takes."""
    if fact.value is None:
        return DeviceFact(device, name, fact.presence, None, fact.reason or None)
    text = _text(fact.value)
    if not text:
        return DeviceFact(device, name, Presence.UNKNOWN, None, "unreadable_text")
    return DeviceFact(device, name, Presence.PRESENT, text[:_MOST_CHARS], None)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "".join(character for character in str(value) if character.isprintable()).strip()
