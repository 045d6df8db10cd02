"""Which part of a GPU is handed over, where it is not the whole?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from nodeagent.protocol.codec import Integer, Message, Text
from nodeagent.protocol.errors import WireError

# A form that is added here comes with a version of the agent: it is sent to none of before.
PROFILE_PATTERN = r"[1-9]g\.[1-9][0-9]{0,2}gb(\+me\.all|\+me|-me|\+gfx)?"
GPU_MILLI = 1000


class PartKind(StrEnum):
    """A MIG instance, or a share of a GPU's time and memory without isolation."""

    MIG = "mig"
    SHARE = "share"


@dataclass(frozen=True)
class GpuPart(Message):
    """A part of one GPU. mig: profile, start and size in memory slices; share: milli, memory_mib.

    The members of the other kind are null.
    """

    kind: PartKind
    profile: Annotated[str, Text(24, pattern=PROFILE_PATTERN)] | None = None
    start: Annotated[int, Integer(0, 7)] | None = None
    size: Annotated[int, Integer(1, 8)] | None = None
    milli: Annotated[int, Integer(1, GPU_MILLI)] | None = None
    memory_mib: Annotated[int, Integer(1, 2**31 - 1)] | None = None

    def check(self, pointer: str) -> None:
        """Exactly the members of its kind."""
        mig = (self.profile, self.start, self.size)
        share = (self.milli, self.memory_mib)
        own, others = (mig, share) if self.kind is PartKind.MIG else (share, mig)
        if None in own or any(value is not None for value in others):
            raise WireError(pointer, "wrong_members", f"not the members of a {self.kind} part")

    def end(self) -> int:
        """The memory slice after its last, of an instance."""
        return (self.start or 0) + (self.size or 0)


def parts_clash(wanted: GpuPart | None, others: Iterable[GpuPart | None]) -> bool:
    """Whether a part of a GPU cannot be beside those that are on it; None is the whole GPU."""
    there = list(others)
    if not there:
        return False
    if wanted is None or any(one is None or one.kind is not wanted.kind for one in there):
        return True
    parts = [one for one in there if one is not None]
    if wanted.kind is PartKind.SHARE:
        return sum(one.milli or 0 for one in (*parts, wanted)) > GPU_MILLI
    return any((one.start or 0) < wanted.end() and (wanted.start or 0) < one.end() for one in parts)
