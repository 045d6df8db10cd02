"""How is idle capacity drawn: what of it serves large requests, and how it lies over the hosts?"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.safestring import SafeString, mark_safe

from gpuaas.console.svg import el, text
from placement.domain.mig import SLOT_MILLI
from placement.domain.part_stranding import PartStranding
from placement.domain.stranding import SCATTERED, Stranding

WIDE = 1000
CHART_H, COLUMN_W, GAP = 120, 44, 10


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the bar: its name, how it is drawn, and how many slots it is."""

    name: str
    cls: str
    slots: int


def parts_of(found: Stranding) -> list[Part]:
    """The slots of a product's hosts, from what is held to what is of no use."""
    last = found.fits[-1] if found.fits else None
    serving = last.now * last.size if last else 0
    scattered = found.causes.get(SCATTERED, 0)
    other = found.stranded - scattered
    smaller = max(found.open - serving - scattered, 0)
    size = f"{last.size}" if last else "the largest size"
    return [
        Part("held", "held", found.slots - found.idle),
        Part(f"free for requests of {size}", "serving", serving),
        Part("free for smaller ones only", "smaller", smaller),
        Part(f"scattered: would serve {size} if gathered", "scattered", scattered),
        Part("idle and of no use", "stranded", other),
    ]


def stretches_of(found: PartStranding) -> list[Part]:
    """Thousandths of the GPUs that are cut, from what is held to what is of no use."""
    return [
        Part("held", "held", found.cut_slots * SLOT_MILLI - found.idle),
        Part(f"free for {found.part}", "serving", found.open),
        Part("idle and of no use to it", "stranded", found.stranded),
    ]


def part_bar(found: PartStranding) -> SafeString:
    """The stacked bar of a part; the list beside it says the same."""
    return _bar(stretches_of(found), found.cut_slots * SLOT_MILLI, "thousandths of cut GPUs")


def bar(found: Stranding) -> SafeString:
    """The stacked bar; the list beside it says the same."""
    return _bar(parts_of(found), found.slots, "slots")


def _bar(parts: list[Part], all_of_it: int, unit: str) -> SafeString:
    total = max(all_of_it, 1)
    shapes, x = [], 0.0
    for part in parts:
        width = WIDE * part.slots / total
        if part.slots:
            shapes.append(el("rect", x=x, y=0, width=width, height=18, cls=part.cls))
        x += width
    said = ", ".join(f"{part.slots} {part.name}" for part in parts if part.slots)
    return mark_safe(
        el(
            "svg",
            *shapes,
            viewBox=f"0 0 {WIDE} 18",
            preserveAspectRatio="none",
            cls="spread",
            role="img",
            aria_label=f"Of {all_of_it} {unit}: {said or 'none'}",
        )
    )


def histogram(found: Stranding) -> SafeString:
    """A column for every number of open slots: how many hosts have it."""
    counts = found.histogram
    most = max(counts, default=0)
    tallest = max(counts.values(), default=1)
    shapes = []
    for n in range(most + 1):
        hosts = counts.get(n, 0)
        height = (CHART_H - 40) * hosts / tallest
        x = GAP + n * (COLUMN_W + GAP)
        y = CHART_H - 22 - height
        middle = x + COLUMN_W / 2
        shapes.append(
            el("rect", x=x, y=y, width=COLUMN_W, height=max(height, 1), cls="none" if not n else "")
        )
        shapes.append(text(str(hosts), middle, y - 5, "", anchor="middle"))
        shapes.append(text(str(n), middle, CHART_H - 6, "faint", anchor="middle"))
    width = GAP + (most + 1) * (COLUMN_W + GAP)
    said = ", ".join(f"{hosts} with {n} open" for n, hosts in counts.items())
    return mark_safe(
        el(
            "svg",
            *shapes,
            viewBox=f"0 0 {width} {CHART_H}",
            width=width,
            height=CHART_H,
            cls="spread columns",
            role="img",
            aria_label=f"Hosts that take work, by open slots: {said or 'none'}",
        )
    )
