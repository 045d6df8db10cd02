"""Where do the numbers go?  Raw into benchmarks/results, told in docs/benchmarks.md."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuaas.config import CHECKOUT

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = CHECKOUT / "docs" / "benchmarks.md"
TITLE = "# Benchmarks\n"
MOST_KEPT = 20
MOST_BYTES = 200_000
GOALS = {
    "p3_single": ("P3 single claim: engine ÷ hand-written function", "≥ 0.55"),
    "p3_batch": ("P3 cycle of 64 ÷ hand-written function", "≥ 2.5"),
    "p4_10k_over_100": ("P4 claim p50, 10 000 ÷ 100 nodes, worst fill", "≤ 1.5"),
    "p4_50k_over_100": ("P4 claim p50, 50 000 ÷ 100 nodes, worst fill", "≤ 2"),
    "p4_refusal": ("P4 no capacity ÷ success, p50, worst fleet", "≤ 1.2"),
    "p4_parts": ("P4 part of a GPU, p50, 50 000 ÷ 100 nodes, worst kind", "≤ 2"),
    "p5": ("P5 POST allocation ÷ DRF insert, same server", "≥ 0.5"),
    "p7_pss_mb": ("P7 memory of web and worker, MB", "≤ 350"),
    "p8_warm_s": ("P8 warm start to healthy, s", "≤ 4"),
}


def keep(name: str, results: dict[str, Any]) -> Path:
    """Write one run's raw numbers; the oldest files go when there are too many."""
    text = json.dumps(results, indent=1, ensure_ascii=False)
    if len(text) > MOST_BYTES:
        raise ValueError(f"{len(text)} bytes of results are too many to keep")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    path.write_text(text + "\n", encoding="utf-8")
    for old in sorted(RESULTS.glob(f"{name}-*.json"))[:-MOST_KEPT]:
        old.unlink()
    return path


def section(name: str, lines: Sequence[str], page: Path | None = None) -> None:
    """Replace one command's part of the page (or add it); what the others wrote stays."""
    page = page or PAGE
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    if not text.startswith(TITLE):
        text = TITLE
    part = "\n".join((begin, "", *lines)).rstrip() + f"\n\n{end}\n"
    before, found, rest = text.partition(begin)
    after = rest.partition(f"{end}\n")[2]
    whole = before + part + after if found else f"{text.rstrip()}\n\n{part}"
    page.write_text(whole, encoding="utf-8")


def machine_told(machine: Mapping[str, Any]) -> str:
    """On what it was measured, in one line."""
    return (
        f"Machine: {machine['cores']} cores, {machine['memory_mb'] // 1024} GB of memory, "
        f"{machine['disk']} (8 KiB written and synced in {machine['disk_sync_ms']} ms), "
        f"Python {machine['python']}, load {machine['load_1m']} at the start."
    )


def goals_told(goals: Mapping[str, tuple[str, str]], summary: Mapping[str, Any]) -> list[str]:
    """A table of goals, by key of the summary: title, what is wanted, what was measured."""
    lines = ["| goal | wanted | measured |", "|---|---|---|"]
    for key, (title, wanted) in goals.items():
        value = summary.get(key)
        lines.append(f"| {title} | {wanted} | {'not measured' if value is None else value} |")
    return lines


def comparisons(results: Mapping[str, Any]) -> list[str]:
    """A table of what was compared; nothing when nothing was."""
    rows = [
        "| comparison | ratio | noise | A median | B median | unit |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        if isinstance(found, dict) and "ratios" in found:
            middle = len(found["a"]) // 2
            a, b = sorted(found["a"])[middle], sorted(found["b"])[middle]
            rows.append(
                f"| {name} | {found['ratio']:.3f} | ± {found['noise']:.0%} | {a:.2f} | {b:.2f} "
                f"| {found['unit']} |"
            )
    return rows


def write_page(results: dict[str, Any], summary: dict[str, Any]) -> None:
    """Tell the last run in docs/benchmarks.md."""
    machine = results["machine"]
    product = results.get("p7, p8 product", {})
    lines = [
        "## Claims, memory and starts",
        "",
        "Written by `make bench-claims ARGS=--write`. Both sides of a comparison run in one",
        "session, A B A B, on the same durable PostgreSQL (fsync and synchronous_commit on); the",
        "ratio is the median of the pairwise ratios, the noise half the range of their middle",
        "half. Raw numbers are in `benchmarks/results`.",
        "",
        machine_told(machine),
        "",
        "| goal | wanted | measured |",
        "|---|---|---|",
    ]
    for key, (title, wanted) in GOALS.items():
        value = summary.get(key)
        lines.append(f"| {title} | {wanted} | {'not measured' if value is None else value} |")
    lines += ["", *comparisons(results), ""]
    if "pss_mb" in product:
        sizes = ", ".join(f"{mb} MB at {nodes} nodes" for nodes, mb in product["pss_mb"].items())
        lines += [
            f"Memory (proportional) of two web workers and the worker with its timer: {sizes}.",
            f"Warm starts: {product['warm_start_s']} s;",
            f"first start {product['first_start_s']} s.",
            "",
        ]
    for name, found in results.items():
        if isinstance(found, dict) and "not_measured" in found:
            lines.append(f"Not measured: {name}: {found['not_measured']}")
    section("claims", lines)
