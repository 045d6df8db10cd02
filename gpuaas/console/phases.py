"""How are durations of leases read at a glance?  Half and most of them, in words and a bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.safestring import SafeString, mark_safe

from gpuaas.console.svg import el
from gpuaas.ui import formats
from placement.selectors import SkuPhases, Took

WIDE, HIGH = 1000, 10
BEFORE, WHOLE = ("waiting", "placed", "provisioning"), "until_active"
STEPS_S: Final = (10.0, 60.0, 600.0, 3600.0, 86_400.0, 7 * 86_400.0)
"""How far a bar reaches, in seconds: the shortest of these that holds the slowest."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A phase in words: within how long half of it was over, and nineteen of twenty."""

    half: str
    most: str


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One SKU's row: its phases in their order, and the bar of all of them together."""

    sku: str
    shape: str
    handed_over: int
    before: tuple[Cell | None, ...]
    whole: Cell | None
    bar: SafeString
    cleaned: Cell | None


def phase_rows(ones: Sequence[SkuPhases]) -> tuple[list[PhaseRow], str]:
    """The texts and the bar of each SKU, and how far all bars reach: one scale for all."""
    slowest = max((_whole(one).most_s for one in ones), default=0.0)
    reach = next((step for step in STEPS_S if slowest <= step), STEPS_S[-1])
    return [_row(one, reach) for one in ones], formats.span(reach)


def _whole(one: SkuPhases) -> Took:
    return one.phases.get(WHOLE, Took(0, 0.0, 0.0))


def _row(one: SkuPhases, reach: float) -> PhaseRow:
    told = one.phases
    return PhaseRow(
        one.sku,
        one.shape.replace("_", " "),
        one.handed_over,
        before=tuple(_cell(told.get(name)) for name in BEFORE),
        whole=_cell(told.get(WHOLE)),
        bar=_bar(_whole(one), reach),
        cleaned=_cell(told.get("releasing")),
    )


def _cell(took: Took | None) -> Cell | None:
    return None if took is None else Cell(_seconds(took.half_s), _seconds(took.most_s))


def _seconds(seconds: float) -> str:
    return "under 1 s" if seconds <= 1 else formats.span(round(seconds))


def _bar(took: Took, reach: float) -> SafeString:
    half = WIDE * min(took.half_s / reach, 1.0)
    most = WIDE * min(took.most_s / reach, 1.0)
    return mark_safe(
        el(
            "svg",
            el("rect", x=0, y=0, width=half, height=HIGH, cls="serving"),
            el("rect", x=half, y=0, width=max(most - half, 0.0), height=HIGH, cls="smaller"),
            viewBox=f"0 0 {WIDE} {HIGH}",
            preserveAspectRatio="none",
            cls="spread phases",
            aria_hidden="true",
        )
    )
