"""What is a burn-in asked for, and what does it find?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from nodeagent.protocol.codec import Integer, Many, Message, Text
from nodeagent.protocol.errors import WireError
from nodeagent.protocol.messages import Detail, Step
from nodeagent.protocol.topology import Uuid

MOST_BURN_IN_S = 2 * 86_400
"""Seconds; the longest that a host may be kept under load by one task."""


class BurnInVerdict(StrEnum):
    """Whether a host stood it."""

    PASS = "pass"
    FAIL = "fail"


@dataclass(frozen=True)
class BurnInParams(Message):
    """node.burn_in: put these GPUs under load for duration_s seconds.

    limit_s: after so many seconds it is killed with all that it started, done or not.
    """

    gpus: Annotated[tuple[Uuid, ...], Many(256, least=1)]
    duration_s: Annotated[int, Integer(1, MOST_BURN_IN_S)]
    limit_s: Annotated[int, Integer(2, 2 * MOST_BURN_IN_S)]

    def check(self, pointer: str) -> None:
        """No GPU twice, and time for what is asked."""
        if len(set(self.gpus)) != len(self.gpus):
            raise WireError(f"{pointer}/gpus", "not_unique", "one GPU is named twice")
        if self.limit_s <= self.duration_s:
            raise WireError(f"{pointer}/limit_s", "out_of_range", "it must be above duration_s")


@dataclass(frozen=True)
class BurnedGpu(Message):
    """How one GPU stood it; detail says what was measured, or what went wrong."""

    uuid: Uuid
    ok: bool
    detail: Annotated[str, Text(300, least=0)] = ""


@dataclass(frozen=True)
class BurnInResult(Message):
    """Result of node.burn_in. ran_s: seconds under load; method: what the load was."""

    verdict: BurnInVerdict
    method: Step
    detail: Detail
    ran_s: Annotated[int, Integer(0, 2 * MOST_BURN_IN_S)]
    gpus: Annotated[tuple[BurnedGpu, ...], Many(256, least=1)]

    def check(self, pointer: str) -> None:
        """It passes only where every GPU stood it, and names none twice."""
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus):
            raise WireError(f"{pointer}/gpus", "not_unique", "one GPU is named twice")
        if self.verdict is BurnInVerdict.PASS and not all(gpu.ok for gpu in self.gpus):
            raise WireError(f"{pointer}/verdict", "contradicted", "a GPU did not stand it")
