"""Does the hardware check say clearly what is not there, and end whatever hangs?"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nodeagent.host import hardware
from tests.nodeagent.host_facts.fake import FakeNvml, build

ROOT = Path(__file__).resolve().parents[2]


def checked(script: Path, out: Path, *arguments: str, **env: str) -> dict[str, dict[str, Any]]:
    """Run it as on a bare machine; each check's result by its name."""
    ran = subprocess.run(
        [str(script), "--out", str(out), *arguments],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stderr
    found = json.loads((out / "report.json").read_text())
    return {one["check"]: one for one in found}


def test_a_machine_with_nothing_but_python_is_told_what_it_lacks(tmp_path: Path) -> None:
    """This tree without its packages, run by an interpreter that has none."""
    bare = tmp_path / "tree"
    (bare / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "hardware-check", bare / "scripts")
    shutil.copytree(ROOT / "nodeagent", bare / "nodeagent")
    clean = tmp_path / "bin"
    clean.mkdir()
    (clean / "python3.11").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (clean / "python3.11").chmod(0o755)
    (clean / "dirname").symlink_to(str(shutil.which("dirname")))
    out = tmp_path / "out"
    ran = subprocess.run(
        [str(bare / "scripts" / "hardware-check"), "--out", str(out)],
        env={"PATH": str(clean)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = {one["check"]: one for one in json.loads((out / "report.json").read_text())}
    assert list(found) == list(hardware.CHECKS)
    assert found["machine"]["status"] == "ok"
    for name in ("nvml", "discovery", "telemetry", "cleanup_looks"):
        assert found[name]["status"] == "absent"
        assert "pynvml is not installed" in found[name]["detail"]
    assert found["scrub"]["status"] == "not_asked"
    assert "| nvml | absent |" in (out / "report.md").read_text()


def test_gpus_are_read_discovered_and_measured(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    fake, scenario = build(library), tmp_path / "scenario"
    FakeNvml(fake, scenario).play(gpus=3)
    env = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_SCENARIO": str(scenario)}
    found = checked(ROOT / "scripts" / "hardware-check", tmp_path / "out", **env)
    assert found["nvml"]["status"] == "ok", found["nvml"]
    assert found["nvml"]["facts"]["gpus"][0]["name"]["value"] == "NVIDIA H100 80GB HBM3"
    assert "3 GPUs" in found["discovery"]["detail"]
    assert found["telemetry"]["status"] == "ok"
    assert len(found["cleanup_looks"]["facts"]["gpus"]) == 3
    assert found["scrub"]["status"] == "not_asked"


def test_a_check_that_hangs_is_ended_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "pynvml.py").write_text("import time\ntime.sleep(600)\n")
    # Found before the installed one.
    monkeypatch.setattr(hardware, "_environment", lambda _: _first(folder))
    began = time.monotonic()
    options = argparse.Namespace(limit=5.0, packages=[], allow_reset="")
    assert hardware.apart("nvml", options)["status"] == "timed_out"
    assert hardware.apart("machine", options)["status"] == "ok"
    assert time.monotonic() - began < 60


def _first(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}:{ROOT}"}


def test_what_breaks_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_: argparse.Namespace) -> hardware.Found:
        raise OSError("the bus is gone")

    monkeypatch.setitem(hardware.CHECKS, "machine", breaks)
    found = hardware.one("machine", argparse.Namespace())
    assert (found.status, found.detail) == ("failed", "OSError: the bus is gone")
