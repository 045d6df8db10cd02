"""How is "rate by fleet size" drawn?  As one SVG on logarithmic axes, for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Final

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 210, 48, 56
STYLE: Final = """
svg { --ink: #1b1f24; --grid: #d0d7de; --paper: #ffffff;
      --c0: #0b5cad; --c1: #1a7f37; --c2: #b04a00; --c3: #7a3db8; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --grid: #3d444d; --paper: #0d1117;
        --c0: #6cb6ff; --c1: #57d07c; --c2: #ffa657; --c3: #d2a8ff; } }
text { font: 13px system-ui, sans-serif; fill: var(--ink); }
.title { font-size: 15px; font-weight: 600; }
.grid { stroke: var(--grid); stroke-width: 1; }
.paper { fill: var(--paper); }
"""
DASHES = ("", "8 4", "2 4", "10 3 2 3")
"""A line is known by its dashes and its name as well as by its colour."""
Curve = Mapping[int, float]


def _decades(low: float, high: float) -> range:
    return range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)


def drawn(title: str, curves: Mapping[str, Curve]) -> str:
    """An SVG of up to four curves of rate (1/s) by nodes; empty curves are left out.

    Raises ValueError when there is nothing to draw, or too much to tell apart.
    """
    seen = {name: {n: r for n, r in c.items() if r > 0} for name, c in curves.items()}
    seen = {name: curve for name, curve in seen.items() if curve}
    if not seen or len(seen) > len(DASHES):
        raise ValueError(f"between one and {len(DASHES)} curves can be drawn, not {len(seen)}")
    nodes = [n for curve in seen.values() for n in curve]
    rates = [rate for curve in seen.values() for rate in curve.values()]
    xs, ys = _decades(min(nodes), max(nodes)), _decades(min(rates), max(rates))

    def x(value: float) -> float:
        part = (math.log10(value) - xs[0]) / max(xs[-1] - xs[0], 1)
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        part = (math.log10(value) - ys[0]) / max(ys[-1] - ys[0], 1)
        return round(HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM), 1)

    told = "; ".join(
        f"{name}: " + ", ".join(f"{rate:.3g}/s at {n} nodes" for n, rate in sorted(curve.items()))
        for name, curve in seen.items()
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="t d">',
        f'<title id="t">{escape(title)}</title><desc id="d">{escape(told)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="26">{escape(title)}</text>',
    ]
    for power in xs:
        at = x(10.0**power)
        lines.append(
            f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text x="{at}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{10**power:,}</text>'
        )
    for power in ys:
        at = y(10.0**power)
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
            f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{10.0**power:g}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">nodes</text>')
    labels = _apart({name: y(curve[max(curve)]) for name, curve in seen.items()})
    for i, (name, curve) in enumerate(seen.items()):
        points = " ".join(f"{x(n)},{y(rate)}" for n, rate in sorted(curve.items()))
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="var(--c{i})" stroke-width="2.5" '
            f'stroke-dasharray="{DASHES[i]}"/>'
        )
        lines += [
            f'<circle cx="{x(n)}" cy="{y(rate)}" r="3.5" fill="var(--c{i})"/>'
            for n, rate in curve.items()
        ]
        at = x(max(curve)) + 10
        lines.append(
            f'<text x="{at}" y="{labels[name] + 4:.1f}" style="fill: var(--c{i})">'
            f"{escape(name)}</text>"
        )
    return "\n".join([*lines, "</svg>", ""])


def _apart(wanted: Mapping[str, float], gap: float = 17.0) -> dict[str, float]:
    """Heights for the names, near their lines' ends, none on another."""
    placed: dict[str, float] = {}
    last = -math.inf
    for name, at in sorted(wanted.items(), key=lambda entry: entry[1]):
        last = max(at, last + gap)
        placed[name] = last
    return placed
