"""What are a benchmark's things called?  Without Django, for the process that measures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

CLASS: Final = "bench-slot"
FAMILY: Final = "bench-x8"
IMAGE: Final = "ubuntu-24.04-cuda"
METAL_IMAGE: Final = "ubuntu-24.04-baremetal"
TIER: Final = "bench"
TENANTS: Final = 16
PARTS: Final = "parts"
"""The pool of hosts whose GPUs are cut."""
KINDS: Final = ("mig", "gpu_share")
SIZES: Final = (1, 2, 4, 8, 16)
"""Slots that a host of some family has."""
SQL: Final = Path(__file__).resolve().parent / "sql"


def slices(pool: str) -> str:
    """The pool's SKU of slices."""
    return f"{pool}-slice"


def family_of(slots: int) -> str:
    """The family of hosts of so many slots."""
    return f"bench-x{slots}"


def part(pool: str, kind: str) -> str:
    """The pool's SKU of parts of this kind."""
    return f"{pool}-{kind}".replace("_", "-")


def metal(pool: str) -> str:
    """The pool's SKU of whole nodes."""
    return f"{pool}-node"


@dataclass(frozen=True)
class Buyer:
    """A tenant with a project, its owner, and the owner's API token."""

    tenant: str
    project: str
    owner: str
    email: str
    token: str = ""


def write(buyers: list[Buyer], path: Path) -> None:
    """Keep the buyers for client processes."""
    path.write_text(json.dumps([asdict(buyer) for buyer in buyers]), encoding="utf-8")
    path.chmod(0o600)


def read(path: Path) -> list[Buyer]:
    """The buyers that were kept."""
    return [Buyer(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))]
