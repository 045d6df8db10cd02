"""Where are the topology files?  The demo's five, and those that only tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "deploy" / "demo" / "topology", ROOT / "tests" / "fixtures" / "topology")


def topology_file(name: str) -> Path:
    """The file of this name, in whichever folder has it."""
    found = [folder / name for folder in FOLDERS if (folder / name).exists()]
    assert len(found) == 1, f"{name} is in {len(found)} folders"
    return found[0]


def topology_files() -> list[Path]:
    """Every topology file, by name."""
    return sorted(
        (path for folder in FOLDERS for path in folder.glob("*.xml")), key=lambda path: path.name
    )
