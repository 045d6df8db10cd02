"""Which slots do the traces of an earlier tenant touch, and when are they proven gone?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlotParts:
    """A slot's devices: those handed over with it, and those that it shares with others."""

    index: int
    own: frozenset[str]
    shared: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Said:
    """What a report says of one device. ``clean`` is None where the host does not know."""

    device: str
    present: bool
    held: bool
    clean: bool | None


def touched(device: str | None, slots: Iterable[SlotParts]) -> list[int]:
    """The slots that a named device belongs to. None: it touches more than can be told."""
    if not device:
        return []
    return sorted(s.index for s in slots if device in s.own or device in s.shared)


def known_clean(said: Iterable[Said]) -> frozenset[str]:
    """The devices of which a report says that they are there, nobody's, and clean."""
    clean: dict[str, bool] = {}
    for one in said:
        is_clean = one.present and not one.held and one.clean is True
        clean[one.device] = clean.get(one.device, True) and is_clean
    return frozenset(device for device, is_clean in clean.items() if is_clean)


def proven_clean(slot: SlotParts, clean: frozenset[str]) -> bool:
    """Whether every part of the slot is said to be clean: what is not spoken of is not."""
    return bool(slot.own) and slot.own <= clean


def blocking_codes(conditions: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """The codes of the conditions that take the whole node out of use.

    What was found on certain slots (``slots``) blocks those and nothing else: traces of an earlier
    tenant, or trouble of a single GPU.
    """
    return tuple(str(c["code"]) for c in conditions if not c.get("slots"))
