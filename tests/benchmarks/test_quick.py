"""Do the benchmark commands run from end to end?  Tiny, without peers, and without a clock."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from gpuaas.config import CHECKOUT


def _run(module: str, *words: str) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", module, "--quick", *words],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=240.0,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    summary: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return summary, done.stdout


def test_the_comparison_over_http_runs_and_our_side_of_the_race_gives_nothing_twice() -> None:
    summary, told = _run("benchmarks.beside", "--seconds", "0.1", "--only", "race,p5")
    assert summary["race_ours"] == 0, told
    assert summary["p5"] > 0
    assert summary["p1_1k"] is None, "what was not measured is not told"


def test_thirty_agents_come_back_after_an_outage_and_no_request_goes_unanswered() -> None:
    summary, told = _run("benchmarks.agents", "--only", "herd")
    assert summary["herd_s"] is not None, told
    assert summary["herd_failed"] == 0, told
