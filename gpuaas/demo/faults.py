"""How is a simulated host told to misbehave?  By its own tool, as a person would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpuaas.config import CHECKOUT
from gpuaas.demo.fleet import hosts_folder


def fault_set(root: Path, host: str, *settings: str) -> None:
    """Set faults as ``name=value``, such as ``lie_cleanup=missing_step``."""
    _tool(root, host, *(word for setting in settings for word in ("--set", setting)))


def fault_clear(root: Path, host: str) -> None:
    """No faults any more."""
    _tool(root, host, "--clear")


def _tool(root: Path, host: str, *arguments: str) -> None:
    folder = hosts_folder(root) / host
    subprocess.run(
        [sys.executable, "-m", "nodeagent.simhost", "fault", str(folder), *arguments],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        timeout=30,
    )
