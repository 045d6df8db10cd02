"""What is promised or demanded about where something is placed?  Data, of SKU, tier and pool.

Promises add up: whoever promises more wins. Versions are compared part by part, as numbers;
a host that has not said its version meets no demand on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import UUID

Version = tuple[int, ...]


class Alone(IntEnum):
    """What a claim shares with other tenants."""

    SHARES = 0
    WIRING = 1
    """No switch, NVLink domain or NIC."""
    NODE = 2
    """No host."""


class Own:
    """How the tenant's own claims bind the choice of hosts."""

    ANY = ""
    WITH = "with"
    """Only hosts on which the tenant has something."""
    APART = "apart"
    """Only hosts on which the tenant has nothing."""


OWN = (Own.ANY, Own.WITH, Own.APART)


class BadVersion(ValueError):
    """A version that is not numbers joined by dots."""


def version_of(text: str) -> Version:
    """``535.104.5`` as numbers; an empty text is the empty version. Raises BadVersion."""
    if not text:
        return ()
    parts = text.split(".")
    if len(parts) > 4 or not all(part.isdecimal() and len(part) <= 9 for part in parts):
        raise BadVersion(f"{text!r} is not one to four numbers joined by dots")
    return tuple(int(part) for part in parts)


def told(version: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class Terms:
    """All that binds one placement beside its size; the default binds nothing."""

    alone: Alone = Alone.SHARES
    own: str = Own.ANY
    driver_min: Version = ()
    driver_below: Version = ()
    runtime_min: Version = ()
    tenants: tuple[str, ...] = ()
    """Ids of the tenants that a dedicated pool is for; empty: everybody."""
    never: tuple[UUID, ...] = ()
    """The tenants that are never placed on one host with this one, in order."""

    @property
    def about_tenants(self) -> bool:
        """Whether it matters who holds what on a host."""
        return self.alone > Alone.SHARES or self.own != Own.ANY or bool(self.never)

    @property
    def bind(self) -> bool:
        """Whether some hosts are ruled out by them."""
        return bool(self.about_tenants or self.driver_min or self.driver_below or self.runtime_min)

    def as_json(self) -> dict[str, Any]:
        """What is bound, for the record."""
        parts = {
            "alone": self.alone.name.lower() if self.alone else "",
            "own": self.own,
            "driver_min": told(self.driver_min),
            "driver_below": told(self.driver_below),
            "runtime_min": told(self.runtime_min),
            # How many they are, never who.
            "never_together_with": len(self.never),
        }
        return {name: value for name, value in parts.items() if value}


FREE = Terms()


def merged(rows: Iterable[Mapping[str, Any]]) -> Terms:
    """The terms of several rows together: the most that any promises, the least that fits all.

    Of a demand to be with and one to be apart from the tenant's own, apart wins. Only a pool's
    row names tenants.
    """
    out = FREE
    for row in rows:
        own = {out.own, row["own"]} - {Own.ANY}
        below = [v for v in (out.driver_below, tuple(row["driver_below"])) if v]
        out = Terms(
            alone=Alone(max(out.alone, row["alone"])),
            own=Own.APART if Own.APART in own else max(own, default=Own.ANY),
            driver_min=max(out.driver_min, tuple(row["driver_min"])),
            driver_below=min(below, default=()),
            runtime_min=max(out.runtime_min, tuple(row["runtime_min"])),
            tenants=out.tenants or tuple(row["tenants"]),
        )
    return out
