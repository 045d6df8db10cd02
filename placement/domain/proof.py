"""Is this evidence a complete proof for this claim?

A proof counts only for the claim, slot, attempt and boot it was asked for, and only when
every required step is there and succeeded. Anything else names what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SIGNATURE = "signature"
"""What is missing of evidence that its node did not sign, named like a step."""


@dataclass(frozen=True, slots=True)
class Missing:
    """One step that keeps the proof from being complete."""

    step: str
    why: str
    detail: str = ""


def missing_steps(
    steps: Iterable[Mapping[str, Any]],
    *,
    required: Iterable[str],
    optional_when_absent: Mapping[str, bool],
) -> tuple[Missing, ...]:
    """What is missing; empty means the proof is complete.

    ``steps`` are {step, ok, method, detail}. ``optional_when_absent`` maps a step to
    whether the device it is about is known not to exist: only then may a node call it
    not applicable. A step that is listed twice counts as failed if either failed.
    """
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for step in steps:
        seen.setdefault(str(step.get("step", "")), []).append(step)
    out = []
    for name in required:
        found = seen.get(name)
        if not found:
            out.append(Missing(name, "not_reported"))
            continue
        for step in found:
            if step.get("method") == "not_applicable":
                if not optional_when_absent.get(name, False):
                    out.append(Missing(name, "not_applicable_refused", str(step.get("detail", ""))))
            elif step.get("ok") is not True:
                out.append(Missing(name, "failed", str(step.get("detail", ""))))
    return tuple(out)
